// RUN: bt-opt %s -split-input-file -verify-diagnostics

func.func @syntax_unknown_op(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{custom op 'blu.swish' is unknown}}
  %y = blu.swish %x : tensor<3x4xf32>
  return
}

// -----

func.func @syntax_missing_comma(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{expected ','}}
  %y = blu.add %x %x : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  return
}

// -----

func.func @syntax_missing_attribute(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{custom op 'blu.softmax' expected 'dim'}}
  %y = blu.softmax %x : tensor<3x4xf32>
  return
}

// -----

func.func @syntax_unknown_initialiser() {
  // expected-error @+1 {{unknown attribute `orthogonal` in dialect `blu`}}
  %y = blu.param "w" init(#blu.orthogonal) : tensor<3x4xf32>
  return
}

// -----

func.func @syntax_undefined_value() {
  // expected-error @+1 {{use of undeclared SSA value name}}
  %y = blu.relu %x : tensor<3x4xf32>
  return
}

// -----

func.func @syntax_unranked(%x: tensor<*xf32>) {
  // expected-error @+1 {{custom op 'blu.relu' invalid kind of type specified: expected builtin.tensor, but found 'tensor<*xf32>'}}
  %y = blu.relu %x : tensor<*xf32>
  return
}

// -----

func.func @syntax_stack_range(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{custom op 'blu.stack' expected 'to'}}
  %y = blu.stack "s" [0, 4] carry(%h = %x) : (tensor<3x4xf32>) -> tensor<3x4xf32> {
    blu.yield %h : tensor<3x4xf32>
  }
  return
}
