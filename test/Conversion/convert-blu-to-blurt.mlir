// RUN: bt-opt %s --convert-blu-to-blurt | FileCheck %s

// Elementwise ops: operands broadcast by their maps, attributes stay.
// CHECK-DAG: #[[ID:.*]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-DAG: #[[COL:.*]] = affine_map<(d0, d1) -> (d1)>
// CHECK-DAG: #[[ROW1:.*]] = affine_map<(d0, d1) -> (d0, 0)>
// CHECK-DAG: #[[NONE:.*]] = affine_map<(d0, d1) -> ()>
// CHECK-LABEL: func.func @broadcasts
// CHECK-SAME: (%[[X:[^:]*]]: tensor<8x4xf32> {blu.tensor = {name = "x", role = "input"}}, %[[B:[^:]*]]: tensor<4xf32> {{{[^}]*}}}}, %[[C:[^:]*]]: tensor<8x1xf32> {{{[^}]*}}}}, %[[S:[^:]*]]: tensor<f32> {{{[^}]*}}}})
// CHECK-SAME: -> (tensor<8x4xf32> {blu.tensor = {name = "r0", role = "output"}})
// CHECK: %[[ADD:.*]] = blurt.group "add" domain [8, 4] ins(%[[X]] [#[[ID]]] : tensor<8x4xf32>, %[[B]] [#[[COL]]] : tensor<4xf32>) outs([#[[ID]]]) -> tensor<8x4xf32>
// CHECK: ^bb0(%[[E:.*]]: f32, %[[F:.*]]: f32):
// CHECK: %[[SUM:.*]] = arith.addf %[[E]], %[[F]] : f32
// CHECK: blurt.group_yield %[[SUM]] : f32
// CHECK: %[[MUL:.*]] = blurt.group "mul" {{.*}}%[[C]] [#[[ROW1]]] : tensor<8x1xf32>
// CHECK: blurt.group "sub" {{.*}}%[[S]] [#[[NONE]]] : tensor<f32>

blu.step @broadcasts program(train) (%x: tensor<8x4xf32> {blu.tensor = {name = "x", role = "input"}}, %b: tensor<4xf32> {blu.tensor = {name = "b", role = "input"}}, %c: tensor<8x1xf32> {blu.tensor = {name = "c", role = "input"}}, %s: tensor<f32> {blu.tensor = {name = "s", role = "input"}})
    -> (tensor<8x4xf32> {blu.tensor = {name = "r0", role = "output"}}) {
  %0 = blu.add %x, %b : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
  %1 = blu.mul %0, %c : (tensor<8x4xf32>, tensor<8x1xf32>) -> tensor<8x4xf32>
  %2 = blu.sub %1, %s : (tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
  blu.return %2 : tensor<8x4xf32>
}

// A splat constant becomes a constant of the body, a tensor only where one is
// needed. Discardable attributes of the step stay.
// CHECK-LABEL: func.func @constants
// CHECK-SAME: attributes {blurt.entry = {name = "train"}}
// CHECK: blurt.group "mul" domain [3] ins(%{{[^,]*}} [#{{.*}}] : tensor<3xf32>) outs
// CHECK: %[[HALF:.*]] = arith.constant 5.000000e-01 : f32
// CHECK: arith.mulf %{{.*}}, %[[HALF]] : f32
// CHECK: blurt.group "constant" domain [2, 2] outs
// CHECK: blurt.index 0
// CHECK: arith.select

blu.step @constants program(train) (%x: tensor<3xf32> {blu.tensor = {name = "x", role = "input"}})
    -> (tensor<3xf32> {blu.tensor = {name = "r0", role = "output"}}, tensor<2x2xf32> {blu.tensor = {name = "r1", role = "output"}}) attributes {blurt.entry = {name = "train"}} {
  %h = blu.constant dense<0.5> : tensor<f32>
  %0 = blu.mul %x, %h : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  %c = blu.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  blu.return %0, %c : tensor<3xf32>, tensor<2x2xf32>
}

// bf16 computes in f32: what is loaded is extended, what is stored truncated.
// CHECK-LABEL: func.func @half
// CHECK: blurt.group "exp" {{.*}} -> tensor<4xbf16>
// CHECK: ^bb0(%[[E:.*]]: f32):
// CHECK: math.exp %[[E]] : f32

blu.step @half program(train) (%x: tensor<4xbf16> {blu.tensor = {name = "x", role = "input"}})
    -> (tensor<4xbf16> {blu.tensor = {name = "r0", role = "output"}}) {
  %0 = blu.exp %x : tensor<4xbf16>
  blu.return %0 : tensor<4xbf16>
}

// The sigmoid of a negative number goes through e^-|x|.
// CHECK-LABEL: func.func @stable_sigmoid
// CHECK: %[[A:.*]] = math.absf
// CHECK: %[[N:.*]] = arith.negf %[[A]]
// CHECK: %[[Z:.*]] = math.exp %[[N]]
// CHECK: %[[P:.*]] = arith.cmpf oge
// CHECK: arith.select %[[P]], %{{.*}}, %[[Z]]

blu.step @stable_sigmoid program(train) (%x: tensor<4xf32> {blu.tensor = {name = "x", role = "input"}})
    -> (tensor<4xf32> {blu.tensor = {name = "r0", role = "output"}}) {
  %0 = blu.sigmoid %x : tensor<4xf32>
  blu.return %0 : tensor<4xf32>
}

// The erf form of GELU keeps its digits for negative x.
// CHECK-LABEL: func.func @gelu_erf
// CHECK: math.erfc
// CHECK-NOT: math.erf %

blu.step @gelu_erf program(train) (%x: tensor<4xf32> {blu.tensor = {name = "x", role = "input"}})
    -> (tensor<4xf32> {blu.tensor = {name = "r0", role = "output"}}) {
  %0 = blu.gelu %x approximate(erf) : tensor<4xf32>
  blu.return %0 : tensor<4xf32>
}
