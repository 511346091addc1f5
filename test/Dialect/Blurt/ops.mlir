// RUN: bt-opt %s | bt-opt | FileCheck %s

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>

// CHECK-LABEL: func.func @tensor_form
func.func @tensor_form(%x: tensor<8x16xf32>, %table: tensor<10x16xbf16>,
    %ids: tensor<8xi32>) -> (tensor<8x16xf32>, tensor<8xf32>) {
  // CHECK: blurt.group "softmax" domain [8, 16] reduce [1]
  // CHECK-SAME: ins(%{{.*}} [#{{.*}}] : tensor<8x16xf32>)
  // CHECK-SAME: tables(%{{.*}} : tensor<10x16xbf16>)
  // CHECK-SAME: outs([#{{.*}}], [#{{.*}}]) -> (tensor<8x16xf32>, tensor<8xf32>)
  %y, %s = blurt.group "softmax" domain [8, 16] reduce [1]
      ins(%x [#id] : tensor<8x16xf32>) tables(%table : tensor<10x16xbf16>)
      outs([#id], [#row]) -> (tensor<8x16xf32>, tensor<8xf32>) {
  ^bb0(%e: f32, %t: tensor<10x16xbf16>):
    // CHECK: blurt.reduce max %{{.*}} : f32
    %max = blurt.reduce max %e : f32
    %d = arith.subf %e, %max : f32
    %exp = math.exp %d : f32
    %sum = blurt.reduce sum %exp : f32
    // CHECK: %[[I:.*]] = blurt.index 1 : i64
    %i = blurt.index 1 : i64
    %c = arith.constant 3 : i64
    // CHECK: blurt.load %{{.*}}[%{{.*}}, %[[I]]] : tensor<10x16xbf16> -> f32
    %bias = blurt.load %t[%c, %i] : tensor<10x16xbf16> -> f32
    %p = arith.divf %exp, %sum : f32
    %q = arith.addf %p, %bias : f32
    blurt.group_yield %q, %sum : f32, f32
  }
  // CHECK: blurt.gemm %{{.*}}, %{{.*}} transposed plus %{{.*}} :
  %g = blurt.gemm %y, %x transposed : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x8xf32>
  %h = blurt.gemm %y, %x transposed plus %g
      : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK: blurt.scatter_add
  %sc = blurt.scatter_add %ids, %y : (tensor<8xi32>, tensor<8x16xf32>) -> tensor<10x16xf32>
  return %y, %s : tensor<8x16xf32>, tensor<8xf32>
}

// CHECK-LABEL: func.func @attention
func.func @attention(%q: tensor<2x8x4x16xf32>, %k: tensor<2x8x2x16xf32>,
    %v: tensor<2x8x2x16xf32>, %position: tensor<i64>, %g: tensor<2x8x4x16xf32>)
    -> tensor<2x8x4x16xf32> {
  // CHECK: blurt.attention %{{.*}}, %{{.*}}, %{{.*}} scale = 2.500000e-01 causal :
  %o, %lse = blurt.attention %q, %k, %v scale = 0.25 causal
      : (tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>)
      -> (tensor<2x8x4x16xf32>, tensor<2x4x8xf32>)
  // CHECK: blurt.attention %{{.*}}, %{{.*}}, %{{.*}} at %{{.*}} scale
  %o2, %lse2 = blurt.attention %q, %k, %v at %position scale = 0.25
      : (tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>, tensor<i64>)
      -> (tensor<2x8x4x16xf32>, tensor<2x4x8xf32>)
  // CHECK: blurt.attention_grad
  %dq, %dk, %dv = blurt.attention_grad %q, %k, %v, %o, %lse, %g scale = 0.25 causal
      : (tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>,
         tensor<2x8x4x16xf32>, tensor<2x4x8xf32>, tensor<2x8x4x16xf32>)
      -> (tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>)
  return %dq : tensor<2x8x4x16xf32>
}

// CHECK-LABEL: func.func @loop
func.func @loop(%h: tensor<8x16xf32>, %w: tensor<4x16x16xf32>) -> tensor<4x8x16xf32> {
  // CHECK: blurt.loop "block" count 4 reverse carry(%{{.*}} : tensor<8x16xf32>) slice(%{{.*}} : tensor<4x16x16xf32>) -> (tensor<8x16xf32>, tensor<4x8x16xf32>)
  %last, %saved = blurt.loop "block" count 4 reverse carry(%h : tensor<8x16xf32>)
      slice(%w : tensor<4x16x16xf32>) -> (tensor<8x16xf32>, tensor<4x8x16xf32>) {
  ^bb0(%i: tensor<i64>, %x: tensor<8x16xf32>, %wi: tensor<16x16xf32>):
    %y = blurt.gemm %x, %wi : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
    blurt.loop_yield %y, %x : tensor<8x16xf32>, tensor<8x16xf32>
  }
  return %saved : tensor<4x8x16xf32>
}

// CHECK-LABEL: func.func @views
func.func @views(%x: tensor<4x6xf32>) -> tensor<8x3xf32> {
  // CHECK: blurt.transpose %{{.*}} [1, 0] : tensor<4x6xf32> to tensor<6x4xf32>
  %t = blurt.transpose %x [1, 0] : tensor<4x6xf32> to tensor<6x4xf32>
  // CHECK: blurt.slice %{{.*}} [2, 1] : tensor<6x4xf32> to tensor<4x3xf32>
  %s = blurt.slice %t [2, 1] : tensor<6x4xf32> to tensor<4x3xf32>
  // CHECK: blurt.concat dim = 0 %{{.*}}, %{{.*}} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<8x3xf32>
  %c = blurt.concat dim = 0 %s, %s : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<8x3xf32>
  return %c : tensor<8x3xf32>
}

// CHECK-LABEL: func.func @memref_form
func.func @memref_form(%ctx: !llvm.ptr, %arena: memref<65536xi8>, %i: index) {
  // CHECK: blurt.slot %{{.*}} offset 4096 : memref<65536xi8> -> memref<16x16xf32, strided<[32, 1]>>
  %x = blurt.slot %arena offset 4096 : memref<65536xi8> -> memref<16x16xf32, strided<[32, 1]>>
  // CHECK: blurt.slot %{{.*}}[%{{.*}}] offset 64 steps [1024] : memref<65536xi8> -> memref<16x16xf32>
  %w = blurt.slot %arena[%i] offset 64 steps [1024] : memref<65536xi8> -> memref<16x16xf32>
  // CHECK: blurt.gemm %{{.*}}, %{{.*}} into %{{.*}} :
  blurt.gemm %x, %w into %w
      : (memref<16x16xf32, strided<[32, 1]>>, memref<16x16xf32>, memref<16x16xf32>) -> ()
  // CHECK: blurt.group "fill" domain [16, 16] outs(%{{.*}} [#{{.*}}] : memref<16x16xf32>)
  blurt.group "fill" domain [16, 16] outs(%w [#id] : memref<16x16xf32>) {
    %c = arith.constant 0.0 : f32
    blurt.group_yield %c : f32
  }
  return
}

// CHECK-LABEL: func.func @precision
func.func @precision(%x: tensor<8x16xf32>, %r: tensor<8x16xbf16>, %c: tensor<8x8xf32>) {
  // CHECK: blurt.gemm %{{.*}}, %{{.*}} transposed tf32 : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x8xf32>
  %g = blurt.gemm %x, %x transposed tf32 : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x8xf32>
  // CHECK: blurt.gemm %{{.*}}, %{{.*}} transposed : (tensor<8x16xbf16>, tensor<8x16xbf16>) -> tensor<8x8xbf16>
  %h = blurt.gemm %r, %r transposed : (tensor<8x16xbf16>, tensor<8x16xbf16>) -> tensor<8x8xbf16>
  // CHECK: blurt.gemm %{{.*}}, %{{.*}} transposed plus %{{.*}} : (tensor<8x16xbf16>, tensor<8x16xbf16>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %w = blurt.gemm %r, %r transposed plus %c : (tensor<8x16xbf16>, tensor<8x16xbf16>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// CHECK-LABEL: func.func @collective
func.func @collective(%x: tensor<3x5xf32>, %p: tensor<2x3xf32>, %arena: memref<65536xi8>) {
  // CHECK: blurt.collective "reduce_scatter" %{{.*}} axis = "dp" size = 2 : (tensor<3x5xf32>) -> tensor<8xf32>
  %a = blurt.collective "reduce_scatter" %x axis = "dp" size = 2 : (tensor<3x5xf32>) -> tensor<8xf32>
  // CHECK: blurt.collective "all_gather" %{{.*}}, %{{.*}} axis = "dp" size = 2 : (tensor<8xf32>, tensor<2x3xf32>) -> (tensor<3x5xf32>, tensor<2x5xf32>)
  %b:2 = blurt.collective "all_gather" %a, %p axis = "dp" size = 2 : (tensor<8xf32>, tensor<2x3xf32>) -> (tensor<3x5xf32>, tensor<2x5xf32>)
  %m = blurt.slot %arena offset 0 : memref<65536xi8> -> memref<15xf32>
  %o = blurt.slot %arena offset 64 : memref<65536xi8> -> memref<8xf32>
  // CHECK: blurt.collective "local_shard" %{{.*}} into %{{.*}} axis = "dp" size = 2 : (memref<15xf32>, memref<8xf32>) -> ()
  blurt.collective "local_shard" %m into %o axis = "dp" size = 2 : (memref<15xf32>, memref<8xf32>) -> ()
  // CHECK: blurt.collective "reduce_scatter" async %{{.*}} axis = "dp" size = 2 : (tensor<3x5xf32>) -> tensor<8xf32>
  %c = blurt.collective "reduce_scatter" async %x axis = "dp" size = 2 : (tensor<3x5xf32>) -> tensor<8xf32>
  // CHECK: blurt.collective "reduce_scatter" async ticket 4 %{{.*}} into %{{.*}} axis = "dp" size = 2 : (memref<15xf32>, memref<8xf32>) -> ()
  blurt.collective "reduce_scatter" async ticket 4 %m into %o axis = "dp" size = 2 : (memref<15xf32>, memref<8xf32>) -> ()
  // CHECK: blurt.wait 4
  blurt.wait 4
  return
}
