// RUN: bt-opt %s -split-input-file -verify-diagnostics

func.func @cached_attention_C1_lengths(%q: tensor<2x1x4x16xf32>, %k: tensor<2x8x4x16xf32>, %kc: tensor<2x32x4x16xf32>, %vc: tensor<2x32x4x16xf32>, %p: tensor<i64>) {
  // expected-error @+1 {{'blu.cached_attention' op q has length 1, k has 8}}
  %o:3 = blu.cached_attention %q, %k, %k, %kc, %vc at %p scale = 0.25 : (tensor<2x1x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x32x4x16xf32>, tensor<2x32x4x16xf32>, tensor<i64>) -> (tensor<2x1x4x16xf32>, tensor<2x32x4x16xf32>, tensor<2x32x4x16xf32>)
  return
}

// -----

func.func @cached_attention_C1_caches(%q: tensor<2x8x4x16xf32>, %k: tensor<2x8x4x16xf32>, %kc: tensor<2x32x4x16xf32>, %vc: tensor<2x33x4x16xf32>, %p: tensor<i64>) {
  // expected-error @+1 {{'blu.cached_attention' op k cache has type 'tensor<2x32x4x16xf32>', v cache has 'tensor<2x33x4x16xf32>'}}
  %o:3 = blu.cached_attention %q, %k, %k, %kc, %vc at %p scale = 0.25 : (tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x32x4x16xf32>, tensor<2x33x4x16xf32>, tensor<i64>) -> (tensor<2x8x4x16xf32>, tensor<2x32x4x16xf32>, tensor<2x33x4x16xf32>)
  return
}

// -----

func.func @cached_attention_C1_cache(%q: tensor<2x8x4x16xf32>, %k: tensor<2x8x4x16xf32>, %kc: tensor<2x32x2x16xf32>, %vc: tensor<2x32x2x16xf32>, %p: tensor<i64>) {
  // expected-error @+1 {{'blu.cached_attention' op cache has type 'tensor<2x32x2x16xf32>', expected that of k but for dim 1, 'tensor<2x8x4x16xf32>'}}
  %o:3 = blu.cached_attention %q, %k, %k, %kc, %vc at %p scale = 0.25 : (tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x32x2x16xf32>, tensor<2x32x2x16xf32>, tensor<i64>) -> (tensor<2x8x4x16xf32>, tensor<2x32x2x16xf32>, tensor<2x32x2x16xf32>)
  return
}

// -----

func.func @cached_attention_C2(%q: tensor<2x8x4x16xf32>, %k: tensor<2x8x4x16xf32>, %kc: tensor<2x7x4x16xf32>, %vc: tensor<2x7x4x16xf32>, %p: tensor<i64>) {
  // expected-error @+1 {{'blu.cached_attention' op cache holds 7 rows, expected at least 8}}
  %o:3 = blu.cached_attention %q, %k, %k, %kc, %vc at %p scale = 0.25 : (tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x7x4x16xf32>, tensor<2x7x4x16xf32>, tensor<i64>) -> (tensor<2x8x4x16xf32>, tensor<2x7x4x16xf32>, tensor<2x7x4x16xf32>)
  return
}
