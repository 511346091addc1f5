// RUN: bt-opt %s -split-input-file -verify-diagnostics

func.func @dropout_C1(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{'blu.dropout' op failed to verify that all of {input, result} have same type}}
  %y = "blu.dropout"(%x) <{rate = 0.5 : f64}> : (tensor<3x4xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @dropout_C2(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{'blu.dropout' op rate is 1.000000e+00, expected at least 0 and less than 1}}
  %y = blu.dropout %x rate = 1.0 : tensor<3x4xf32>
  return
}

// -----

func.func @dropout_C2_negative(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{'blu.dropout' op rate is -5.000000e-01, expected at least 0 and less than 1}}
  %y = blu.dropout %x rate = -0.5 : tensor<3x4xf32>
  return
}
