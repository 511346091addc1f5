// RUN: bt-opt %s --convert-blu-to-blurt --blurt-canonicalize-views --blurt-fuse-groups --blurt-canonicalize-views | FileCheck %s

// CHECK-DAG: #[[IN:.*]] = affine_map<(d0, d1, d2) -> (d0, d2, d1)>
// CHECK-DAG: #[[OUT:.*]] = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
// CHECK-DAG: #[[MID:.*]] = affine_map<(d0, d1, d2) -> (d1)>

// An elementwise chain is one group over one dim, if nothing broadcasts.
// CHECK-LABEL: func.func @chain
// CHECK: blurt.group "add_exp_tanh" domain [32]
// CHECK-NOT: blurt.group "
// CHECK: return

blu.step @chain program(train) (%x: tensor<8x4xf32> {blu.tensor = {name = "x", role = "input"}}, %y: tensor<8x4xf32> {blu.tensor = {name = "y", role = "input"}})
    -> (tensor<8x4xf32> {blu.tensor = {name = "r0", role = "output"}}) {
  %0 = blu.add %x, %y : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %1 = blu.exp %0 : tensor<8x4xf32>
  %2 = blu.tanh %1 : tensor<8x4xf32>
  blu.return %2 : tensor<8x4xf32>
}

// The residual sum joins the layer norm after it and stays an output.
// CHECK-LABEL: func.func @residual
// CHECK: %[[R:.*]]:2 = blurt.group "add_layer_norm" domain [6, 8] reduce [1] {{.*}} -> (tensor<6x8xf32>, tensor<6x8xf32>)
// CHECK-NOT: blurt.group "
// CHECK: return

blu.step @residual program(train) (%x: tensor<2x3x8xf32> {blu.tensor = {name = "x", role = "input"}}, %y: tensor<2x3x8xf32> {blu.tensor = {name = "y", role = "input"}}, %w: tensor<8xf32> {blu.tensor = {name = "w", role = "input"}})
    -> (tensor<2x3x8xf32> {blu.tensor = {name = "r0", role = "output"}}, tensor<2x3x8xf32> {blu.tensor = {name = "r1", role = "output"}}) {
  %0 = blu.add %x, %y : (tensor<2x3x8xf32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  %1 = blu.layer_norm %0, %w, %w eps = 1.0e-05 : (tensor<2x3x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<2x3x8xf32>
  blu.return %0, %1 : tensor<2x3x8xf32>, tensor<2x3x8xf32>
}

// A reader of a row reduction joins the row, however it broadcasts.
// CHECK-LABEL: func.func @rows
// CHECK: blurt.group "softmax_mul" domain [6, 8] reduce [1]
// CHECK-NOT: blurt.group "
// CHECK: return

blu.step @rows program(train) (%x: tensor<6x8xf32> {blu.tensor = {name = "x", role = "input"}}, %y: tensor<6x8xf32> {blu.tensor = {name = "y", role = "input"}})
    -> (tensor<6x8xf32> {blu.tensor = {name = "r0", role = "output"}}) {
  %0 = blu.softmax %x dim = 1 : tensor<6x8xf32>
  %1 = blu.mul %0, %y : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
  blu.return %1 : tensor<6x8xf32>
}

// The sum over columns takes its producer in, which a GEMM reads as well.
// CHECK-LABEL: func.func @bias_grad
// CHECK: %[[D:.*]]:2 = blurt.group "gelu_grad_reduce_sum" domain [6, 8] reduce [0] {{.*}} -> (tensor<6x8xf32>, tensor<8xf32>)
// CHECK: blurt.gemm %[[D]]#0
// CHECK-NOT: blurt.group "
// CHECK: return

blu.step @bias_grad program(train) (%x: tensor<6x8xf32> {blu.tensor = {name = "x", role = "input"}}, %g: tensor<6x8xf32> {blu.tensor = {name = "g", role = "input"}}, %w: tensor<8x4xf32> {blu.tensor = {name = "w", role = "input"}})
    -> (tensor<6x4xf32> {blu.tensor = {name = "r0", role = "output"}}, tensor<8xf32> {blu.tensor = {name = "r1", role = "output"}}) {
  %d = blu.gelu_grad %x, %g approximate(tanh) : tensor<6x8xf32>
  %0 = blu.matmul %d, %w : (tensor<6x8xf32>, tensor<8x4xf32>) -> tensor<6x4xf32>
  %1 = blu.reduce_sum %d [0] : (tensor<6x8xf32>) -> tensor<8xf32>
  blu.return %0, %1 : tensor<6x4xf32>, tensor<8xf32>
}

// Groups that reduce over different dims stay apart.
// CHECK-LABEL: func.func @different_dims
// CHECK: blurt.group {{.*}} reduce [1]
// CHECK: blurt.group {{.*}} reduce [0]
// CHECK: return

blu.step @different_dims program(train) (%x: tensor<6x8xf32> {blu.tensor = {name = "x", role = "input"}})
    -> (tensor<6xf32> {blu.tensor = {name = "r0", role = "output"}}, tensor<8xf32> {blu.tensor = {name = "r1", role = "output"}}) {
  %0 = blu.reduce_sum %x [1] : (tensor<6x8xf32>) -> tensor<6xf32>
  %1 = blu.reduce_sum %x [0] : (tensor<6x8xf32>) -> tensor<8xf32>
  blu.return %0, %1 : tensor<6xf32>, tensor<8xf32>
}

// Columns are not at hand any more when their sum is known.
// CHECK-LABEL: func.func @columns
// CHECK: blurt.group "reduce_sum" domain [6, 8] reduce [0]
// CHECK: blurt.group "div" domain [6, 8]
// CHECK: return

blu.step @columns program(train) (%x: tensor<6x8xf32> {blu.tensor = {name = "x", role = "input"}})
    -> (tensor<6x8xf32> {blu.tensor = {name = "r0", role = "output"}}) {
  %0 = blu.reduce_sum %x [0] : (tensor<6x8xf32>) -> tensor<8xf32>
  %1 = blu.div %x, %0 : (tensor<6x8xf32>, tensor<8xf32>) -> tensor<6x8xf32>
  blu.return %1 : tensor<6x8xf32>
}

// A path through a GEMM forbids a merge: it would be a cycle.
// CHECK-LABEL: func.func @cycle
// CHECK: %[[E:.*]] = blurt.group "exp"
// CHECK: %[[G:.*]] = blurt.gemm %[[E]]
// CHECK: blurt.group "sub" {{.*}}%[[E]]{{.*}}%[[G]]
// CHECK: return

blu.step @cycle program(train) (%x: tensor<4x4xf32> {blu.tensor = {name = "x", role = "input"}})
    -> (tensor<4x4xf32> {blu.tensor = {name = "r0", role = "output"}}) {
  %0 = blu.exp %x : tensor<4x4xf32>
  %1 = blu.matmul %0, %0 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = blu.sub %0, %1 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  blu.return %2 : tensor<4x4xf32>
}

// What is cheap is repeated in each reader, what is not is stored once.
// CHECK-LABEL: func.func @several_readers
// CHECK: %[[P:.*]] = blurt.gemm
// CHECK: blurt.group "relu_reduce_sum" domain [6, 8] reduce [1] ins(%[[P]]
// CHECK: blurt.group "relu_reduce_sum" domain [6, 8] reduce [0] ins(%[[P]]
// CHECK: %[[Q:.*]] = blurt.gemm
// CHECK: %[[T:.*]]:2 = blurt.group "tanh_reduce_sum" domain [6, 8] reduce [1] ins(%[[Q]]
// CHECK: blurt.group "reduce_sum" domain [6, 8] reduce [0] ins(%[[T]]#0

blu.step @several_readers program(train) (%x: tensor<6x4xf32> {blu.tensor = {name = "x", role = "input"}}, %w: tensor<4x8xf32> {blu.tensor = {name = "w", role = "input"}})
    -> (tensor<6xf32> {blu.tensor = {name = "r0", role = "output"}}, tensor<8xf32> {blu.tensor = {name = "r1", role = "output"}}, tensor<6xf32> {blu.tensor = {name = "r2", role = "output"}}, tensor<8xf32> {blu.tensor = {name = "r3", role = "output"}}) {
  %p = blu.matmul %x, %w : (tensor<6x4xf32>, tensor<4x8xf32>) -> tensor<6x8xf32>
  %r = blu.relu %p : tensor<6x8xf32>
  %0 = blu.reduce_sum %r [1] : (tensor<6x8xf32>) -> tensor<6xf32>
  %1 = blu.reduce_sum %r [0] : (tensor<6x8xf32>) -> tensor<8xf32>
  %q = blu.matmul %x, %w : (tensor<6x4xf32>, tensor<4x8xf32>) -> tensor<6x8xf32>
  %t = blu.tanh %q : tensor<6x8xf32>
  %2 = blu.reduce_sum %t [1] : (tensor<6x8xf32>) -> tensor<6xf32>
  %3 = blu.reduce_sum %t [0] : (tensor<6x8xf32>) -> tensor<8xf32>
  blu.return %0, %1, %2, %3 : tensor<6xf32>, tensor<8xf32>, tensor<6xf32>, tensor<8xf32>
}

// Between bf16 groups the rounding stays.
// CHECK-LABEL: func.func @rounding
// CHECK: blurt.group "add_exp" domain [8]
// CHECK: %[[S:.*]] = arith.addf
// CHECK: %[[T:.*]] = arith.truncf %[[S]] : f32 to bf16
// CHECK: %[[U:.*]] = arith.extf %[[T]] : bf16 to f32
// CHECK: math.exp %[[U]]

blu.step @rounding program(train) (%x: tensor<8xbf16> {blu.tensor = {name = "x", role = "input"}}, %y: tensor<8xbf16> {blu.tensor = {name = "y", role = "input"}})
    -> (tensor<8xbf16> {blu.tensor = {name = "r0", role = "output"}}) {
  %0 = blu.add %x, %y : (tensor<8xbf16>, tensor<8xbf16>) -> tensor<8xbf16>
  %1 = blu.exp %0 : tensor<8xbf16>
  blu.return %1 : tensor<8xbf16>
}

// Casts join what they are of.
// CHECK-LABEL: func.func @casts
// CHECK: blurt.group "cast_layer_norm_cast" domain [4, 8] reduce [1]
// CHECK-NOT: blurt.group "
// CHECK: return

blu.step @casts program(train) (%x: tensor<4x8xbf16> {blu.tensor = {name = "x", role = "input"}}, %w: tensor<8xf32> {blu.tensor = {name = "w", role = "param"}})
    -> (tensor<4x8xbf16> {blu.tensor = {name = "r0", role = "output"}}) {
  %0 = blu.cast %x : tensor<4x8xbf16> to tensor<4x8xf32>
  %1 = blu.layer_norm %0, %w, %w eps = 1.0e-5 : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %2 = blu.cast %1 : tensor<4x8xf32> to tensor<4x8xbf16>
  blu.return %2 : tensor<4x8xbf16>
}

// Through a reshape and a transpose; the domain is the reader's.
// CHECK-LABEL: func.func @views
// CHECK: blurt.group "add_exp" domain [2, 4, 3] ins(%{{.*}} [#[[IN]]] : tensor<2x3x4xf32>, %{{.*}} [#[[MID]]] : tensor<4xf32>) outs([#[[OUT]]])
// CHECK-NOT: blurt.group "
// CHECK: return

blu.step @views program(train) (%x: tensor<6x4xf32> {blu.tensor = {name = "x", role = "input"}}, %b: tensor<4xf32> {blu.tensor = {name = "b", role = "input"}})
    -> (tensor<2x4x3xf32> {blu.tensor = {name = "r0", role = "output"}}) {
  %0 = blu.add %x, %b : (tensor<6x4xf32>, tensor<4xf32>) -> tensor<6x4xf32>
  %1 = blu.reshape %0 [2, 3, 4] : (tensor<6x4xf32>) -> tensor<2x3x4xf32>
  %2 = blu.transpose %1 [0, 2, 1] : (tensor<2x3x4xf32>) -> tensor<2x4x3xf32>
  %3 = blu.exp %2 : tensor<2x4x3xf32>
  blu.return %3 : tensor<2x4x3xf32>
}

// Clipping and the update of a parameter are one group; the scale, of few
// scalars, is computed in each.
// CHECK-LABEL: func.func @update
// CHECK: blurt.group {{.*}}sgd" domain [32]
// CHECK: blurt.group {{.*}}sgd" domain [5]
// CHECK-NOT: blurt.group "
// CHECK: return

blu.step @update program(train) (%p: tensor<8x4xf32> {blu.tensor = {name = "p", role = "input"}}, %g: tensor<8x4xf32> {blu.tensor = {name = "g", role = "input"}}, %m: tensor<8x4xf32> {blu.tensor = {name = "m", role = "input"}}, %q: tensor<5xf32> {blu.tensor = {name = "q", role = "input"}}, %h: tensor<5xf32> {blu.tensor = {name = "h", role = "input"}}, %n: tensor<5xf32> {blu.tensor = {name = "n", role = "input"}}, %norm: tensor<f32> {blu.tensor = {name = "norm", role = "input"}}, %c: tensor<f64> {blu.tensor = {name = "c", role = "input"}})
    -> (tensor<8x4xf32> {blu.tensor = {name = "r0", role = "output"}}, tensor<8x4xf32> {blu.tensor = {name = "r1", role = "output"}}, tensor<5xf32> {blu.tensor = {name = "r2", role = "output"}}, tensor<5xf32> {blu.tensor = {name = "r3", role = "output"}}) {
  %s = blu.clip_scale %norm, %c : (tensor<f32>, tensor<f64>) -> tensor<f32>
  %a = blu.mul %g, %s : (tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
  %b = blu.mul %h, %s : (tensor<5xf32>, tensor<f32>) -> tensor<5xf32>
  %0, %1 = blu.sgd %p, %a, %m lr %c momentum %c weight_decay %c decay : tensor<8x4xf32>
  %2, %3 = blu.sgd %q, %b, %n lr %c momentum %c weight_decay %c : tensor<5xf32>
  blu.return %0, %1, %2, %3 : tensor<8x4xf32>, tensor<8x4xf32>, tensor<5xf32>, tensor<5xf32>
}

// Siblings that read the same rows make one pass.
// CHECK-LABEL: func.func @siblings
// CHECK: blurt.group {{.*}} domain [6, 9] reduce [1] {{.*}} -> (tensor<6xf32>, tensor<6x9xf32>)
// CHECK: blurt.group "mean_loss"
// CHECK-NOT: blurt.group "
// CHECK: return

blu.step @siblings program(train) (%x: tensor<6x9xf32> {blu.tensor = {name = "x", role = "input"}}, %t: tensor<6xi32> {blu.tensor = {name = "t", role = "input"}}, %g: tensor<f32> {blu.tensor = {name = "g", role = "input"}})
    -> (tensor<f32> {blu.tensor = {name = "r0", role = "output"}}, tensor<6x9xf32> {blu.tensor = {name = "r1", role = "output"}}) {
  %0 = blu.cross_entropy %x, %t ignore_index = -100 reduction(mean) : (tensor<6x9xf32>, tensor<6xi32>) -> tensor<f32>
  %1 = blu.cross_entropy_grad %x, %t, %g ignore_index = -100 : (tensor<6x9xf32>, tensor<6xi32>, tensor<f32>) -> tensor<6x9xf32>
  blu.return %0, %1 : tensor<f32>, tensor<6x9xf32>
}

// A dead output goes, and what only it needs.
// CHECK-LABEL: func.func @dead
// CHECK: blurt.group "layer_norm_grad" {{.*}} -> tensor<6x8xf32>
// CHECK-NOT: blurt.group "
// CHECK: return

blu.step @dead program(train) (%x: tensor<6x8xf32> {blu.tensor = {name = "x", role = "input"}}, %w: tensor<8xf32> {blu.tensor = {name = "w", role = "input"}}, %g: tensor<6x8xf32> {blu.tensor = {name = "g", role = "input"}})
    -> (tensor<6x8xf32> {blu.tensor = {name = "r0", role = "output"}}) {
  %0, %1, %2 = blu.layer_norm_grad %x, %w, %g eps = 1.0e-05 : (tensor<6x8xf32>, tensor<8xf32>, tensor<6x8xf32>) -> (tensor<6x8xf32>, tensor<8xf32>, tensor<8xf32>)
  blu.return %0 : tensor<6x8xf32>
}

// -----

// A sum that its own producer and a later group could take: it is stored once
// by the producer rather than added up again from two values.
// CHECK-LABEL: func.func @sum_for_two
// CHECK: %[[N:.*]]:2 = blurt.group "norm_add_cast"
// CHECK-SAME: -> (tensor<64x32xf32>, tensor<64x32xbf16>)
// CHECK: %[[P:.*]] = blurt.gemm %[[N]]#1, %{{.*}}
// CHECK: blurt.group "scale" {{.*}} ins(%[[P]] {{.*}}, %[[N]]#0 {{.*}})
func.func @sum_for_two(%x: tensor<64x32xf32>, %s: tensor<64x32xf32>, %w: tensor<32x32xbf16>) -> tensor<64x32xf32> {
  %n = blurt.group "norm" domain [64, 32] reduce [1] ins(%x [affine_map<(d0, d1) -> (d0, d1)>] : tensor<64x32xf32>) outs([affine_map<(d0, d1) -> (d0, d1)>]) -> tensor<64x32xf32> {
  ^bb0(%e: f32):
    %r = blurt.reduce sum %e : f32
    %q = arith.subf %e, %r : f32
    blurt.group_yield %q : f32
  }
  %a = blurt.group "add" domain [64, 32] ins(%n [affine_map<(d0, d1) -> (d0, d1)>] : tensor<64x32xf32>, %s [affine_map<(d0, d1) -> (d0, d1)>] : tensor<64x32xf32>) outs([affine_map<(d0, d1) -> (d0, d1)>]) -> tensor<64x32xf32> {
  ^bb0(%e: f32, %f: f32):
    %q = arith.addf %e, %f : f32
    blurt.group_yield %q : f32
  }
  %c = blurt.group "cast" domain [64, 32] ins(%a [affine_map<(d0, d1) -> (d0, d1)>] : tensor<64x32xf32>) outs([affine_map<(d0, d1) -> (d0, d1)>]) -> tensor<64x32xbf16> {
  ^bb0(%e: f32):
    blurt.group_yield %e : f32
  }
  %p = blurt.gemm %c, %w : (tensor<64x32xbf16>, tensor<32x32xbf16>) -> tensor<64x32xbf16>
  %y = blurt.group "scale" domain [64, 32] ins(%p [affine_map<(d0, d1) -> (d0, d1)>] : tensor<64x32xbf16>, %a [affine_map<(d0, d1) -> (d0, d1)>] : tensor<64x32xf32>) outs([affine_map<(d0, d1) -> (d0, d1)>]) -> tensor<64x32xf32> {
  ^bb0(%e: f32, %f: f32):
    %q = arith.mulf %e, %f : f32
    blurt.group_yield %q : f32
  }
  return %y : tensor<64x32xf32>
}

// -----

// What is rounded to bf16 is stored in bf16 alone; the sum over rows widens it.
// CHECK-LABEL: func.func @widened
// CHECK: %[[H:.*]] = blurt.group "norm" {{.*}} -> tensor<64x32xbf16>
// CHECK: blurt.group "wide_sum" {{.*}} ins(%[[H]] {{.*}} : tensor<64x32xbf16>)
func.func @widened(%x: tensor<64x32xf32>, %w: tensor<32x32xbf16>) -> (tensor<32xf32>, tensor<64x32xbf16>) {
  %h = blurt.group "norm" domain [64, 32] reduce [1] ins(%x [affine_map<(d0, d1) -> (d0, d1)>] : tensor<64x32xf32>) outs([affine_map<(d0, d1) -> (d0, d1)>]) -> tensor<64x32xbf16> {
  ^bb0(%e: f32):
    %r = blurt.reduce sum %e : f32
    %q = arith.subf %e, %r : f32
    blurt.group_yield %q : f32
  }
  %v = blurt.group "wide" domain [64, 32] ins(%h [affine_map<(d0, d1) -> (d0, d1)>] : tensor<64x32xbf16>) outs([affine_map<(d0, d1) -> (d0, d1)>]) -> tensor<64x32xf32> {
  ^bb0(%e: f32):
    blurt.group_yield %e : f32
  }
  %s = blurt.group "sum" domain [64, 32] reduce [0] ins(%v [affine_map<(d0, d1) -> (d0, d1)>] : tensor<64x32xf32>) outs([affine_map<(d0, d1) -> (d1)>]) -> tensor<32xf32> {
  ^bb0(%e: f32):
    %q = blurt.reduce sum %e : f32
    blurt.group_yield %q : f32
  }
  %p = blurt.gemm %h, %w : (tensor<64x32xbf16>, tensor<32x32xbf16>) -> tensor<64x32xbf16>
  return %s, %p : tensor<32xf32>, tensor<64x32xbf16>
}

// -----

// An elementwise group joins columns that are written as well as reduced.
// CHECK-LABEL: func.func @along
// CHECK: blurt.group "{{.*}}" domain [6, 9] reduce [0] {{.*}} -> (tensor<6x9xf32>, tensor<6x9xf32>, tensor<9xf32>)
// CHECK-NOT: blurt.group "
// CHECK: return

blu.step @along program(train) (%x: tensor<6x9xf32> {blu.tensor = {name = "x", role = "input"}}, %g: tensor<6x9xf32> {blu.tensor = {name = "g", role = "input"}})
    -> (tensor<6x9xf32> {blu.tensor = {name = "r0", role = "output"}}, tensor<6x9xf32> {blu.tensor = {name = "r1", role = "output"}}, tensor<9xf32> {blu.tensor = {name = "r2", role = "output"}}) {
  %0 = blu.gelu %x approximate(tanh) : tensor<6x9xf32>
  %1 = blu.mul %x, %g : (tensor<6x9xf32>, tensor<6x9xf32>) -> tensor<6x9xf32>
  %2 = blu.reduce_sum %1 [0] : (tensor<6x9xf32>) -> tensor<9xf32>
  blu.return %0, %1, %2 : tensor<6x9xf32>, tensor<6x9xf32>, tensor<9xf32>
}
