// RUN: bt-opt %s -split-input-file -verify-diagnostics

func.func @concat_C1_empty() {
  // expected-error @+1 {{'blu.concat' op has no parts, expected at least one}}
  %y = blu.concat dim = 0 : () -> tensor<3x4xf32>
  return
}

// -----

func.func @concat_C1_rank(%a: tensor<3x4xf32>, %b: tensor<4xf32>) {
  // expected-error @+1 {{'blu.concat' op part 1 has type 'tensor<4xf32>', the first has 'tensor<3x4xf32>'}}
  %y = blu.concat dim = 0 %a, %b : (tensor<3x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  return
}

// -----

func.func @concat_C1_dim(%a: tensor<3x4xf32>) {
  // expected-error @+1 {{'blu.concat' op dim is 2, the input has rank 2}}
  %y = blu.concat dim = 2 %a : (tensor<3x4xf32>) -> tensor<3x4xf32>
  return
}

// -----

func.func @concat_C2(%a: tensor<3x4xf32>, %b: tensor<3x5xf32>) {
  // expected-error @+1 {{'blu.concat' op part 1 has dim 1 of 5, the first has 4}}
  %y = blu.concat dim = 0 %a, %b : (tensor<3x4xf32>, tensor<3x5xf32>) -> tensor<6x4xf32>
  return
}
