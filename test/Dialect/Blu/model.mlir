// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// Names of arguments and parameters are kept as names of values.
// CHECK-LABEL: blu.model @affine(
// CHECK-SAME: %x: tensor<?x4xf32> {blu.name = "x"}, %target: tensor<?xi32> {blu.name = "target"})
// CHECK-SAME: -> (tensor<f32> {blu.name = "loss"}, tensor<?x3xf32> {blu.name = "logits"})
// CHECK-SAME: attributes {blu.vocab_size = 3 : i64} {
// CHECK: %weight = blu.param "weight"
// CHECK: blu.linear %x, %weight
blu.model @affine(%a: tensor<?x4xf32> {blu.name = "x"},
                  %b: tensor<?xi32> {blu.name = "target"})
    -> (tensor<f32> {blu.name = "loss"},
        tensor<?x3xf32> {blu.name = "logits"})
    attributes {blu.vocab_size = 3 : i64} {
  %w = blu.param "weight" init(#blu.normal<0.0, 0.02>) : tensor<3x4xf32>
  %y = blu.linear %a, %w : (tensor<?x4xf32>, tensor<3x4xf32>) -> tensor<?x3xf32>
  %l = blu.cross_entropy %y, %b ignore_index = -100 reduction(mean) : (tensor<?x3xf32>, tensor<?xi32>) -> tensor<f32>
  blu.return %l, %y : tensor<f32>, tensor<?x3xf32>
}

// CHECK-LABEL: blu.model @empty() {
// CHECK-NEXT: blu.return
blu.model @empty() {
  blu.return
}

// A stack may be split: the names of its iterations stay unique, inside and in
// weight files.
// CHECK-LABEL: blu.model @split_stack(
// CHECK: blu.stack "s" [0 to 2]
// CHECK: blu.stack "s" [2 to 3]
blu.model @split_stack() {
  %a = blu.param "s.3.w" init(#blu.zeros) export("h.3.w") : tensor<4xf32>
  blu.stack "s" [0 to 2] : () -> () {
    %b = blu.param "w" init(#blu.zeros) export("h.{i}.w") : tensor<4xf32>
    blu.yield
  }
  blu.stack "s" [2 to 3] : () -> () {
    %b = blu.param "w" init(#blu.zeros) export("h.{i}.w") : tensor<4xf32>
    blu.yield
  }
  blu.return
}
