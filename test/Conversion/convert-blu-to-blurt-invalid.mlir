// RUN: bt-opt %s --convert-blu-to-blurt --split-input-file --verify-diagnostics

blu.step @dense program(train) (%x: tensor<20xi64> {blu.tensor = {name = "x", role = "input"}})
    -> (tensor<20xi64> {blu.tensor = {name = "r0", role = "output"}}) {
  // expected-error@+1 {{'blu.constant' op of more than 16 elements that are not all equal is not supported}}
  %c = blu.constant dense<[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19]> : tensor<20xi64>
  %0 = blu.add %x, %c : (tensor<20xi64>, tensor<20xi64>) -> tensor<20xi64>
  blu.return %0 : tensor<20xi64>
}

// -----

blu.step @max program(train) (%x: tensor<3x5xi64> {blu.tensor = {name = "x", role = "input"}})
    -> (tensor<3xi64> {blu.tensor = {name = "r0", role = "output"}}) {
  // expected-error@+1 {{'blu.reduce_max' op maximum of i64 elements is not supported}}
  %0 = blu.reduce_max %x [1] : (tensor<3x5xi64>) -> tensor<3xi64>
  blu.return %0 : tensor<3xi64>
}

// -----

blu.step @keyless program(train) (%x: tensor<3xf32> {blu.tensor = {name = "x", role = "input"}})
    -> (tensor<3xf32> {blu.tensor = {name = "r0", role = "output"}}) {
  // expected-error@+1 {{'blu.dropout' op has no key}}
  %0 = blu.dropout %x rate = 0.1 : tensor<3xf32>
  blu.return %0 : tensor<3xf32>
}

// -----

blu.step @empty program(train) (%x: tensor<0x3xf32> {blu.tensor = {name = "x", role = "input"}})
    -> (tensor<0x3xf32> {blu.tensor = {name = "r0", role = "output"}}) {
  // expected-error@+1 {{'blu.exp' op operand 0 has type 'tensor<0x3xf32>', an empty tensor is not supported}}
  %0 = blu.exp %x : tensor<0x3xf32>
  blu.return %0 : tensor<0x3xf32>
}

// -----

blu.step @dynamic program(train) (%x: tensor<?x3xf32> {blu.tensor = {name = "x", role = "input"}})
    -> (tensor<?x3xf32> {blu.tensor = {name = "r0", role = "output"}}) {
  // expected-error@+1 {{'blu.exp' op operand 0 has type 'tensor<?x3xf32>', expected a static shape}}
  %0 = blu.exp %x : tensor<?x3xf32>
  blu.return %0 : tensor<?x3xf32>
}

// -----
