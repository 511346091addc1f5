// ReLU, exact GELU, a layer norm and a dropout of rate 0 over odd shapes.
blu.model @mlp(%x: tensor<?x13xf32> {blu.name = "x"}, %label: tensor<?xi32> {blu.name = "label"}) -> (tensor<f32> {blu.name = "loss"}, tensor<?x5xf32> {blu.name = "logits"}) {
  %w1 = blu.param "w1" init(#blu.normal<0.0, 0.3>) : tensor<19x13xf32>
  %b1 = blu.param "b1" init(#blu.zeros) : tensor<19xf32>
  %0 = blu.linear %x, %w1, %b1 : (tensor<?x13xf32>, tensor<19x13xf32>, tensor<19xf32>) -> tensor<?x19xf32>
  %1 = blu.relu %0 : tensor<?x19xf32>
  %g = blu.param "g" init(#blu.ones) : tensor<19xf32>
  %b = blu.param "b" init(#blu.zeros) : tensor<19xf32>
  %2 = blu.layer_norm %1, %g, %b eps = 1.0e-05 : (tensor<?x19xf32>, tensor<19xf32>, tensor<19xf32>) -> tensor<?x19xf32>
  %3 = blu.dropout %2 rate = 0.0 : tensor<?x19xf32>
  %w2 = blu.param "w2" init(#blu.normal<0.0, 0.3>) : tensor<17x19xf32>
  %4 = blu.linear %3, %w2 : (tensor<?x19xf32>, tensor<17x19xf32>) -> tensor<?x17xf32>
  %5 = blu.gelu %4 approximate(erf) : tensor<?x17xf32>
  %w3 = blu.param "w3" init(#blu.normal<0.0, 0.3>) : tensor<5x17xf32>
  %6 = blu.linear %5, %w3 : (tensor<?x17xf32>, tensor<5x17xf32>) -> tensor<?x5xf32>
  %loss = blu.cross_entropy %6, %label ignore_index = -100 reduction(mean) : (tensor<?x5xf32>, tensor<?xi32>) -> tensor<f32>
  blu.return %loss, %6 : tensor<f32>, tensor<?x5xf32>
}
