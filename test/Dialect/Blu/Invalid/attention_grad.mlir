// RUN: bt-opt %s -split-input-file -verify-diagnostics

func.func @attention_grad_C1_result(%q: tensor<2x8x4x16xf32>, %o: tensor<2x7x4x16xf32>, %l: tensor<2x4x8xf32>, %g: tensor<2x8x4x16xf32>) {
  // expected-error @+1 {{'blu.attention_grad' op o has type 'tensor<2x7x4x16xf32>', expected 'tensor<2x8x4x16xf32>'}}
  %d:3 = blu.attention_grad %q, %q, %q, %o, %l, %g scale = 0.25 : (tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x7x4x16xf32>, tensor<2x4x8xf32>, tensor<2x8x4x16xf32>) -> (tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>)
  return
}

// -----

func.func @attention_grad_C1_cotangent(%q: tensor<2x8x4x16xf32>, %o: tensor<2x8x4x16xf32>, %l: tensor<2x4x8xf32>, %g: tensor<2x7x4x16xf32>) {
  // expected-error @+1 {{'blu.attention_grad' op cotangent has type 'tensor<2x7x4x16xf32>', expected 'tensor<2x8x4x16xf32>'}}
  %d:3 = blu.attention_grad %q, %q, %q, %o, %l, %g scale = 0.25 : (tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x4x8xf32>, tensor<2x7x4x16xf32>) -> (tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>)
  return
}

// -----

func.func @attention_grad_C1_lse(%q: tensor<2x8x4x16xf32>, %o: tensor<2x8x4x16xf32>, %l: tensor<2x8x4xf32>, %g: tensor<2x8x4x16xf32>) {
  // expected-error @+1 {{'blu.attention_grad' op lse has type 'tensor<2x8x4xf32>', expected 'tensor<2x4x8xf32>'}}
  %d:3 = blu.attention_grad %q, %q, %q, %o, %l, %g scale = 0.25 : (tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4xf32>, tensor<2x8x4x16xf32>) -> (tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>)
  return
}

// -----

func.func @attention_grad_C1_q(%q: tensor<8x4x16xf32>) {
  // expected-error @+1 {{'blu.attention_grad' op operand has type 'tensor<8x4x16xf32>', expected rank 4: batch, length, heads, dim}}
  %d:3 = blu.attention_grad %q, %q, %q, %q, %q, %q scale = 0.25 : (tensor<8x4x16xf32>, tensor<8x4x16xf32>, tensor<8x4x16xf32>, tensor<8x4x16xf32>, tensor<8x4x16xf32>, tensor<8x4x16xf32>) -> (tensor<8x4x16xf32>, tensor<8x4x16xf32>, tensor<8x4x16xf32>)
  return
}
