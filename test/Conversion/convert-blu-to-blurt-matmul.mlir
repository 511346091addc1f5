// RUN: bt-opt %s --convert-blu-to-blurt | FileCheck %s

// Leading dims of the left side become rows of one product.
// CHECK-LABEL: func.func @flattened
// CHECK: %[[A:.*]] = blurt.reshape %{{.*}} : tensor<2x3x4x5xf32> to tensor<24x5xf32>
// CHECK: %[[C:.*]] = blurt.gemm %[[A]], %{{.*}} : (tensor<24x5xf32>, tensor<5x6xf32>) -> tensor<24x6xf32>
// CHECK: blurt.reshape %[[C]] : tensor<24x6xf32> to tensor<2x3x4x6xf32>

blu.step @flattened program(train) (%a: tensor<2x3x4x5xf32> {blu.tensor = {name = "a", role = "input"}}, %b: tensor<5x6xf32> {blu.tensor = {name = "b", role = "input"}})
    -> (tensor<2x3x4x6xf32> {blu.tensor = {name = "r0", role = "output"}}) {
  %0 = blu.matmul %a, %b : (tensor<2x3x4x5xf32>, tensor<5x6xf32>) -> tensor<2x3x4x6xf32>
  blu.return %0 : tensor<2x3x4x6xf32>
}

// A transpose of the last two dims becomes the flag.
// CHECK-LABEL: func.func @transposed
// CHECK-NOT: blurt.transpose
// CHECK: blurt.gemm %{{.*}} transposed, %{{.*}} : (tensor<2x4x3xf32>, tensor<2x4x5xf32>) -> tensor<2x3x5xf32>

blu.step @transposed program(train) (%a: tensor<2x4x3xf32> {blu.tensor = {name = "a", role = "input"}}, %b: tensor<2x4x5xf32> {blu.tensor = {name = "b", role = "input"}})
    -> (tensor<2x3x5xf32> {blu.tensor = {name = "r0", role = "output"}}) {
  %t = blu.transpose %a [0, 2, 1] : (tensor<2x4x3xf32>) -> tensor<2x3x4xf32>
  %0 = blu.matmul %t, %b : (tensor<2x3x4xf32>, tensor<2x4x5xf32>) -> tensor<2x3x5xf32>
  blu.return %0 : tensor<2x3x5xf32>
}

// A batch of one broadcasts; partly broadcast batches are repeated.
// CHECK-LABEL: func.func @batches
// CHECK: blurt.gemm %{{.*}}, %{{.*}} : (tensor<1x4x5xf32>, tensor<6x5x6xf32>) -> tensor<6x4x6xf32>
// CHECK: %[[B:.*]] = blurt.group "broadcast" {{.*}} -> tensor<2x3x4x5xf32>
// CHECK: blurt.group "broadcast" {{.*}} -> tensor<2x3x5x6xf32>
// CHECK: blurt.reshape %[[B]] : tensor<2x3x4x5xf32> to tensor<6x4x5xf32>
// CHECK: blurt.gemm {{.*}} : (tensor<6x4x5xf32>, tensor<6x5x6xf32>) -> tensor<6x4x6xf32>

blu.step @batches program(train) (%a: tensor<4x5xf32> {blu.tensor = {name = "a", role = "input"}}, %b: tensor<2x3x5x6xf32> {blu.tensor = {name = "b", role = "input"}}, %c: tensor<2x1x4x5xf32> {blu.tensor = {name = "c", role = "input"}}, %d: tensor<3x5x6xf32> {blu.tensor = {name = "d", role = "input"}})
    -> (tensor<2x3x4x6xf32> {blu.tensor = {name = "r0", role = "output"}}, tensor<2x3x4x6xf32> {blu.tensor = {name = "r1", role = "output"}}) {
  %0 = blu.matmul %a, %b : (tensor<4x5xf32>, tensor<2x3x5x6xf32>) -> tensor<2x3x4x6xf32>
  %1 = blu.matmul %c, %d : (tensor<2x1x4x5xf32>, tensor<3x5x6xf32>) -> tensor<2x3x4x6xf32>
  blu.return %0, %1 : tensor<2x3x4x6xf32>, tensor<2x3x4x6xf32>
}

// Rank 1, and nothing to contract.
// CHECK-LABEL: func.func @edges
// CHECK: blurt.gemm %{{.*}}, %{{.*}} : (tensor<1x4xf32>, tensor<4x1xf32>) -> tensor<1x1xf32>
// CHECK: blurt.group "fill" domain [2, 3]

blu.step @edges program(train) (%a: tensor<4xf32> {blu.tensor = {name = "a", role = "input"}}, %b: tensor<4xf32> {blu.tensor = {name = "b", role = "input"}}, %c: tensor<2x0xf32> {blu.tensor = {name = "c", role = "input"}}, %d: tensor<0x3xf32> {blu.tensor = {name = "d", role = "input"}})
    -> (tensor<f32> {blu.tensor = {name = "r0", role = "output"}}, tensor<2x3xf32> {blu.tensor = {name = "r1", role = "output"}}) {
  %0 = blu.matmul %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<f32>
  %1 = blu.matmul %c, %d : (tensor<2x0xf32>, tensor<0x3xf32>) -> tensor<2x3xf32>
  blu.return %0, %1 : tensor<f32>, tensor<2x3xf32>
}

// A product is added to what dies there.
// CHECK-LABEL: func.func @plus
// CHECK: %[[Y:.*]] = blurt.gemm
// CHECK: blurt.gemm %{{.*}}, %{{.*}} plus %[[Y]]
// CHECK-NOT: blurt.group "

blu.step @plus program(train) (%a: tensor<3x4xf32> {blu.tensor = {name = "a", role = "input"}}, %b: tensor<4x5xf32> {blu.tensor = {name = "b", role = "input"}})
    -> (tensor<3x5xf32> {blu.tensor = {name = "r0", role = "output"}}) {
  %x = blu.matmul %a, %b : (tensor<3x4xf32>, tensor<4x5xf32>) -> tensor<3x5xf32>
  %y = blu.matmul %a, %b : (tensor<3x4xf32>, tensor<4x5xf32>) -> tensor<3x5xf32>
  %0 = blu.add %x, %y : (tensor<3x5xf32>, tensor<3x5xf32>) -> tensor<3x5xf32>
  blu.return %0 : tensor<3x5xf32>
}

// Not to an argument, which may be read again, and not in bf16, where the
// product is rounded.
// CHECK-LABEL: func.func @no_plus
// CHECK-NOT: plus
// CHECK: return

blu.step @no_plus program(train) (%a: tensor<3x4xf32> {blu.tensor = {name = "a", role = "input"}}, %b: tensor<4x5xf32> {blu.tensor = {name = "b", role = "input"}}, %c: tensor<3x5xf32> {blu.tensor = {name = "c", role = "input"}}, %d: tensor<3x4xbf16> {blu.tensor = {name = "d", role = "input"}}, %e: tensor<4x3xbf16> {blu.tensor = {name = "e", role = "input"}})
    -> (tensor<3x5xf32> {blu.tensor = {name = "r0", role = "output"}}, tensor<3x3xbf16> {blu.tensor = {name = "r1", role = "output"}}) {
  %x = blu.matmul %a, %b : (tensor<3x4xf32>, tensor<4x5xf32>) -> tensor<3x5xf32>
  %0 = blu.add %x, %c : (tensor<3x5xf32>, tensor<3x5xf32>) -> tensor<3x5xf32>
  %y = blu.matmul %d, %e : (tensor<3x4xbf16>, tensor<4x3xbf16>) -> tensor<3x3xbf16>
  %z = blu.matmul %d, %e : (tensor<3x4xbf16>, tensor<4x3xbf16>) -> tensor<3x3xbf16>
  %1 = blu.add %y, %z : (tensor<3x3xbf16>, tensor<3x3xbf16>) -> tensor<3x3xbf16>
  blu.return %0, %1 : tensor<3x5xf32>, tensor<3x3xbf16>
}

// A wide product is written in f32, and added where the sum is.
// CHECK-LABEL: func.func @wide
// CHECK: %[[C:.*]] = blurt.group "exp"
// CHECK: blurt.gemm %{{.*}} transposed, %{{.*}} plus %[[C]] : (tensor<4x3xbf16>, tensor<4x5xbf16>, tensor<3x5xf32>) -> tensor<3x5xf32>

blu.step @wide program(train) (%a: tensor<4x3xbf16> {blu.tensor = {name = "a", role = "input"}}, %b: tensor<4x5xbf16> {blu.tensor = {name = "b", role = "input"}}, %c: tensor<3x5xf32> {blu.tensor = {name = "c", role = "input"}})
    -> (tensor<3x5xf32> {blu.tensor = {name = "r0", role = "output"}}) {
  %0 = blu.exp %c : tensor<3x5xf32>
  %1 = blu.matmul %a, %b trans_a wide : (tensor<4x3xbf16>, tensor<4x5xbf16>) -> tensor<3x5xf32>
  %2 = blu.add %0, %1 : (tensor<3x5xf32>, tensor<3x5xf32>) -> tensor<3x5xf32>
  blu.return %2 : tensor<3x5xf32>
}
