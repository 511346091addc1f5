// RUN: bt-opt %s -split-input-file -verify-diagnostics -blutrain-verify-stage="stage=grad"
// RUN: not bt-opt %s -split-input-file -blutrain-verify-stage="stage=nowhere" 2>&1 | FileCheck %s
// CHECK: error: stage is 'nowhere', expected blu, grad, shard, fuse, plan, kernel or llvm

// expected-error @below {{'blu.model' op is not legal at the exit of stage grad}}
// expected-note @below {{blu-materialize-state should have removed it}}
blu.model @m(%x: tensor<3xf32> {blu.name = "x"}) -> (tensor<3xf32> {blu.name = "y"}) {
  blu.return %x : tensor<3xf32>
}

// -----

blu.step @eval program(eval) (%x: tensor<8xf32> {blu.tensor = {name = "x", role = "input"}})
    -> (tensor<8xf32> {blu.tensor = {name = "y", role = "output"}}) {
  // expected-error @below {{'blu.dropout' op has no key at the exit of stage grad}}
  // expected-note @below {{blu-key-dropout should have removed it}}
  %d = blu.dropout %x rate = 0.1 : tensor<8xf32>
  blu.return %d : tensor<8xf32>
}
