// RUN: bt-opt %s -split-input-file -verify-diagnostics -blu-instantiate-programs="batch=2"

// expected-error @below {{argument 'x' of type 'tensor<?x?xf32>' has an unknown dim 1, expected --seq}}
blu.model @m(%x: tensor<?x?xf32> {blu.name = "x"}) -> (tensor<f32> {blu.name = "loss"}) {
  %l = blu.reduce_sum %x [0, 1] : (tensor<?x?xf32>) -> tensor<f32>
  blu.return %l : tensor<f32>
}

// -----

// expected-error @below {{argument 'x' of type 'tensor<2x3x?xf32>' has an unknown dim 2}}
blu.model @m(%x: tensor<2x3x?xf32> {blu.name = "x"}) -> (tensor<f32> {blu.name = "loss"}) {
  %l = blu.reduce_sum %x [0, 1, 2] : (tensor<2x3x?xf32>) -> tensor<f32>
  blu.return %l : tensor<f32>
}

// -----

// expected-error @below {{'blu.model' op has no result 'loss' to train on}}
blu.model @m(%x: tensor<?xf32> {blu.name = "x"}) -> (tensor<?xf32> {blu.name = "y"}) {
  blu.return %x : tensor<?xf32>
}

// -----

// expected-error @below {{has 0 models, expected one 'blu.model'}}
module {
}

// -----

// expected-error @below {{'blu.model' op attribute 'blu.context' is "long", expected a positive integer}}
blu.model @m(%x: tensor<?xf32> {blu.name = "x"}) -> (tensor<f32> {blu.name = "loss"}) attributes {blu.context = "long"} {
  %l = blu.reduce_sum %x [0] : (tensor<?xf32>) -> tensor<f32>
  blu.return %l : tensor<f32>
}
