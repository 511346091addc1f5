// RUN: bt-opt %s -split-input-file -verify-diagnostics

// expected-error @+1 {{'blu.model' op argument 0 has no name, expected a 'blu.name' attribute}}
blu.model @model_C1_no_name(%x: tensor<?xf32>) {
  blu.return
}

// -----

// expected-error @+1 {{'blu.model' op result 1 repeats the name 'y'}}
blu.model @model_C1_repeated(%x: tensor<?xf32> {blu.name = "x"}) -> (tensor<?xf32> {blu.name = "y"}, tensor<?xf32> {blu.name = "y"}) {
  blu.return %x, %x : tensor<?xf32>, tensor<?xf32>
}

// -----

// expected-error @+1 {{'blu.model' op result 'loss' has type 'tensor<?xf32>', expected a scalar of floats}}
blu.model @model_C2(%x: tensor<?xf32> {blu.name = "x"}) -> (tensor<?xf32> {blu.name = "loss"}) {
  blu.return %x : tensor<?xf32>
}

// -----

blu.model @model_C3() {
  // expected-note @+1 {{by this parameter}}
  %a = blu.param "w" init(#blu.zeros) : tensor<4xf32>
  // expected-error @+1 {{'blu.param' op name 'w' is already taken}}
  %b = blu.param "w" init(#blu.zeros) : tensor<4xf32>
  blu.return
}

// -----

blu.model @model_C3_in_stacks() {
  blu.stack "s" [0 to 2] : () -> () {
    // expected-note @+1 {{by this parameter}}
    %a = blu.param "w" init(#blu.zeros) : tensor<4xf32>
    blu.yield
  }
  blu.stack "s" [1 to 4] : () -> () {
    // expected-error @+1 {{'blu.param' op name 's.{i}.w' is already taken}}
    %a = blu.param "w" init(#blu.ones) : tensor<4xf32>
    blu.yield
  }
  blu.return
}

// -----

blu.model @model_C3_expanded() {
  // expected-note @+1 {{by this parameter}}
  %a = blu.param "s.1.w" init(#blu.zeros) : tensor<4xf32>
  blu.stack "s" [0 to 2] : () -> () {
    // expected-error @+1 {{'blu.param' op name 's.{i}.w' is already taken}}
    %b = blu.param "w" init(#blu.zeros) : tensor<4xf32>
    blu.yield
  }
  blu.return
}

// -----

blu.model @model_C4() {
  // expected-note @+1 {{by this parameter}}
  %a = blu.param "v" init(#blu.zeros) export("w") : tensor<4xf32>
  // expected-error @+1 {{'blu.param' op export name 'w' is already taken}}
  %b = blu.param "w" init(#blu.zeros) export("w") : tensor<4xf32>
  blu.return
}

// -----

blu.model @model_C4_expanded() {
  // expected-note @+1 {{by this parameter}}
  %a = blu.param "v" init(#blu.zeros) export("h.1.w") : tensor<4xf32>
  blu.stack "s" [0 to 2] : () -> () {
    // expected-error @+1 {{'blu.param' op export name 'h.{i}.w' is already taken}}
    %b = blu.param "w" init(#blu.zeros) export("h.{i}.w") : tensor<4xf32>
    blu.yield
  }
  blu.return
}

// -----

blu.model @model_C4_iterations() {
  blu.stack "s" [0 to 2] : () -> () {
    // expected-error @+1 {{'blu.param' op is exported as 'w' by 2 iterations, expected '{i}' in the name}}
    %a = blu.param "w" init(#blu.zeros) export("w") : tensor<4xf32>
    blu.yield
  }
  blu.return
}

// -----

// expected-error @+1 {{'blu.model' op region #0 ('body') failed to verify constraint: region with 1 blocks}}
"blu.model"() <{sym_name = "model_no_body", function_type = () -> ()}> ({}) : () -> ()
