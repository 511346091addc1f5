// RUN: bt-opt %s -split-input-file -verify-diagnostics

func.func @shift_key_C1(%k: tensor<i64>, %o: tensor<i32>) {
  // expected-error @+1 {{'blu.shift_key' op operand #1 must be rank-0 tensor of i64, but got 'tensor<i32>'}}
  %y = blu.shift_key %k, %o : (tensor<i64>, tensor<i32>) -> tensor<i64>
  return
}
