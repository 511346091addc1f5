// RUN: bt-opt %s -blu-key-dropout | FileCheck %s
// RUN: bt-opt %s -blu-key-dropout="rate=0.5" | FileCheck %s --check-prefix=RATE
// RUN: bt-opt %s -blu-key-dropout="rate=0" | FileCheck %s --check-prefix=NONE
// RUN: not bt-opt %s -blu-key-dropout="rate=1" 2>&1 | FileCheck %s --check-prefix=BAD

// One key a place, with the iteration of the stack around it; none in eval.
// CHECK-LABEL: blu.step @train
// CHECK-SAME: %seed: tensor<i64> {blu.tensor = {name = "seed", role = "scalar"}}
// CHECK-SAME: %step: tensor<i64> {blu.tensor = {name = "step", role = "scalar"}}
// CHECK: %[[K0:.*]] = blu.random_key %seed, %step site = 0
// CHECK: blu.dropout %x key %[[K0]] rate = 1.000000e-01
// CHECK: blu.stack {{.*}} iteration(%[[I:.*]]) carry
// CHECK: %[[K1:.*]] = blu.random_key %seed, %step, %[[I]] site = 1
// CHECK: blu.dropout %{{.*}} key %[[K1]] rate = 2.000000e-01
// CHECK-LABEL: blu.step @eval
// CHECK-NOT: blu.dropout

// RATE-COUNT-2: rate = 5.000000e-01
// NONE-NOT: blu.dropout
// BAD: error: dropout rate is 1.0{{.*}}, expected at least 0 and less than 1
blu.step @train program(train) (%x: tensor<8xf32> {blu.tensor = {name = "x", role = "input"}})
    -> (tensor<8xf32> {blu.tensor = {name = "y", role = "output"}}) {
  %d = blu.dropout %x rate = 0.1 : tensor<8xf32>
  %y = blu.stack "s" [0 to 4] iteration(%i) carry(%h = %d) : (tensor<8xf32>) -> tensor<8xf32> {
    %e = blu.dropout %h rate = 0.2 : tensor<8xf32>
    blu.yield %e : tensor<8xf32>
  }
  blu.return %y : tensor<8xf32>
}
blu.step @eval program(eval) (%x: tensor<8xf32> {blu.tensor = {name = "x", role = "input"}})
    -> (tensor<8xf32> {blu.tensor = {name = "y", role = "output"}}) {
  %d = blu.dropout %x rate = 0.1 : tensor<8xf32>
  blu.return %d : tensor<8xf32>
}
