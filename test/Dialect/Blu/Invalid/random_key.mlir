// RUN: bt-opt %s -split-input-file -verify-diagnostics

func.func @random_key_C1(%s: tensor<i64>, %t: tensor<i32>) {
  // expected-error @+1 {{'blu.random_key' op operand #1 must be rank-0 tensor of i64, but got 'tensor<i32>'}}
  %k = blu.random_key %s, %t site = 0 : (tensor<i64>, tensor<i32>) -> tensor<i64>
  return
}
