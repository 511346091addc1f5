// RUN: bt-opt %s -split-input-file -verify-diagnostics

func.func @yield_C1(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{'blu.yield' op expects parent op to be one of 'blu.stack, blu.checkpoint, blu.accumulate'}}
  blu.yield %x : tensor<3x4xf32>
}
