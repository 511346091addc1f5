// RUN: bt-opt %s -split-input-file -verify-diagnostics

func.func @param_C1_name() {
  // expected-error @+1 {{'blu.param' op name is empty}}
  %w = blu.param "" init(#blu.zeros) : tensor<3x4xf32>
  return
}

// -----

func.func @param_C1_shape() {
  // expected-error @+1 {{'blu.param' op has type 'tensor<?x4xf32>', expected a static shape}}
  %w = blu.param "w" init(#blu.zeros) : tensor<?x4xf32>
  return
}

// -----

func.func @param_C1_integer() {
  // expected-error @+1 {{'blu.param' op result #0 must be ranked tensor of 64-bit float or 32-bit float or bfloat16 type values, but got 'tensor<4xi32>'}}
  %w = blu.param "w" init(#blu.zeros) : tensor<4xi32>
  return
}

// -----

func.func @param_C2() {
  // expected-error @+1 {{'blu.param' op has both decay and no_decay}}
  %w = blu.param "w" init(#blu.zeros) decay no_decay : tensor<3x4xf32>
  return
}

// -----

func.func @param_C3() {
  // expected-error @+1 {{'blu.param' op transposed export of rank 1, expected rank 2}}
  %w = blu.param "w" init(#blu.zeros) export("w" transpose) : tensor<4xf32>
  return
}

// -----

func.func @param_init() {
  // expected-error @+1 {{'blu.param' op attribute 'init' failed to satisfy constraint: #blu.zeros, #blu.ones, #blu.fill, #blu.normal or #blu.uniform}}
  %w = blu.param "w" init(1.0) : tensor<3x4xf32>
  return
}

// -----

func.func @param_normal() {
  // expected-error @+1 {{standard deviation is -1.000000e+00, expected a finite number of at least 0}}
  %w = blu.param "w" init(#blu.normal<0.0, -1.0>) : tensor<3x4xf32>
  return
}

// -----

func.func @param_normal_infinite() {
  // expected-error @+1 {{standard deviation is INF, expected a finite number of at least 0}}
  %w = blu.param "w" init(#blu.normal<0.0, 0x7FF0000000000000>) : tensor<3x4xf32>
  return
}

// -----

func.func @param_uniform_nan() {
  // expected-error @+1 {{bound is nan, expected a finite number}}
  %w = blu.param "w" init(#blu.uniform<0x7FF8000000000000, 1.0>) : tensor<3x4xf32>
  return
}

// -----

func.func @param_uniform() {
  // expected-error @+1 {{lower bound 1.000000e+00 exceeds upper bound -1.000000e+00}}
  %w = blu.param "w" init(#blu.uniform<1.0, -1.0>) : tensor<3x4xf32>
  return
}
