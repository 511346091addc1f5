// Nested stacks (the inner one without parameters), captured values, a concat, a
// slice, a tied parameter.
blu.model @nested(%x: tensor<5x7xf32> {blu.name = "x"}, %label: tensor<5xi32> {blu.name = "label"}) -> (tensor<f32> {blu.name = "loss"}) {
  %w = blu.param "w" init(#blu.normal<0.0, 0.3>) : tensor<7x7xf32>
  %scale = blu.param "scale" init(#blu.ones) : tensor<7xf32>
  %0 = blu.matmul %x, %w : (tensor<5x7xf32>, tensor<7x7xf32>) -> tensor<5x7xf32>
  %1 = blu.stack "block" [0 to 3] iteration(%i) carry(%h = %0) : (tensor<5x7xf32>) -> tensor<5x7xf32> {
    %v = blu.param "v" init(#blu.normal<0.0, 0.3>) : tensor<7x7xf32>
    %2 = blu.linear %h, %v : (tensor<5x7xf32>, tensor<7x7xf32>) -> tensor<5x7xf32>
    %3 = blu.stack "inner" [0 to 2] iteration(%j) carry(%g = %2) : (tensor<5x7xf32>) -> tensor<5x7xf32> {
      %4 = blu.tanh %g : tensor<5x7xf32>
      %5 = blu.mul %4, %scale : (tensor<5x7xf32>, tensor<7xf32>) -> tensor<5x7xf32>
      %6 = blu.add %5, %0 : (tensor<5x7xf32>, tensor<5x7xf32>) -> tensor<5x7xf32>
      blu.yield %6 : tensor<5x7xf32>
    }
    blu.yield %3 : tensor<5x7xf32>
  }
  %7 = blu.slice %1 dim = 1 start = 2 size = 3 : (tensor<5x7xf32>) -> tensor<5x3xf32>
  %8 = blu.concat dim = 1 %1, %7, %0 : (tensor<5x7xf32>, tensor<5x3xf32>, tensor<5x7xf32>) -> tensor<5x17xf32>
  %9 = blu.softmax %8 dim = 1 : tensor<5x17xf32>
  %10 = blu.add %8, %9 : (tensor<5x17xf32>, tensor<5x17xf32>) -> tensor<5x17xf32>
  %u = blu.param "u" init(#blu.normal<0.0, 0.3>) : tensor<11x17xf32>
  %11 = blu.linear %10, %u : (tensor<5x17xf32>, tensor<11x17xf32>) -> tensor<5x11xf32>
  %loss = blu.cross_entropy %11, %label ignore_index = -100 reduction(mean) : (tensor<5x11xf32>, tensor<5xi32>) -> tensor<f32>
  blu.return %loss : tensor<f32>
}
