// RUN: bt-opt %s --convert-blu-to-blurt | FileCheck %s

// CHECK-LABEL: func.func @attention
// CHECK: %[[O:.*]]:2 = blurt.attention %{{.*}}, %{{.*}}, %{{.*}} scale = 1.250000e-01 causal
// CHECK: blurt.attention_grad %{{.*}}, %{{.*}}, %{{.*}}, %[[O]]#0, %[[O]]#1, %{{.*}} scale = 1.250000e-01 causal

blu.step @attention program(train) (%q: tensor<2x8x4x16xf32> {blu.tensor = {name = "q", role = "input"}})
    -> (tensor<2x8x4x16xf32> {blu.tensor = {name = "r0", role = "output"}}) {
  %o, %l = blu.attention %q, %q, %q scale = 0.125 causal : (tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>) -> (tensor<2x8x4x16xf32>, tensor<2x4x8xf32>)
  %0, %1, %2 = blu.attention_grad %q, %q, %q, %o, %l, %q scale = 0.125 causal : (tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x4x8xf32>, tensor<2x8x4x16xf32>) -> (tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>)
  blu.return %0 : tensor<2x8x4x16xf32>
}

// CHECK-LABEL: func.func @cached
// CHECK: %[[K:.*]] = blurt.cache_update %{{.*}}, %{{.*}} at %[[P:.*]] :
// CHECK: %[[V:.*]] = blurt.cache_update
// CHECK: blurt.attention %{{.*}}, %[[K]], %[[V]] at %[[P]]

blu.step @cached program(train) (%q: tensor<1x1x4x16xf32> {blu.tensor = {name = "q", role = "input"}}, %c: tensor<1x8x4x16xf32> {blu.tensor = {name = "c", role = "input"}}, %d: tensor<1x8x4x16xf32> {blu.tensor = {name = "d", role = "input"}}, %p: tensor<i64> {blu.tensor = {name = "p", role = "input"}})
    -> (tensor<1x1x4x16xf32> {blu.tensor = {name = "r0", role = "output"}}, tensor<1x8x4x16xf32> {blu.tensor = {name = "r1", role = "output"}}) {
  %0, %1, %2 = blu.cached_attention %q, %q, %q, %c, %d at %p scale = 0.125 : (tensor<1x1x4x16xf32>, tensor<1x1x4x16xf32>, tensor<1x1x4x16xf32>, tensor<1x8x4x16xf32>, tensor<1x8x4x16xf32>, tensor<i64>) -> (tensor<1x1x4x16xf32>, tensor<1x8x4x16xf32>, tensor<1x8x4x16xf32>)
  blu.return %0, %1 : tensor<1x1x4x16xf32>, tensor<1x8x4x16xf32>
}

// CHECK-LABEL: func.func @embedding
// CHECK: blurt.group "embedding" domain [6, 4] {{.*}} tables(%{{.*}} : tensor<7x4xf32>)
// CHECK: %[[I:.*]] = arith.extsi
// CHECK: %[[C:.*]] = blurt.index 1
// CHECK: blurt.load %{{.*}}[%[[I]], %[[C]]]
// CHECK: blurt.scatter_add %{{.*}}, %{{.*}} : (tensor<6xi32>, tensor<6x4xf32>) -> tensor<7x4xf32>

blu.step @embedding program(train) (%w: tensor<7x4xf32> {blu.tensor = {name = "w", role = "input"}}, %i: tensor<2x3xi32> {blu.tensor = {name = "i", role = "input"}})
    -> (tensor<7x4xf32> {blu.tensor = {name = "r0", role = "output"}}) {
  %e = blu.embedding %w, %i : (tensor<7x4xf32>, tensor<2x3xi32>) -> tensor<2x3x4xf32>
  %0 = blu.embedding_grad %i, %e rows = 7 : (tensor<2x3xi32>, tensor<2x3x4xf32>) -> tensor<7x4xf32>
  blu.return %0 : tensor<7x4xf32>
}

// The comparison with the rate is one of integers.
// CHECK-LABEL: func.func @dropout
// CHECK: blurt.group "random_key" domain []
// CHECK: arith.shrui
// CHECK: blurt.group "dropout" domain [15]
// CHECK: %[[BITS:.*]] = arith.andi
// CHECK: arith.cmpi sge, %[[BITS]]

blu.step @dropout program(train) (%x: tensor<3x5xf32> {blu.tensor = {name = "x", role = "input"}}, %s: tensor<i64> {blu.tensor = {name = "s", role = "input"}}, %t: tensor<i64> {blu.tensor = {name = "t", role = "input"}})
    -> (tensor<3x5xf32> {blu.tensor = {name = "r0", role = "output"}}) {
  %k = blu.random_key %s, %t site = 3 : (tensor<i64>, tensor<i64>) -> tensor<i64>
  %0 = blu.dropout %x key %k rate = 0.25 : tensor<3x5xf32>
  blu.return %0 : tensor<3x5xf32>
}

// Factors of scalars alone are computed in f64 and rounded once.
// CHECK-LABEL: func.func @adamw
// CHECK: blurt.group "adamw" domain [3, 4]
// CHECK: %[[POW:.*]] = math.powf %{{.*}} : f64
// CHECK: %[[BIAS:.*]] = arith.subf %{{.*}}, %[[POW]] : f64
// CHECK: %[[RATE:.*]] = arith.divf %{{.*}}, %[[BIAS]] : f64
// CHECK: arith.truncf %[[RATE]] : f64 to f32

blu.step @adamw program(train) (%p: tensor<3x4xf32> {blu.tensor = {name = "p", role = "input"}}, %g: tensor<3x4xf32> {blu.tensor = {name = "g", role = "input"}}, %m: tensor<3x4xf32> {blu.tensor = {name = "m", role = "input"}}, %v: tensor<3x4xf32> {blu.tensor = {name = "v", role = "input"}}, %t: tensor<i64> {blu.tensor = {name = "t", role = "input"}}, %h: tensor<f64> {blu.tensor = {name = "h", role = "input"}})
    -> (tensor<3x4xf32> {blu.tensor = {name = "r0", role = "output"}}, tensor<3x4xf32> {blu.tensor = {name = "r1", role = "output"}}, tensor<3x4xf32> {blu.tensor = {name = "r2", role = "output"}}) {
  %0, %1, %2 = blu.adamw %p, %g, %m, %v step %t lr %h betas %h, %h eps %h weight_decay %h decay : tensor<3x4xf32>
  blu.return %0, %1, %2 : tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
}
