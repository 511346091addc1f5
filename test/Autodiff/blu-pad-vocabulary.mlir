// RUN: bt-opt %s -split-input-file -blu-pad-vocabulary="multiple=64" | FileCheck %s
// RUN: bt-opt %s -split-input-file -blu-pad-vocabulary="multiple=0" | FileCheck %s --check-prefix=OFF
// RUN: not bt-opt %s -blu-pad-vocabulary="multiple=-1" 2>&1 | FileCheck %s --check-prefix=NEGATIVE

// OFF-NOT: blu.concat
// OFF-NOT: classes
// NEGATIVE: error: multiple is -1, expected at least 0

// Both losses read the padded logits, through a reshape too; the embedding reads
// the table that the model has.
// CHECK-LABEL: blu.model @tied
// CHECK: %[[W:.*]] = blu.param "w" {{.*}} : tensor<61x4xf32>
// CHECK: %[[X:.*]] = blu.embedding %[[W]]
// CHECK: %[[Z:.*]] = blu.constant dense<0.000000e+00> : tensor<3x4xf32>
// CHECK: %[[P:.*]] = blu.concat dim = 0 %[[W]], %[[Z]] : (tensor<61x4xf32>, tensor<3x4xf32>) -> tensor<64x4xf32>
// CHECK: %[[L:.*]] = blu.linear %[[X]], %[[P]] : (tensor<2x6x4xf32>, tensor<64x4xf32>) -> tensor<2x6x64xf32>
// CHECK-NOT: blu.slice
// CHECK: %[[R:.*]] = blu.reshape %[[L]] [12, 64] : (tensor<2x6x64xf32>) -> tensor<12x64xf32>
// CHECK: blu.cross_entropy %[[R]], %{{.*}} ignore_index = -100 reduction(mean) classes = 61 : (tensor<12x64xf32>, tensor<12xi32>) -> tensor<f32>
// CHECK: blu.cross_entropy %[[L]], %{{.*}} ignore_index = -100 reduction(none) classes = 61 : (tensor<2x6x64xf32>, tensor<2x6xi32>) -> tensor<2x6xf32>
blu.model @tied(%tokens: tensor<2x6xi32> {blu.name = "tokens"}, %t: tensor<2x6xi32> {blu.name = "targets"})
    -> (tensor<f32> {blu.name = "loss"}, tensor<2x6xf32> {blu.name = "token_loss"}) {
  %w = blu.param "w" init(#blu.normal<0.0, 0.02>) : tensor<61x4xf32>
  %x = blu.embedding %w, %tokens : (tensor<61x4xf32>, tensor<2x6xi32>) -> tensor<2x6x4xf32>
  %z = blu.linear %x, %w : (tensor<2x6x4xf32>, tensor<61x4xf32>) -> tensor<2x6x61xf32>
  %zr = blu.reshape %z [-1, 61] : (tensor<2x6x61xf32>) -> tensor<12x61xf32>
  %tr = blu.reshape %t [-1] : (tensor<2x6xi32>) -> tensor<12xi32>
  %l = blu.cross_entropy %zr, %tr ignore_index = -100 reduction(mean) : (tensor<12x61xf32>, tensor<12xi32>) -> tensor<f32>
  %n = blu.cross_entropy %z, %t ignore_index = -100 reduction(none) : (tensor<2x6x61xf32>, tensor<2x6xi32>) -> tensor<2x6xf32>
  blu.return %l, %n : tensor<f32>, tensor<2x6xf32>
}

// -----

// With a bias; what else reads the logits gets those of the classes.
// CHECK-LABEL: blu.model @others
// CHECK: %[[W:.*]] = blu.param "w"
// CHECK: %[[B:.*]] = blu.param "b"
// CHECK-DAG: %[[BP:.*]] = blu.concat dim = 0 %[[B]], %{{.*}} : (tensor<61xf32>, tensor<3xf32>) -> tensor<64xf32>
// CHECK-DAG: %[[WP:.*]] = blu.concat dim = 0 %[[W]], %{{.*}} -> tensor<64x4xf32>
// CHECK: %[[L:.*]] = blu.linear %{{.*}}, %[[WP]], %[[BP]] : {{.*}} -> tensor<8x64xf32>
// CHECK: %[[S:.*]] = blu.slice %[[L]] dim = 1 start = 0 size = 61 : (tensor<8x64xf32>) -> tensor<8x61xf32>
// CHECK: %[[E:.*]] = blu.exp %[[S]]
// CHECK: %[[LOSS:.*]] = blu.cross_entropy %[[L]], {{.*}} reduction(sum) classes = 61
// CHECK: blu.return %[[LOSS]], %[[S]], %[[E]]
blu.model @others(%x: tensor<8x4xf32> {blu.name = "x"}, %t: tensor<8xi32> {blu.name = "t"})
    -> (tensor<f32> {blu.name = "loss"}, tensor<8x61xf32> {blu.name = "logits"}, tensor<8x61xf32> {blu.name = "e"}) {
  %w = blu.param "w" init(#blu.zeros) : tensor<61x4xf32>
  %b = blu.param "b" init(#blu.zeros) : tensor<61xf32>
  %z = blu.linear %x, %w, %b : (tensor<8x4xf32>, tensor<61x4xf32>, tensor<61xf32>) -> tensor<8x61xf32>
  %e = blu.exp %z : tensor<8x61xf32>
  %l = blu.cross_entropy %z, %t ignore_index = -1 reduction(sum) : (tensor<8x61xf32>, tensor<8xi32>) -> tensor<f32>
  blu.return %l, %z, %e : tensor<f32>, tensor<8x61xf32>, tensor<8x61xf32>
}

// -----

// Weights of a product lie either way.
// CHECK-LABEL: blu.model @products
// CHECK: blu.concat dim = 1 %{{.*}} : (tensor<4x61xf32>, tensor<4x3xf32>) -> tensor<4x64xf32>
// CHECK: blu.matmul %{{.*}} : (tensor<8x4xf32>, tensor<4x64xf32>) -> tensor<8x64xf32>
// CHECK: blu.concat dim = 0 %{{.*}} : (tensor<127x4xf32>, tensor<1x4xf32>) -> tensor<128x4xf32>
// CHECK: blu.matmul %{{.*}} trans_b : (tensor<8x4xf32>, tensor<128x4xf32>) -> tensor<8x128xf32>
blu.model @products(%x: tensor<8x4xf32> {blu.name = "x"}, %t: tensor<8xi32> {blu.name = "t"})
    -> (tensor<f32> {blu.name = "loss"}) {
  %w = blu.param "w" init(#blu.zeros) : tensor<4x61xf32>
  %v = blu.param "v" init(#blu.zeros) : tensor<127x4xf32>
  %z = blu.matmul %x, %w : (tensor<8x4xf32>, tensor<4x61xf32>) -> tensor<8x61xf32>
  %y = blu.matmul %x, %v trans_b : (tensor<8x4xf32>, tensor<127x4xf32>) -> tensor<8x127xf32>
  %l = blu.cross_entropy %z, %t ignore_index = -1 reduction(sum) : (tensor<8x61xf32>, tensor<8xi32>) -> tensor<f32>
  %k = blu.cross_entropy %y, %t ignore_index = -1 reduction(sum) : (tensor<8x127xf32>, tensor<8xi32>) -> tensor<f32>
  %s = blu.add %l, %k : (tensor<f32>, tensor<f32>) -> tensor<f32>
  blu.return %s : tensor<f32>
}

// -----

// 10 classes would be padded more than sixfold, 1000 fill 16 bytes in any type,
// logits without a loss are only read, products of activations are no weights.
// CHECK-LABEL: blu.model @left
// CHECK-NOT: blu.concat
// CHECK-NOT: classes
blu.model @left(%x: tensor<8x4xf32> {blu.name = "x"}, %a: tensor<2x8x61xf32> {blu.name = "a"},
                %t: tensor<8xi32> {blu.name = "t"}, %u: tensor<2x8xi32> {blu.name = "u"})
    -> (tensor<f32> {blu.name = "loss"}, tensor<8x61xf32> {blu.name = "logits"}) {
  %w = blu.param "w" init(#blu.zeros) : tensor<10x4xf32>
  %v = blu.param "v" init(#blu.zeros) : tensor<1000x4xf32>
  %p = blu.param "p" init(#blu.zeros) : tensor<61x4xf32>
  %z = blu.linear %x, %w : (tensor<8x4xf32>, tensor<10x4xf32>) -> tensor<8x10xf32>
  %y = blu.linear %x, %v : (tensor<8x4xf32>, tensor<1000x4xf32>) -> tensor<8x1000xf32>
  %q = blu.linear %x, %p : (tensor<8x4xf32>, tensor<61x4xf32>) -> tensor<8x61xf32>
  %xb = blu.broadcast %x : (tensor<8x4xf32>) -> tensor<2x8x4xf32>
  %xt = blu.transpose %xb [0, 2, 1] : (tensor<2x8x4xf32>) -> tensor<2x4x8xf32>
  %c = blu.matmul %xt, %a : (tensor<2x4x8xf32>, tensor<2x8x61xf32>) -> tensor<2x4x61xf32>
  %d = blu.matmul %xb, %c : (tensor<2x8x4xf32>, tensor<2x4x61xf32>) -> tensor<2x8x61xf32>
  %l = blu.cross_entropy %z, %t ignore_index = -1 reduction(sum) : (tensor<8x10xf32>, tensor<8xi32>) -> tensor<f32>
  %k = blu.cross_entropy %y, %t ignore_index = -1 reduction(sum) : (tensor<8x1000xf32>, tensor<8xi32>) -> tensor<f32>
  %m = blu.cross_entropy %d, %u ignore_index = -1 reduction(sum) : (tensor<2x8x61xf32>, tensor<2x8xi32>) -> tensor<f32>
  %s = blu.add %l, %k : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %r = blu.add %s, %m : (tensor<f32>, tensor<f32>) -> tensor<f32>
  blu.return %r, %q : tensor<f32>, tensor<8x61xf32>
}
