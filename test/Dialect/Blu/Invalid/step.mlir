// RUN: bt-opt %s -split-input-file -verify-diagnostics

// expected-error @+1 {{'blu.step' op argument 0 expected a 'blu.tensor' with name and role}}
blu.step @step_C1_no_tensor program(train) (%w: tensor<3xf32>)
    -> (tensor<3xf32> {blu.donates = 0 : i64}) {
  blu.return %w : tensor<3xf32>
}

// -----

// expected-error @+1 {{'blu.step' op argument 0 has role 'weight', expected param, moment1, moment2, cache, input or scalar}}
blu.step @step_C1_role program(train) (%w: tensor<3xf32> {blu.tensor = {name = "w", role = "weight"}})
    -> (tensor<3xf32> {blu.donates = 0 : i64}) {
  blu.return %w : tensor<3xf32>
}

// -----

// expected-error @+1 {{'blu.step' op argument 1 repeats param 'w'}}
blu.step @step_C1_repeated program(train) (%w: tensor<3xf32> {blu.tensor = {name = "w", role = "param"}}, %v: tensor<3xf32> {blu.tensor = {name = "w", role = "param"}})
    -> (tensor<3xf32> {blu.donates = 0 : i64}) {
  blu.return %w : tensor<3xf32>
}

// -----

// expected-error @+1 {{'blu.step' op result 0 expected either 'blu.tensor' or 'blu.donates'}}
blu.step @step_C2_neither program(train) (%w: tensor<3xf32> {blu.tensor = {name = "w", role = "param"}})
    -> (tensor<3xf32>) {
  blu.return %w : tensor<3xf32>
}

// -----

// expected-error @+1 {{'blu.step' op result 0 expected either 'blu.tensor' or 'blu.donates'}}
blu.step @step_C2_both program(train) (%w: tensor<3xf32> {blu.tensor = {name = "w", role = "param"}})
    -> (tensor<3xf32> {blu.donates = 0 : i64, blu.tensor = {name = "y", role = "output"}}) {
  blu.return %w : tensor<3xf32>
}

// -----

// expected-error @+1 {{'blu.step' op result 0 donates argument 1, but there are 1}}
blu.step @step_C3_argument program(train) (%w: tensor<3xf32> {blu.tensor = {name = "w", role = "param"}})
    -> (tensor<3xf32> {blu.donates = 1 : i64}) {
  blu.return %w : tensor<3xf32>
}

// -----

// expected-error @+1 {{'blu.step' op result 0 donates argument 0 of role 'input', expected state}}
blu.step @step_C3_input program(train) (%w: tensor<3xf32> {blu.tensor = {name = "x", role = "input"}})
    -> (tensor<3xf32> {blu.donates = 0 : i64}) {
  blu.return %w : tensor<3xf32>
}

// -----

// expected-error @+1 {{'blu.step' op result 0 has type 'tensor<4xf32>', donated argument 0 has 'tensor<3xf32>'}}
blu.step @step_C3_type program(train) (%w: tensor<3xf32> {blu.tensor = {name = "w", role = "param"}}, %v: tensor<4xf32> {blu.tensor = {name = "v", role = "param"}})
    -> (tensor<4xf32> {blu.donates = 0 : i64}) {
  blu.return %v : tensor<4xf32>
}

// -----

// expected-error @+1 {{'blu.step' op result 1 donates argument 0, already donated by result 0}}
blu.step @step_C3_twice program(train) (%w: tensor<3xf32> {blu.tensor = {name = "w", role = "param"}})
    -> (tensor<3xf32> {blu.donates = 0 : i64}, tensor<3xf32> {blu.donates = 0 : i64}) {
  blu.return %w, %w : tensor<3xf32>, tensor<3xf32>
}

// -----

// expected-error @+1 {{custom op 'blu.step' expected train, eval, prefill, decode or vjp, got 'fit'}}
blu.step @step_program program(fit) (%w: tensor<3xf32> {blu.tensor = {name = "w", role = "param"}})
    -> (tensor<3xf32> {blu.donates = 0 : i64}) {
  blu.return %w : tensor<3xf32>
}
