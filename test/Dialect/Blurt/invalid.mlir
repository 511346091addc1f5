// RUN: bt-opt %s -split-input-file -verify-diagnostics

#id = affine_map<(d0) -> (d0)>
#two = affine_map<(d0, d1) -> (d0)>
func.func @g1(%x: tensor<8xf32>) {
  // expected-error @+1 {{input map 0 has 2 dims and 0 symbols, expected 1 and 0}}
  %y = blurt.group "f" domain [8] ins(%x [#two] : tensor<8xf32>) outs([#id]) -> tensor<8xf32> {
  ^bb0(%e: f32):
    blurt.group_yield %e : f32
  }
  return
}

// -----

#id = affine_map<(d0) -> (d0)>
func.func @g2_extent(%x: tensor<8xf32>) {
  // expected-error @+1 {{input 0 dim 0 is 8, expected 4}}
  %y = blurt.group "f" domain [4] ins(%x [#id] : tensor<8xf32>) outs([#id]) -> tensor<4xf32> {
  ^bb0(%e: f32):
    blurt.group_yield %e : f32
  }
  return
}

// -----

#twice = affine_map<(d0) -> (d0, d0)>
#id = affine_map<(d0) -> (d0)>
func.func @g2_twice(%x: tensor<8x8xf32>) {
  // expected-error @+1 {{input map 0 names d0 twice}}
  %y = blurt.group "f" domain [8] ins(%x [#twice] : tensor<8x8xf32>) outs([#id]) -> tensor<8xf32> {
  ^bb0(%e: f32):
    blurt.group_yield %e : f32
  }
  return
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
func.func @g3(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{output map 0 leaves out d1, which is not reduced}}
  %y = blurt.group "f" domain [4, 8] ins(%x [#id] : tensor<4x8xf32>) outs([#row]) -> tensor<4xf32> {
  ^bb0(%e: f32):
    blurt.group_yield %e : f32
  }
  return
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
func.func @g4(%x: tensor<4x8xf32>) {
  %y = blurt.group "f" domain [4, 8] reduce [1] ins(%x [#id] : tensor<4x8xf32>) outs([#row]) -> tensor<4xf32> {
  ^bb0(%e: f32):
    // expected-error @+1 {{operand 0 varies along d1, which output map 0 leaves out}}
    blurt.group_yield %e : f32
  }
  return
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @g5(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{reduced dim is 0, expected ascending dims below 2}}
  %y = blurt.group "f" domain [4, 8] reduce [1, 0] ins(%x [#id] : tensor<4x8xf32>) outs([#id]) -> tensor<4x8xf32> {
  ^bb0(%e: f32):
    blurt.group_yield %e : f32
  }
  return
}

// -----

#id = affine_map<(d0) -> (d0)>
func.func @g6_op(%x: tensor<8xf32>) {
  %y = blurt.group "f" domain [8] ins(%x [#id] : tensor<8xf32>) outs([#id]) -> tensor<8xf32> {
  ^bb0(%e: f32):
    // expected-error @+1 {{is not allowed in the body of a blurt.group}}
    %t = tensor.empty() : tensor<2xf32>
    blurt.group_yield %e : f32
  }
  return
}

// -----

#id = affine_map<(d0) -> (d0)>
func.func @g6_type(%x: tensor<8xbf16>) {
  %y = blurt.group "f" domain [8] ins(%x [#id] : tensor<8xbf16>) outs([#id]) -> tensor<8xf64> {
  ^bb0(%e: f32):
    // expected-error @+1 {{operand 0 has type 'f32', expected 'f64'}}
    blurt.group_yield %e : f32
  }
  return
}

// -----

#id = affine_map<(d0) -> (d0)>
func.func @x1(%x: tensor<8xf32>) {
  %y = blurt.group "f" domain [8] ins(%x [#id] : tensor<8xf32>) outs([#id]) -> tensor<8xf32> {
  ^bb0(%e: f32):
    // expected-error @+1 {{dim is 1, expected less than 1}}
    %i = blurt.index 1 : i64
    blurt.group_yield %e : f32
  }
  return
}

// -----

#id = affine_map<(d0) -> (d0)>
func.func @x2(%x: tensor<8xf32>, %t: tensor<3x8xf32>) {
  %y = blurt.group "f" domain [8] ins(%x [#id] : tensor<8xf32>) tables(%t : tensor<3x8xf32>) outs([#id]) -> tensor<8xf32> {
  ^bb0(%e: f32, %table: tensor<3x8xf32>):
    %i = blurt.index 0 : i64
    // expected-error @+1 {{has 1 indices, expected 2}}
    %v = blurt.load %table[%i] : tensor<3x8xf32> -> f32
    blurt.group_yield %v : f32
  }
  return
}

// -----

func.func @m1(%a: tensor<4x8xf32>, %b: tensor<2x8x3xf32>) {
  // expected-error @+1 {{b is 'tensor<2x8x3xf32>', expected rank 2}}
  %c = blurt.gemm %a, %b : (tensor<4x8xf32>, tensor<2x8x3xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @m1_output(%a: tensor<4x8xf32>, %b: tensor<8x3xf32>) {
  // expected-error @+1 {{output has element type 'bf16', expected 'f32'}}
  %c = blurt.gemm %a, %b : (tensor<4x8xf32>, tensor<8x3xf32>) -> tensor<4x3xbf16>
  return
}

// -----

func.func @m1_wide(%a: tensor<4x8xbf16>, %b: tensor<8x3xbf16>) {
  // expected-error @+1 {{output has element type 'f64', expected 'bf16' or f32}}
  %c = blurt.gemm %a, %b : (tensor<4x8xbf16>, tensor<8x3xbf16>) -> tensor<4x3xf64>
  return
}

// -----

func.func @m5(%a: tensor<4x8xbf16>, %b: tensor<8x3xbf16>) {
  // expected-error @+1 {{is tf32 with operands of 'bf16', expected f32}}
  %c = blurt.gemm %a, %b tf32 : (tensor<4x8xbf16>, tensor<8x3xbf16>) -> tensor<4x3xf32>
  return
}

// -----

func.func @split_bf16(%a: tensor<4x8xbf16>, %b: tensor<8x2xbf16>) {
  // expected-error @+1 {{is split with operands of 'bf16', expected f32}}
  %0 = blurt.gemm %a, %b split : (tensor<4x8xbf16>, tensor<8x2xbf16>) -> tensor<4x2xbf16>
  return
}

// -----

func.func @split_tf32(%a: tensor<4x8xf32>, %b: tensor<8x2xf32>) {
  // expected-error @+1 {{is both split and tf32}}
  %0 = blurt.gemm %a, %b tf32 split : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  return
}

// -----

func.func @a6(%q: tensor<1x4x2x8xf64>) {
  // expected-error @+1 {{is tf32 with operands of 'f64', expected f32}}
  %o, %l = blurt.attention %q, %q, %q scale = 1.0 tf32 : (tensor<1x4x2x8xf64>, tensor<1x4x2x8xf64>, tensor<1x4x2x8xf64>) -> (tensor<1x4x2x8xf64>, tensor<1x2x4xf64>)
  return
}

// -----

func.func @a6_grad(%q: tensor<1x4x2x8xf64>, %l: tensor<1x2x4xf64>) {
  // expected-error @+1 {{is tf32 with operands of 'f64', expected f32}}
  %a, %b, %c = blurt.attention_grad %q, %q, %q, %q, %l, %q scale = 1.0 tf32 : (tensor<1x4x2x8xf64>, tensor<1x4x2x8xf64>, tensor<1x4x2x8xf64>, tensor<1x4x2x8xf64>, tensor<1x2x4xf64>, tensor<1x4x2x8xf64>) -> (tensor<1x4x2x8xf64>, tensor<1x4x2x8xf64>, tensor<1x4x2x8xf64>)
  return
}

// -----

func.func @m2(%a: tensor<4x8xf32>, %b: tensor<7x3xf32>) {
  // expected-error @+1 {{b dim 0 is 7, expected 8}}
  %c = blurt.gemm %a, %b : (tensor<4x8xf32>, tensor<7x3xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @m3(%a: tensor<4x8xf32>, %b: tensor<8x3xf32>, %c: tensor<3x4xf32>) {
  // expected-error @+1 {{c is 'tensor<3x4xf32>', expected 'tensor<4x3xf32>'}}
  %d = blurt.gemm %a, %b plus %c : (tensor<4x8xf32>, tensor<8x3xf32>, tensor<3x4xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @m4(%a: memref<4x8xf32, strided<[16, 2]>>, %b: memref<8x3xf32>, %c: memref<4x3xf32>) {
  // expected-error @+1 {{a has strides 16 and 2, expected one of them to be 1}}
  blurt.gemm %a, %b into %c : (memref<4x8xf32, strided<[16, 2]>>, memref<8x3xf32>, memref<4x3xf32>) -> ()
  return
}

// -----

func.func @a1(%q: tensor<1x4x2x8xf32>, %v: tensor<1x5x2x8xf32>) {
  // expected-error @+1 {{v dim 1 is 5, expected 4}}
  %o, %l = blurt.attention %q, %q, %v scale = 1.0 : (tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x5x2x8xf32>) -> (tensor<1x4x2x8xf32>, tensor<1x2x4xf32>)
  return
}

// -----

func.func @a2(%q: tensor<1x4x3x8xf32>, %k: tensor<1x4x2x8xf32>) {
  // expected-error @+1 {{k has 2 heads, expected a divisor of 3}}
  %o, %l = blurt.attention %q, %k, %k scale = 1.0 : (tensor<1x4x3x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>) -> (tensor<1x4x3x8xf32>, tensor<1x3x4xf32>)
  return
}

// -----

func.func @a3(%q: tensor<1x4x2x8xf32>, %p: tensor<1xi64>) {
  // expected-error @+1 {{position is 'tensor<1xi64>', expected a rank-0 value of i64}}
  %o, %l = blurt.attention %q, %q, %q at %p scale = 1.0 : (tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1xi64>) -> (tensor<1x4x2x8xf32>, tensor<1x2x4xf32>)
  return
}

// -----

func.func @a4(%q: tensor<1x4x2x8xf32>) {
  // expected-error @+1 {{lse dim 1 is 4, expected 2}}
  %o, %l = blurt.attention %q, %q, %q scale = 1.0 : (tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>) -> (tensor<1x4x2x8xf32>, tensor<1x4x2xf32>)
  return
}

// -----

func.func @a5(%q: tensor<1x4x2x8xf32>, %l: tensor<1x2x4xf32>) {
  // expected-error @+1 {{dv dim 3 is 7, expected 8}}
  %a, %b, %c = blurt.attention_grad %q, %q, %q, %q, %l, %q scale = 1.0 : (tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x2x4xf32>, tensor<1x4x2x8xf32>) -> (tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x2x7xf32>)
  return
}

// -----

func.func @s1(%ids: tensor<4xf32>, %u: tensor<4x8xf32>) {
  // expected-error @+1 {{ids have element type 'f32', expected i32 or i64}}
  %r = blurt.scatter_add %ids, %u : (tensor<4xf32>, tensor<4x8xf32>) -> tensor<10x8xf32>
  return
}

// -----

func.func @s2(%ids: tensor<4xi32>, %u: tensor<5x8xf32>) {
  // expected-error @+1 {{updates dim 0 is 5, expected 4}}
  %r = blurt.scatter_add %ids, %u : (tensor<4xi32>, tensor<5x8xf32>) -> tensor<10x8xf32>
  return
}

// -----

func.func @s3(%ids: tensor<4xi32>, %u: tensor<4x8xf32>) {
  // expected-error @+1 {{output dim 1 is 9, expected 8}}
  %r = blurt.scatter_add %ids, %u : (tensor<4xi32>, tensor<4x8xf32>) -> tensor<10x9xf32>
  return
}

// -----

func.func @u1(%c: tensor<2x8x3xf32>, %r: tensor<2x9x3xf32>, %p: tensor<i64>) {
  // expected-error @+1 {{rows dim 1 is 9, expected at most 8}}
  %n = blurt.cache_update %c, %r at %p : (tensor<2x8x3xf32>, tensor<2x9x3xf32>, tensor<i64>) -> tensor<2x8x3xf32>
  return
}

// -----

func.func @u2(%c: tensor<2x8x3xf32>, %r: tensor<2x4x3xf32>, %p: tensor<i32>) {
  // expected-error @+1 {{position is 'tensor<i32>', expected a rank-0 value of i64}}
  %n = blurt.cache_update %c, %r at %p : (tensor<2x8x3xf32>, tensor<2x4x3xf32>, tensor<i32>) -> tensor<2x8x3xf32>
  return
}

// -----

func.func @u3(%c: memref<2x8x3xf32>, %d: memref<2x8x3xf32>, %r: memref<2x4x3xf32>, %p: memref<i64>) {
  // expected-error @+1 {{out is not the cache, which is updated in place}}
  blurt.cache_update %c, %r at %p into %d : (memref<2x8x3xf32>, memref<2x4x3xf32>, memref<i64>, memref<2x8x3xf32>) -> ()
  return
}

// -----

func.func @l1(%x: tensor<3x8xf32>) {
  // expected-error @+1 {{slice 0 dim 0 is 3, expected 4}}
  blurt.loop "b" count 4 slice(%x : tensor<3x8xf32>) {
  ^bb0(%i: tensor<i64>, %s: tensor<8xf32>):
    blurt.loop_yield
  }
  return
}

// -----

func.func @l2(%x: tensor<8xf32>) {
  // expected-error @+1 {{carried argument 0 has type 'tensor<4xf32>', expected 'tensor<8xf32>'}}
  %r = blurt.loop "b" count 4 carry(%x : tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%i: tensor<i64>, %s: tensor<4xf32>):
    blurt.loop_yield %s : tensor<4xf32>
  }
  return
}

// -----

func.func @l3(%x: tensor<8xf32>) {
  // expected-error @+1 {{collection 0 has type 'tensor<3x8xf32>', expected 'tensor<4x8xf32>'}}
  %r, %c = blurt.loop "b" count 4 carry(%x : tensor<8xf32>) -> (tensor<8xf32>, tensor<3x8xf32>) {
  ^bb0(%i: tensor<i64>, %s: tensor<8xf32>):
    blurt.loop_yield %s, %s : tensor<8xf32>, tensor<8xf32>
  }
  return
}

// -----

func.func @v1(%x: tensor<4x6xf32>) {
  // expected-error @+1 {{result has 20 elements, expected 24}}
  %y = blurt.reshape %x : tensor<4x6xf32> to tensor<20xf32>
  return
}

// -----

func.func @v2(%x: tensor<4x6xf32>) {
  // expected-error @+1 {{permutation entry 1 is 0, expected a dim not named before}}
  %y = blurt.transpose %x [0, 0] : tensor<4x6xf32> to tensor<4x4xf32>
  return
}

// -----

func.func @v3(%x: tensor<4x6xf32>) {
  // expected-error @+1 {{dim 1 ends at 7, expected at most 6}}
  %y = blurt.slice %x [0, 3] : tensor<4x6xf32> to tensor<4x4xf32>
  return
}

// -----

func.func @v4(%x: tensor<4x6xf32>) {
  // expected-error @+1 {{result dim 0 is 9, expected 8}}
  %y = blurt.concat dim = 0 %x, %x : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<9x6xf32>
  return
}

// -----

func.func @v5(%arena: memref<64xf32>) {
  // expected-error @+1 {{arena is 'memref<64xf32>', expected a static memref of i8}}
  %x = blurt.slot %arena offset 0 : memref<64xf32> -> memref<4xf32>
  return
}

// -----

func.func @v6(%arena: memref<64xi8>, %i: index) {
  // expected-error @+1 {{has 0 steps, expected 1}}
  %x = blurt.slot %arena[%i] offset 0 : memref<64xi8> -> memref<4xf32>
  return
}

// -----

func.func @v7(%arena: memref<64xi8>) {
  // expected-error @+1 {{ends at byte 72, expected at most 64}}
  %x = blurt.slot %arena offset 8 : memref<64xi8> -> memref<16xf32>
  return
}

// -----

func.func @m6_length(%a: tensor<4x8xf32>, %b: tensor<8x3xf32>, %bias: tensor<4xf32>) {
  // expected-error @+1 {{bias dim 0 is 4, expected 3}}
  %c = blurt.gemm %a, %b bias %bias : (tensor<4x8xf32>, tensor<8x3xf32>, tensor<4xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @m6_element(%a: tensor<4x8xf64>, %b: tensor<8x3xf64>, %bias: tensor<3xf64>) {
  // expected-error @+1 {{bias has element type 'f64', expected f32 or bf16}}
  %c = blurt.gemm %a, %b bias %bias : (tensor<4x8xf64>, tensor<8x3xf64>, tensor<3xf64>) -> tensor<4x3xf64>
  return
}

// -----

func.func @m6_both(%a: tensor<4x8xf32>, %b: tensor<8x3xf32>, %c: tensor<4x3xf32>, %bias: tensor<3xf32>) {
  // expected-error @+1 {{has c and bias, expected one of them}}
  %d = blurt.gemm %a, %b plus %c bias %bias : (tensor<4x8xf32>, tensor<8x3xf32>, tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @l1_kind(%x: tensor<8xf32>) {
  // expected-error @+1 {{is of kind 'send', expected reduce_scatter, all_gather or local_shard}}
  %y = blurt.collective "send" %x axis = "dp" size = 2 : (tensor<8xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @l1_size(%x: tensor<8xf32>) {
  // expected-error @+1 {{has size 1, expected at least 2}}
  %y = blurt.collective "local_shard" %x axis = "dp" size = 1 : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @l2(%x: tensor<8xf32>) {
  // expected-error @+1 {{input 0 is 'tensor<8xf32>' and output 'tensor<4xf64>', expected one float element type}}
  %y = blurt.collective "local_shard" %x axis = "dp" size = 2 : (tensor<8xf32>) -> tensor<4xf64>
  return
}

// -----

func.func @l3_rank(%x: tensor<2x8xf32>) {
  // expected-error @+1 {{piece 0 is 'tensor<1x8xf32>', expected one of 'tensor<2x8xf32>'}}
  %y = blurt.collective "reduce_scatter" %x axis = "dp" size = 2 : (tensor<2x8xf32>) -> tensor<1x8xf32>
  return
}

// -----

func.func @l3_size(%x: tensor<3xf32>) {
  // expected-error @+1 {{piece 0 has 3 elements, expected 5}}
  %y = blurt.collective "all_gather" %x axis = "dp" size = 2 : (tensor<3xf32>) -> tensor<9xf32>
  return
}

// -----

func.func @l5_shard(%x: tensor<8xf32>) {
  // expected-error @+1 {{is an asynchronous local_shard, which sends nothing}}
  %y = blurt.collective "local_shard" async %x axis = "dp" size = 2 : (tensor<8xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @l5_ticket(%x: tensor<8xf32>) {
  // expected-error @+1 {{has a ticket, expected none but on asynchronous collectives in memref form}}
  %y = blurt.collective "reduce_scatter" async ticket 1 %x axis = "dp" size = 2 : (tensor<8xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @l4(%arena: memref<65536xi8>) {
  %x = blurt.slot %arena offset 0 : memref<65536xi8> -> memref<2x4xf32, strided<[8, 1]>>
  %y = blurt.slot %arena offset 256 : memref<65536xi8> -> memref<4xf32>
  // expected-error @+1 {{expected rows without gaps}}
  blurt.collective "local_shard" %x into %y axis = "dp" size = 2 : (memref<2x4xf32, strided<[8, 1]>>, memref<4xf32>) -> ()
  return
}

// -----

func.func @wait_l1() {
  // expected-error @+1 {{attribute 'ticket' failed to satisfy constraint: 64-bit signless integer attribute whose value is non-negative}}
  blurt.wait -1
  return
}
