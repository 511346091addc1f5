// RUN: bt-opt %s -split-input-file -verify-diagnostics

func.func @embedding_grad_C1(%i: tensor<3xi32>, %g: tensor<2x4xf32>) {
  // expected-error @+1 {{'blu.embedding_grad' op cotangent has shape 2x4, ids have 3}}
  %y = blu.embedding_grad %i, %g rows = 5 : (tensor<3xi32>, tensor<2x4xf32>) -> tensor<5x4xf32>
  return
}

// -----

func.func @embedding_grad_C2(%i: tensor<3xi32>, %g: tensor<3x4xf32>) {
  // expected-error @+1 {{'blu.embedding_grad' op rows is 0, expected at least 1}}
  %y = blu.embedding_grad %i, %g rows = 0 : (tensor<3xi32>, tensor<3x4xf32>) -> tensor<0x4xf32>
  return
}
