// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: blu.step @train program(train) (
// CHECK-SAME: %w: tensor<3xf32> {blu.tensor = {name = "w", role = "param"}}, %x: tensor<3xf32> {blu.tensor = {name = "x", role = "input"}})
// CHECK-SAME: -> (tensor<3xf32> {blu.donates = 0 : i64}, tensor<3xf32> {blu.tensor = {name = "y", role = "output"}}) attributes {note = "kept"} {
// CHECK: %[[N:.+]] = blu.add %w, %x
// CHECK: blu.return %[[N]], %x
blu.step @train program(train) (
    %a: tensor<3xf32> {blu.tensor = {name = "w", role = "param"}},
    %b: tensor<3xf32> {blu.tensor = {name = "x", role = "input"}})
    -> (tensor<3xf32> {blu.donates = 0 : i64},
        tensor<3xf32> {blu.tensor = {name = "y", role = "output"}})
    attributes {note = "kept"} {
  %n = blu.add %a, %b : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  blu.return %n, %b : tensor<3xf32>, tensor<3xf32>
}

// CHECK: blu.step @eval program(eval) ()
blu.step @eval program(eval) () {
  blu.return
}
// CHECK: blu.step @prefill program(prefill) ()
blu.step @prefill program(prefill) () {
  blu.return
}
// CHECK: blu.step @decode program(decode) ()
blu.step @decode program(decode) () {
  blu.return
}
// CHECK: blu.step @vjp program(vjp) ()
blu.step @vjp program(vjp) () {
  blu.return
}
