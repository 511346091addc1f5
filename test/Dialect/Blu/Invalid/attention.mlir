// RUN: bt-opt %s -split-input-file -verify-diagnostics

func.func @attention_C1_rank(%q: tensor<8x4x16xf32>, %k: tensor<2x8x4x16xf32>, %v: tensor<2x8x4x16xf32>) {
  // expected-error @+1 {{'blu.attention' op operand has type 'tensor<8x4x16xf32>', expected rank 4: batch, length, heads, dim}}
  %o:2 = blu.attention %q, %k, %v scale = 0.25 causal : (tensor<8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>) -> (tensor<8x4x16xf32>, tensor<2x4x8xf32>)
  return
}

// -----

func.func @attention_C1_k_and_v(%q: tensor<2x8x4x16xf32>, %k: tensor<2x8x4x16xf32>, %v: tensor<2x9x4x16xf32>) {
  // expected-error @+1 {{'blu.attention' op k has type 'tensor<2x8x4x16xf32>', v has 'tensor<2x9x4x16xf32>'}}
  %o:2 = blu.attention %q, %k, %v scale = 0.25 causal : (tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x9x4x16xf32>) -> (tensor<2x8x4x16xf32>, tensor<2x4x8xf32>)
  return
}

// -----

func.func @attention_C1_element_types(%q: tensor<2x8x4x16xf32>, %k: tensor<2x8x4x16xbf16>, %v: tensor<2x8x4x16xbf16>) {
  // expected-error @+1 {{'blu.attention' op element types 'f32' and 'bf16' differ}}
  %o:2 = blu.attention %q, %k, %v scale = 0.25 causal : (tensor<2x8x4x16xf32>, tensor<2x8x4x16xbf16>, tensor<2x8x4x16xbf16>) -> (tensor<2x8x4x16xf32>, tensor<2x4x8xf32>)
  return
}

// -----

func.func @attention_C1_batch(%q: tensor<2x8x4x16xf32>, %k: tensor<3x8x4x16xf32>, %v: tensor<3x8x4x16xf32>) {
  // expected-error @+1 {{'blu.attention' op q dim 0 is 2, k dim 0 is 3}}
  %o:2 = blu.attention %q, %k, %v scale = 0.25 causal : (tensor<2x8x4x16xf32>, tensor<3x8x4x16xf32>, tensor<3x8x4x16xf32>) -> (tensor<2x8x4x16xf32>, tensor<2x4x8xf32>)
  return
}

// -----

func.func @attention_C1_head_dim(%q: tensor<2x8x4x16xf32>, %k: tensor<2x8x4x8xf32>, %v: tensor<2x8x4x8xf32>) {
  // expected-error @+1 {{'blu.attention' op q dim 3 is 16, k dim 3 is 8}}
  %o:2 = blu.attention %q, %k, %v scale = 0.25 causal : (tensor<2x8x4x16xf32>, tensor<2x8x4x8xf32>, tensor<2x8x4x8xf32>) -> (tensor<2x8x4x16xf32>, tensor<2x4x8xf32>)
  return
}

// -----

func.func @attention_C2(%q: tensor<2x8x4x16xf32>, %k: tensor<2x8x3x16xf32>, %v: tensor<2x8x3x16xf32>) {
  // expected-error @+1 {{'blu.attention' op q has 4 heads, not a multiple of k's 3}}
  %o:2 = blu.attention %q, %k, %v scale = 0.25 causal : (tensor<2x8x4x16xf32>, tensor<2x8x3x16xf32>, tensor<2x8x3x16xf32>) -> (tensor<2x8x4x16xf32>, tensor<2x4x8xf32>)
  return
}

// -----

func.func @attention_C3(%q: tensor<2x8x4x16xf32>, %k: tensor<2x7x4x16xf32>, %v: tensor<2x7x4x16xf32>) {
  // expected-error @+1 {{'blu.attention' op causal attention of 8 queries over 7 keys, expected at least as many keys}}
  %o:2 = blu.attention %q, %k, %v scale = 0.25 causal : (tensor<2x8x4x16xf32>, tensor<2x7x4x16xf32>, tensor<2x7x4x16xf32>) -> (tensor<2x8x4x16xf32>, tensor<2x4x8xf32>)
  return
}

// -----

func.func @attention_C4(%q: tensor<2x8x4x16xf32>, %k: tensor<2x8x4x16xf32>, %v: tensor<2x8x4x16xf32>) {
  // expected-error @+1 {{'blu.attention' op scale is 0.000000e+00, expected a positive number}}
  %o:2 = blu.attention %q, %k, %v scale = 0.0 causal : (tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>) -> (tensor<2x8x4x16xf32>, tensor<2x4x8xf32>)
  return
}

// -----

func.func @attention_C4_infinite(%q: tensor<2x8x4x16xf32>, %k: tensor<2x8x4x16xf32>, %v: tensor<2x8x4x16xf32>) {
  // expected-error @+1 {{'blu.attention' op scale is INF, expected a positive number}}
  %o:2 = blu.attention %q, %k, %v scale = 0x7FF0000000000000 causal : (tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>) -> (tensor<2x8x4x16xf32>, tensor<2x4x8xf32>)
  return
}
