// RUN: bt-opt %s --blurt-verify-fuse --split-input-file --verify-diagnostics

func.func @f(%x: tensor<3xf32>) -> tensor<3xf32> {
  // expected-error@+2 {{'blu.exp' op is left at the end of the fuse stage}}
  // expected-note@+1 {{'convert-blu-to-blurt' should have removed it}}
  %0 = blu.exp %x : tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

func.func @g(%x: tensor<3xf32>) -> tensor<3xf32> {
  // expected-error@+2 {{'arith.addf' op does not belong to the fuse stage, expected 'blurt' ops only}}
  // expected-note@+1 {{'convert-blu-to-blurt' does not create it}}
  %0 = arith.addf %x, %x : tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

// expected-error@+2 {{'blu.model' op is left at the end of the fuse stage}}
// expected-note@+1 {{the pipeline of the grad stage, which turns models into steps, should have removed it}}
blu.model @m(%x: tensor<3xf32> {blu.name = "x"}) -> (tensor<3xf32> {blu.name = "y"}) {
  blu.return %x : tensor<3xf32>
}
