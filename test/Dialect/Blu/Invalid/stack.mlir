// RUN: bt-opt %s -split-input-file -verify-diagnostics

func.func @stack_C1(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{'blu.stack' op runs from 4 to 4, expected at least one iteration from 0 up}}
  %y = blu.stack "s" [4 to 4] carry(%h = %x) : (tensor<3x4xf32>) -> tensor<3x4xf32> {
    blu.yield %h : tensor<3x4xf32>
  }
  return
}

// -----

func.func @stack_C1_negative(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{'blu.stack' op runs from -1 to 4, expected at least one iteration from 0 up}}
  %y = blu.stack "s" [-1 to 4] carry(%h = %x) : (tensor<3x4xf32>) -> tensor<3x4xf32> {
    blu.yield %h : tensor<3x4xf32>
  }
  return
}

// -----

func.func @stack_C2(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{'blu.stack' op stacked operand 0 has type 'tensor<3x4xf32>', expected a dim 0 of 4}}
  %y = blu.stack "s" [0 to 4] slices(%h = %x) : (tensor<3x4xf32>) -> tensor<4x4xf32> {
    blu.yield %h : tensor<4xf32>
  }
  return
}

// -----

func.func @stack_C3(%x: tensor<3x4xf32>, %z: tensor<4xf32>) {
  // expected-error @+1 {{'blu.stack' op body yields 'tensor<4xf32>' for carried value 0, expected 'tensor<3x4xf32>'}}
  %y = blu.stack "s" [0 to 4] carry(%h = %x) : (tensor<3x4xf32>) -> tensor<3x4xf32> {
    blu.yield %z : tensor<4xf32>
  }
  return
}

// -----

func.func @stack_C3_result(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{'blu.stack' op result 0 has type 'tensor<4x3xf32>', expected 'tensor<3x4xf32>'}}
  %y = blu.stack "s" [0 to 4] carry(%h = %x) : (tensor<3x4xf32>) -> tensor<4x3xf32> {
    blu.yield %h : tensor<3x4xf32>
  }
  return
}

// -----

func.func @stack_C4(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{'blu.stack' op result 0 has type 'tensor<3x3x4xf32>', expected 'tensor<4x3x4xf32>'}}
  %y = blu.stack "s" [0 to 4]  : () -> tensor<3x3x4xf32> {
    blu.yield %x : tensor<3x4xf32>
  }
  return
}

// -----

func.func @stack_yield_count(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{'blu.stack' op body yields 2 values, expected 1}}
  %y = blu.stack "s" [0 to 4] carry(%h = %x) : (tensor<3x4xf32>) -> tensor<3x4xf32> {
    blu.yield %h, %h : tensor<3x4xf32>, tensor<3x4xf32>
  }
  return
}

// -----

func.func @stack_scalar_slice(%x: tensor<f32>) {
  // expected-error @+1 {{custom op 'blu.stack' operand 0 has type 'tensor<f32>', expected a tensor with an iteration dim}}
  %y = blu.stack "s" [0 to 4] slices(%h = %x) : (tensor<f32>) -> tensor<4xf32> {
    blu.yield %h : tensor<f32>
  }
  return
}

// -----

func.func @stack_type_count(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{custom op 'blu.stack' has 2 operand types, expected 1}}
  %y = blu.stack "s" [0 to 4] carry(%h = %x) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32> {
    blu.yield %h : tensor<3x4xf32>
  }
  return
}

// -----

func.func @stack_result_count(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{'blu.stack' op has 0 results, expected 1 carried values first}}
  blu.stack "s" [0 to 4] carry(%h = %x) : (tensor<3x4xf32>) -> () {
    blu.yield
  }
  return
}

// -----

func.func @stack_iteration_type() {
  // expected-error @+1 {{'blu.stack' op iteration has type 'tensor<i32>', expected 'tensor<i64>'}}
  "blu.stack"() <{name = "s", first = 0 : i64, last = 2 : i64, operandSegmentSizes = array<i32: 0, 0>}> ({
  ^body(%i: tensor<i32>):
    "blu.yield"() : () -> ()
  }) : () -> ()
  return
}
