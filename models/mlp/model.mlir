module {
  blu.model @mlp(%image: tensor<?x784xf32> {blu.name = "image"}, %label: tensor<?xi32> {blu.name = "label"}) -> (tensor<f32> {blu.name = "loss"}, tensor<?x10xf32> {blu.name = "logits"}) {
    %fc1.weight = blu.param "fc1.weight" init(#blu.normal<0.000000e+00, 0.050507627227610534>) export("fc1.weight") : tensor<256x784xf32>
    %fc1.bias = blu.param "fc1.bias" init(#blu.zeros) export("fc1.bias") : tensor<256xf32>
    %0 = blu.linear %image, %fc1.weight, %fc1.bias : (tensor<?x784xf32>, tensor<256x784xf32>, tensor<256xf32>) -> tensor<?x256xf32>
    %1 = blu.gelu %0 approximate(tanh) : tensor<?x256xf32>
    %fc2.weight = blu.param "fc2.weight" init(#blu.normal<0.000000e+00, 0.088388347648318447>) export("fc2.weight") : tensor<128x256xf32>
    %fc2.bias = blu.param "fc2.bias" init(#blu.zeros) export("fc2.bias") : tensor<128xf32>
    %2 = blu.linear %1, %fc2.weight, %fc2.bias : (tensor<?x256xf32>, tensor<128x256xf32>, tensor<128xf32>) -> tensor<?x128xf32>
    %3 = blu.gelu %2 approximate(tanh) : tensor<?x128xf32>
    %fc3.weight = blu.param "fc3.weight" init(#blu.normal<0.000000e+00, 1.250000e-01>) export("fc3.weight") : tensor<10x128xf32>
    %fc3.bias = blu.param "fc3.bias" init(#blu.zeros) export("fc3.bias") : tensor<10xf32>
    %4 = blu.linear %3, %fc3.weight, %fc3.bias : (tensor<?x128xf32>, tensor<10x128xf32>, tensor<10xf32>) -> tensor<?x10xf32>
    %5 = blu.cross_entropy %4, %label ignore_index = -100 reduction(mean) : (tensor<?x10xf32>, tensor<?xi32>) -> tensor<f32>
    blu.return %5, %4 : tensor<f32>, tensor<?x10xf32>
  }
}
