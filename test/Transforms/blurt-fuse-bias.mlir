// RUN: bt-opt %s -blurt-fuse-bias | FileCheck %s

#id = affine_map<(d0, d1) -> (d0, d1)>
#last = affine_map<(d0, d1) -> (d1)>
#first = affine_map<(d0, d1) -> (d0)>

// A group that does nothing else goes.
// CHECK-LABEL: func.func @alone
// CHECK-SAME: (%[[X:.*]]: tensor<32x16xf32>, %[[W:.*]]: tensor<8x16xf32>, %[[B:.*]]: tensor<8xf32>
// CHECK: %[[Y:.*]] = blurt.gemm %[[X]], %[[W]] transposed bias %[[B]]
// CHECK-NOT: blurt.group
// CHECK: return %[[Y]]
func.func @alone(%x: tensor<32x16xf32>,
                 %w: tensor<8x16xf32>,
                 %b: tensor<8xf32>) -> tensor<32x8xf32> {
  %p = blurt.gemm %x, %w transposed : (tensor<32x16xf32>, tensor<8x16xf32>) -> tensor<32x8xf32>
  %y = blurt.group "bias" domain [32, 8] ins(%p [#id] : tensor<32x8xf32>, %b [#last] : tensor<8xf32>) outs([#id]) -> tensor<32x8xf32> {
  ^bb0(%e: f32, %v: f32):
    %s = arith.addf %e, %v : f32
    blurt.group_yield %s : f32
  }
  return %y : tensor<32x8xf32>
}

// The sum is an output among others: it is the product's; the rest stays.
// CHECK-LABEL: func.func @shared
// CHECK: %[[P:.*]] = blurt.gemm {{.*}} bias %{{.*}}
// CHECK: %[[Y:.*]] = blurt.group "bias_square" domain [32, 8] ins(%[[P]] [#{{.*}}] : tensor<32x8xf32>) outs([#{{.*}}]) -> tensor<32x8xf32> {
// CHECK-NEXT: ^bb0(%[[E:.*]]: f32):
// CHECK-NEXT: %[[Q:.*]] = arith.mulf %[[E]], %[[E]] : f32
// CHECK-NEXT: blurt.group_yield %[[Q]] : f32
// CHECK: return %[[P]], %[[Y]]
func.func @shared(%x: tensor<32x16xf32>, %w: tensor<16x8xf32>, %all: tensor<3x8xf32>) -> (tensor<32x8xf32>, tensor<32x8xf32>) {
  %p = blurt.gemm %x, %w : (tensor<32x16xf32>, tensor<16x8xf32>) -> tensor<32x8xf32>
  %row = blurt.slice %all [1, 0] : tensor<3x8xf32> to tensor<1x8xf32>
  %b = blurt.reshape %row : tensor<1x8xf32> to tensor<8xf32>
  %s, %y = blurt.group "bias_square" domain [32, 8] ins(%b [#last] : tensor<8xf32>, %p [#id] : tensor<32x8xf32>) outs([#id], [#id]) -> (tensor<32x8xf32>, tensor<32x8xf32>) {
  ^bb0(%v: f32, %e: f32):
    %s = arith.addf %v, %e : f32
    %q = arith.mulf %s, %s : f32
    blurt.group_yield %s, %q : f32, f32
  }
  return %s, %y : tensor<32x8xf32>, tensor<32x8xf32>
}

// A rounded product, whose sum is rounded before anything else: it comes rounded
// from the product, once.
// CHECK-LABEL: func.func @rounded
// CHECK: %[[P:.*]] = blurt.gemm {{.*}} bias %{{.*}} -> tensor<8x8xbf16>
// CHECK: blurt.group "bias_square" domain [8, 8] ins(%[[P]] [#{{.*}}] : tensor<8x8xbf16>) outs([#{{.*}}]) -> tensor<8x8xbf16> {
// CHECK-NEXT: ^bb0(%[[E:.*]]: f32):
// CHECK-NEXT: arith.mulf %[[E]], %[[E]] : f32
func.func @rounded(%x: tensor<8x16xbf16>, %w: tensor<16x8xbf16>, %b: tensor<8xbf16>) -> (tensor<8x8xbf16>, tensor<8x8xbf16>) {
  %p = blurt.gemm %x, %w : (tensor<8x16xbf16>, tensor<16x8xbf16>) -> tensor<8x8xbf16>
  %s, %y = blurt.group "bias_square" domain [8, 8] ins(%p [#id] : tensor<8x8xbf16>, %b [#last] : tensor<8xbf16>) outs([#id], [#id]) -> (tensor<8x8xbf16>, tensor<8x8xbf16>) {
  ^bb0(%e: f32, %v: f32):
    %s = arith.addf %e, %v : f32
    %n = arith.truncf %s : f32 to bf16
    %r = arith.extf %n : bf16 to f32
    %q = arith.mulf %r, %r : f32
    blurt.group_yield %s, %q : f32, f32
  }
  return %s, %y : tensor<8x8xbf16>, tensor<8x8xbf16>
}

// A column, a product used twice, a bf16 product with an f32 bias or whose sum
// is read in f32, and one that is updated.
// CHECK-LABEL: func.func @others
// CHECK-NOT: bias %
// CHECK: return
func.func @others(%x: tensor<8x16xf32>, %w: tensor<16x8xf32>, %b: tensor<8xf32>, %h: tensor<8x16xbf16>, %c: tensor<8x8xf32>, %d: tensor<8xbf16>)
    -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xbf16>, tensor<8x8xbf16>, tensor<8x8xf32>) {
  %p = blurt.gemm %x, %w : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %0 = blurt.group "column" domain [8, 8] ins(%p [#id] : tensor<8x8xf32>, %b [#first] : tensor<8xf32>) outs([#id]) -> tensor<8x8xf32> {
  ^bb0(%e: f32, %v: f32):
    %s = arith.addf %e, %v : f32
    blurt.group_yield %s : f32
  }
  %q = blurt.gemm %x, %w : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %1 = blurt.group "bias" domain [8, 8] ins(%q [#id] : tensor<8x8xf32>, %b [#last] : tensor<8xf32>) outs([#id]) -> tensor<8x8xf32> {
  ^bb0(%e: f32, %v: f32):
    %s = arith.addf %e, %v : f32
    blurt.group_yield %s : f32
  }
  %k = blurt.gemm %h, %h transposed : (tensor<8x16xbf16>, tensor<8x16xbf16>) -> tensor<8x8xbf16>
  %2 = blurt.group "bias" domain [8, 8] ins(%k [#id] : tensor<8x8xbf16>, %b [#last] : tensor<8xf32>) outs([#id]) -> tensor<8x8xbf16> {
  ^bb0(%e: f32, %v: f32):
    %s = arith.addf %e, %v : f32
    blurt.group_yield %s : f32
  }
  %l = blurt.gemm %h, %h transposed : (tensor<8x16xbf16>, tensor<8x16xbf16>) -> tensor<8x8xbf16>
  %4 = blurt.group "bias_square" domain [8, 8] ins(%l [#id] : tensor<8x8xbf16>, %d [#last] : tensor<8xbf16>) outs([#id]) -> tensor<8x8xbf16> {
  ^bb0(%e: f32, %v: f32):
    %s = arith.addf %e, %v : f32
    %t = arith.mulf %s, %s : f32
    blurt.group_yield %t : f32
  }
  %u = blurt.gemm %x, %w plus %c : (tensor<8x16xf32>, tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = blurt.group "bias" domain [8, 8] ins(%u [#id] : tensor<8x8xf32>, %b [#last] : tensor<8xf32>) outs([#id]) -> tensor<8x8xf32> {
  ^bb0(%e: f32, %v: f32):
    %s = arith.addf %e, %v : f32
    blurt.group_yield %s : f32
  }
  return %0, %q, %1, %2, %4, %3 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xbf16>, tensor<8x8xbf16>, tensor<8x8xf32>
}
