// RUN: bt-opt %s -split-input-file -verify-diagnostics

func.func @embedding_C1(%w: tensor<4xf32>, %i: tensor<3xi32>) {
  // expected-error @+1 {{'blu.embedding' op table has type 'tensor<4xf32>', expected rank 2}}
  %y = blu.embedding %w, %i : (tensor<4xf32>, tensor<3xi32>) -> tensor<3xf32>
  return
}

// -----

func.func @embedding_float_ids(%w: tensor<3x4xf32>, %i: tensor<3xf32>) {
  // expected-error @+1 {{'blu.embedding' op operand #1 must be ranked tensor of 64-bit signless integer or 32-bit signless integer values, but got 'tensor<3xf32>'}}
  %y = blu.embedding %w, %i : (tensor<3x4xf32>, tensor<3xf32>) -> tensor<3x4xf32>
  return
}
