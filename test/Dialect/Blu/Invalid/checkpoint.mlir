// RUN: bt-opt %s -split-input-file -verify-diagnostics

func.func @checkpoint_C1(%x: tensor<8xf32>) {
  // expected-error @+1 {{'blu.checkpoint' op body yields 'tensor<8xf32>' for result 0, expected 'tensor<4xf32>'}}
  %y = blu.checkpoint -> tensor<4xf32> {
    blu.yield %x : tensor<8xf32>
  }
  return
}

// -----

func.func @checkpoint_C1_count(%x: tensor<8xf32>) {
  // expected-error @+1 {{'blu.checkpoint' op body yields 0 values, expected 1}}
  %y = blu.checkpoint -> tensor<8xf32> {
    blu.yield
  }
  return
}

// -----

func.func @checkpoint_terminator(%x: tensor<8xf32>) {
  %y = blu.checkpoint -> tensor<8xf32> {
    // expected-error @+1 {{block with no terminator, has %1 = "blu.exp"(%arg0) : (tensor<8xf32>) -> tensor<8xf32>}}
    %e = blu.exp %x : tensor<8xf32>
  }
  return
}
