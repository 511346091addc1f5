// RUN: bt-opt %s -split-input-file -verify-diagnostics

func.func @return_parent(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{'blu.return' op expects parent op to be one of 'blu.model, blu.step'}}
  blu.return %x : tensor<3x4xf32>
}

// -----

blu.model @return_C1_count(%x: tensor<?xf32> {blu.name = "x"}) -> (tensor<?xf32> {blu.name = "y"}) {
  // expected-error @+1 {{'blu.return' op has 0 values, expected 1}}
  blu.return
}

// -----

blu.model @return_C1_type(%x: tensor<?xf32> {blu.name = "x"}) -> (tensor<4xf32> {blu.name = "y"}) {
  // expected-error @+1 {{'blu.return' op value 0 has type 'tensor<?xf32>', expected 'tensor<4xf32>'}}
  blu.return %x : tensor<?xf32>
}
