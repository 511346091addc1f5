// RUN: bt-opt %s -split-input-file -blu-set-precision="policy=bf16" | FileCheck %s

// Parameters stay and are cast once for products; the residual stream that the
// stack carries stays f32; normalisation is computed in f32, and so is the sum
// with the bias, which is rounded like other operands; the losses are f32.
// CHECK-LABEL: blu.model @stream
// CHECK: %[[TABLE:.*]] = blu.param "table" {{.*}} : tensor<16x8xf32>
// CHECK-NEXT: %[[HEAD:.*]] = blu.cast %[[TABLE]] : tensor<16x8xf32> to tensor<16x8xbf16>
// CHECK: %[[E:.*]] = blu.embedding %[[TABLE]], %ids {{.*}} -> tensor<4x8xf32>
// CHECK-NEXT: %[[S:.*]] = blu.stack "s" {{.*}} carry(%[[H:.*]] = %[[E]]) : (tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK: %[[N:.*]] = blu.param "norm"
// CHECK: %[[W:.*]] = blu.param "w" {{.*}} : tensor<8x8xf32>
// CHECK-NEXT: %[[W16:.*]] = blu.cast %[[W]]
// CHECK: %[[B:.*]] = blu.param "b"
// CHECK-NEXT: %[[B16:.*]] = blu.cast %[[B]] : tensor<8xf32> to tensor<8xbf16>
// CHECK: %[[L:.*]] = blu.layer_norm %[[H]], %[[N]], %[[B]] {{.*}} -> tensor<4x8xf32>
// CHECK-NEXT: %[[L16:.*]] = blu.cast %[[L]] : tensor<4x8xf32> to tensor<4x8xbf16>
// CHECK-NEXT: %[[P:.*]] = blu.linear %[[L16]], %[[W16]] : (tensor<4x8xbf16>, tensor<8x8xbf16>) -> tensor<4x8xbf16>
// CHECK-NEXT: %[[B32:.*]] = blu.cast %[[B16]] : tensor<8xbf16> to tensor<8xf32>
// CHECK-NEXT: %[[P32:.*]] = blu.cast %[[P]]
// CHECK-NEXT: %[[Q:.*]] = blu.add %[[P32]], %[[B32]]
// CHECK-NEXT: %[[Q16:.*]] = blu.cast %[[Q]] : tensor<4x8xf32> to tensor<4x8xbf16>
// CHECK-NEXT: %[[G:.*]] = blu.gelu %[[Q16]] approximate(tanh) : tensor<4x8xbf16>
// CHECK-NEXT: %[[G32:.*]] = blu.cast %[[G]] : tensor<4x8xbf16> to tensor<4x8xf32>
// CHECK-NEXT: %[[R:.*]] = blu.add %[[H]], %[[G32]] : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT: blu.yield %[[R]] : tensor<4x8xf32>
// CHECK: %[[S16:.*]] = blu.cast %[[S]] : tensor<4x8xf32> to tensor<4x8xbf16>
// CHECK-NEXT: %[[Z:.*]] = blu.linear %[[S16]], %[[HEAD]] : {{.*}} -> tensor<4x16xbf16>
// CHECK-NEXT: %[[LOSS:.*]] = blu.cross_entropy %[[Z]], %t {{.*}} : (tensor<4x16xbf16>, tensor<4xi32>) -> tensor<f32>
// CHECK-NEXT: blu.return %[[LOSS]] : tensor<f32>
blu.model @stream(%ids: tensor<4xi32> {blu.name = "ids"}, %t: tensor<4xi32> {blu.name = "t"}) -> (tensor<f32> {blu.name = "loss"}) {
  %table = blu.param "table" init(#blu.ones) : tensor<16x8xf32>
  %e = blu.embedding %table, %ids : (tensor<16x8xf32>, tensor<4xi32>) -> tensor<4x8xf32>
  %s = blu.stack "s" [0 to 2] iteration(%i) carry(%h = %e) : (tensor<4x8xf32>) -> tensor<4x8xf32> {
    %n = blu.param "norm" init(#blu.ones) : tensor<8xf32>
    %w = blu.param "w" init(#blu.ones) : tensor<8x8xf32>
    %b = blu.param "b" init(#blu.zeros) : tensor<8xf32>
    %l = blu.layer_norm %h, %n, %b eps = 1.0e-5 : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    %q = blu.linear %l, %w, %b : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    %g = blu.gelu %q approximate(tanh) : tensor<4x8xf32>
    %r = blu.add %h, %g : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    blu.yield %r : tensor<4x8xf32>
  }
  %z = blu.linear %s, %table : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  %loss = blu.cross_entropy %z, %t ignore_index = -100 reduction(mean) : (tensor<4x16xf32>, tensor<4xi32>) -> tensor<f32>
  blu.return %loss : tensor<f32>
}

// -----

// What a stack carries without adding to it is rounded.
// CHECK-LABEL: blu.model @chain
// CHECK: blu.stack "s" {{.*}} carry(%[[H:.*]] = %{{.*}}) : (tensor<4x8xbf16>) -> tensor<4x8xbf16>
// CHECK: blu.linear %[[H]], %{{.*}} : (tensor<4x8xbf16>, tensor<8x8xbf16>) -> tensor<4x8xbf16>
blu.model @chain(%x: tensor<4x8xf32> {blu.name = "x"}) -> (tensor<f32> {blu.name = "loss"}) {
  %s = blu.stack "s" [0 to 2] iteration(%i) carry(%h = %x) : (tensor<4x8xf32>) -> tensor<4x8xf32> {
    %w = blu.param "w" init(#blu.ones) : tensor<8x8xf32>
    %q = blu.linear %h, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %g = blu.gelu %q approximate(tanh) : tensor<4x8xf32>
    blu.yield %g : tensor<4x8xf32>
  }
  %loss = blu.reduce_mean %s [0, 1] : (tensor<4x8xf32>) -> tensor<f32>
  blu.return %loss : tensor<f32>
}

// -----

// An error of a prediction is not rounded, since the input is not, nor is what is
// nothing but a result.
// CHECK-LABEL: blu.model @regression
// CHECK: %[[W16:.*]] = blu.cast %{{.*}} : tensor<2x8xf32> to tensor<2x8xbf16>
// CHECK: %[[P:.*]] = blu.linear %{{.*}}, %[[W16]] : {{.*}} -> tensor<4x2xbf16>
// CHECK: %[[P32:.*]] = blu.cast %[[P]]
// CHECK-NEXT: %[[D:.*]] = blu.sub %[[P32]], %y : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
// CHECK-NEXT: %[[Q:.*]] = blu.mul %[[D]], %[[D]] : {{.*}} -> tensor<4x2xf32>
// CHECK-NEXT: blu.reduce_mean %[[Q]]
// CHECK: %[[R:.*]] = blu.linear %{{.*}}, %[[W16]] wide : {{.*}} -> tensor<4x2xf32>
// CHECK: blu.return %{{.*}}, %[[R]] : tensor<f32>, tensor<4x2xf32>
blu.model @regression(%x: tensor<4x8xf32> {blu.name = "x"}, %y: tensor<4x2xf32> {blu.name = "y"}) -> (tensor<f32> {blu.name = "loss"}, tensor<4x2xf32> {blu.name = "probe"}) {
  %w = blu.param "w" init(#blu.ones) : tensor<2x8xf32>
  %p = blu.linear %x, %w : (tensor<4x8xf32>, tensor<2x8xf32>) -> tensor<4x2xf32>
  %d = blu.sub %p, %y : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
  %q = blu.mul %d, %d : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
  %l = blu.reduce_mean %q [0, 1] : (tensor<4x2xf32>) -> tensor<f32>
  %n = blu.neg %x : tensor<4x8xf32>
  %r = blu.linear %n, %w : (tensor<4x8xf32>, tensor<2x8xf32>) -> tensor<4x2xf32>
  blu.return %l, %r : tensor<f32>, tensor<4x2xf32>
}

// -----

// Attention of bf16 with statistics of f32; probabilities stay f32 until a product
// reads them; in a checkpoint as anywhere.
// CHECK-LABEL: blu.model @attention
// CHECK: %[[C:.*]] = blu.checkpoint -> tensor<1x4x2x8xbf16>
// CHECK: blu.attention {{.*}} : (tensor<1x4x2x8xbf16>, tensor<1x4x2x8xbf16>, tensor<1x4x2x8xbf16>) -> (tensor<1x4x2x8xbf16>, tensor<1x2x4xf32>)
// CHECK: %[[P:.*]] = blu.softmax %{{.*}} dim = 2 : tensor<2x4x4xf32>
// CHECK-NEXT: %[[P16:.*]] = blu.cast %[[P]]
// CHECK-NEXT: blu.matmul %[[P16]], %{{.*}} : (tensor<2x4x4xbf16>, tensor<2x4x8xbf16>) -> tensor<2x4x8xbf16>
blu.model @attention(%x: tensor<1x4x2x8xf32> {blu.name = "x"}) -> (tensor<f32> {blu.name = "loss"}) {
  %c = blu.checkpoint -> tensor<1x4x2x8xf32> {
    %o, %lse = blu.attention %x, %x, %x scale = 0.5 causal : (tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>) -> (tensor<1x4x2x8xf32>, tensor<1x2x4xf32>)
    blu.yield %o : tensor<1x4x2x8xf32>
  }
  %h = blu.reshape %c [2, 4, 8] : (tensor<1x4x2x8xf32>) -> tensor<2x4x8xf32>
  %s = blu.matmul %h, %h trans_b : (tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> tensor<2x4x4xf32>
  %p = blu.softmax %s dim = 2 : tensor<2x4x4xf32>
  %v = blu.matmul %p, %h : (tensor<2x4x4xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  %l = blu.reduce_sum %v [0, 1, 2] : (tensor<2x4x8xf32>) -> tensor<f32>
  blu.return %l : tensor<f32>
}

// -----

// An op whose gradient would be rounded several times is computed in f32, also
// where the model itself is of bf16.
// CHECK-LABEL: blu.model @own
// CHECK: %[[X:.*]] = blu.cast %x : tensor<4xbf16> to tensor<4xf32>
// CHECK-NEXT: %[[S:.*]] = blu.silu %[[X]] : tensor<4xf32>
// CHECK-NEXT: %[[R:.*]] = blu.cast %[[S]] : tensor<4xf32> to tensor<4xbf16>
// CHECK-NEXT: blu.relu %[[R]] : tensor<4xbf16>
blu.model @own(%x: tensor<4xbf16> {blu.name = "x"}) -> (tensor<4xbf16> {blu.name = "y"}) {
  %s = blu.silu %x : tensor<4xbf16>
  %y = blu.relu %s : tensor<4xbf16>
  blu.return %y : tensor<4xbf16>
}

// -----

// What is of f64, or wide, on purpose stays so.
// CHECK-LABEL: blu.model @kept
// CHECK: blu.matmul %d, %d : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64>
// CHECK: %[[W:.*]] = blu.matmul %x, %x wide : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xf32>
// CHECK: blu.neg %[[W]] : tensor<4x4xf32>
blu.model @kept(%d: tensor<4x4xf64> {blu.name = "d"}, %x: tensor<4x4xbf16> {blu.name = "x"}) -> (tensor<4x4xf64> {blu.name = "y"}, tensor<4x4xf32> {blu.name = "z"}) {
  %y = blu.matmul %d, %d : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64>
  %w = blu.matmul %x, %x wide : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xf32>
  %z = blu.neg %w : tensor<4x4xf32>
  blu.return %y, %z : tensor<4x4xf64>, tensor<4x4xf32>
}

// -----

// A weight with padding is rounded part by part, the bias too.
// CHECK-LABEL: blu.model @padded
// CHECK: %[[W:.*]] = blu.param "w"
// CHECK: %[[WN:.*]] = blu.cast %[[W]] : tensor<61x8xf32> to tensor<61x8xbf16>
// CHECK: %[[B:.*]] = blu.param "b"
// CHECK: %[[BN:.*]] = blu.cast %[[B]]
// CHECK: %[[Z:.*]] = blu.constant dense<0.000000e+00> : tensor<3x8xbf16>
// CHECK: %[[P:.*]] = blu.concat dim = 0 %[[WN]], %[[Z]] : (tensor<61x8xbf16>, tensor<3x8xbf16>) -> tensor<64x8xbf16>
// CHECK: %[[C:.*]] = blu.concat dim = 0 %[[BN]], %{{.*}} : (tensor<61xbf16>, tensor<3xbf16>) -> tensor<64xbf16>
// CHECK-NOT: tensor<64x8xf32>
// CHECK: blu.linear %{{.*}}, %[[P]] : (tensor<4x8xbf16>, tensor<64x8xbf16>) -> tensor<4x64xbf16>
// CHECK: blu.cross_entropy %{{.*}} classes = 61 : (tensor<4x64xbf16>, tensor<4xi32>) -> tensor<f32>
blu.model @padded(%x: tensor<4x8xf32> {blu.name = "x"}, %t: tensor<4xi32> {blu.name = "t"}) -> (tensor<f32> {blu.name = "loss"}) {
  %w = blu.param "w" init(#blu.zeros) : tensor<61x8xf32>
  %b = blu.param "b" init(#blu.zeros) : tensor<61xf32>
  %z = blu.constant dense<0.0> : tensor<3x8xf32>
  %y = blu.constant dense<0.0> : tensor<3xf32>
  %p = blu.concat dim = 0 %w, %z : (tensor<61x8xf32>, tensor<3x8xf32>) -> tensor<64x8xf32>
  %c = blu.concat dim = 0 %b, %y : (tensor<61xf32>, tensor<3xf32>) -> tensor<64xf32>
  %l = blu.linear %x, %p, %c : (tensor<4x8xf32>, tensor<64x8xf32>, tensor<64xf32>) -> tensor<4x64xf32>
  %loss = blu.cross_entropy %l, %t ignore_index = -1 reduction(mean) classes = 61 : (tensor<4x64xf32>, tensor<4xi32>) -> tensor<f32>
  blu.return %loss : tensor<f32>
}
