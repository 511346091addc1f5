// RUN: bt-opt %s -split-input-file -verify-diagnostics

func.func @broadcast_C1(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{'blu.broadcast' op input has element type 'f32', result has 'f64'}}
  %y = blu.broadcast %x : (tensor<3x4xf32>) -> tensor<2x3x4xf64>
  return
}

// -----

func.func @broadcast_C2(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{'blu.broadcast' op input dim 1 is 4, expected 1 or 5}}
  %y = blu.broadcast %x : (tensor<3x4xf32>) -> tensor<2x3x5xf32>
  return
}

// -----

func.func @broadcast_C2_rank(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{'blu.broadcast' op input has rank 2, result only 1}}
  %y = blu.broadcast %x : (tensor<3x4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @broadcast_C3(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{'blu.broadcast' op result has type 'tensor<?x3x4xf32>', expected a static shape}}
  %y = blu.broadcast %x : (tensor<3x4xf32>) -> tensor<?x3x4xf32>
  return
}
