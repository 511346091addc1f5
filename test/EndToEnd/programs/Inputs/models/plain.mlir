// Wide intermediate values.
blu.model @checkpointed(%x: tensor<16x8xf32> {blu.name = "x"}, %label: tensor<16xi32> {blu.name = "label"}) -> (tensor<f32> {blu.name = "loss"}) {
  %w = blu.param "w" init(#blu.normal<0.0, 0.3>) : tensor<512x8xf32>
  %v = blu.param "v" init(#blu.normal<0.0, 0.1>) : tensor<8x512xf32>
  %0 = blu.linear %x, %w : (tensor<16x8xf32>, tensor<512x8xf32>) -> tensor<16x512xf32>
  %1 = blu.sigmoid %0 : tensor<16x512xf32>
  %2 = blu.softmax %1 dim = 1 : tensor<16x512xf32>
  %3 = blu.tanh %0 : tensor<16x512xf32>
  %4 = blu.mul %2, %3 : (tensor<16x512xf32>, tensor<16x512xf32>) -> tensor<16x512xf32>
  %y = blu.linear %4, %v : (tensor<16x512xf32>, tensor<8x512xf32>) -> tensor<16x8xf32>
  %w2 = blu.param "w2" init(#blu.normal<0.0, 0.3>) : tensor<512x8xf32>
  %v2 = blu.param "v2" init(#blu.normal<0.0, 0.1>) : tensor<8x512xf32>
  %5 = blu.linear %y, %w2 : (tensor<16x8xf32>, tensor<512x8xf32>) -> tensor<16x512xf32>
  %6 = blu.tanh %5 : tensor<16x512xf32>
  %7 = blu.sigmoid %5 : tensor<16x512xf32>
  %8 = blu.mul %6, %7 : (tensor<16x512xf32>, tensor<16x512xf32>) -> tensor<16x512xf32>
  %z = blu.linear %8, %v2 : (tensor<16x512xf32>, tensor<8x512xf32>) -> tensor<16x8xf32>
  %loss = blu.cross_entropy %z, %label ignore_index = -100 reduction(mean) : (tensor<16x8xf32>, tensor<16xi32>) -> tensor<f32>
  blu.return %loss : tensor<f32>
}
