// RUN: env MALLOC_PERTURB_=165 bt-opt %s -split-input-file -blutrain-grad="vjp=true remat=none" -blutrain-shard -blutrain-fuse | FileCheck %s

// Groups read views of views and views of results that a merge makes dead. What
// is erased must not be looked at again, and a dead view must not keep its source
// from being erased.

// CHECK: func.func @vjp
// CHECK: blurt.group
blu.model @chain(%c: tensor<3xf64> {blu.name = "c"})
    -> (tensor<3xf64> {blu.name = "y"}, tensor<3xf64> {blu.name = "s"}) {
  %s = blu.softmax %c dim = 0 : tensor<3xf64>
  %e = blu.exp %s : tensor<3xf64>
  %a = blu.reshape %e [3, 1] : (tensor<3xf64>) -> tensor<3x1xf64>
  %b = blu.reshape %a [1, 3] : (tensor<3x1xf64>) -> tensor<1x3xf64>
  %t = blu.tanh %b : tensor<1x3xf64>
  %y = blu.reshape %t [3] : (tensor<1x3xf64>) -> tensor<3xf64>
  blu.return %y, %s : tensor<3xf64>, tensor<3xf64>
}

// -----

// CHECK: func.func @vjp
// CHECK: blurt.group
blu.model @nested(%x: tensor<3xf64> {blu.name = "x"}, %c: tensor<3xf64> {blu.name = "c"})
    -> (tensor<3xf64> {blu.name = "s"}, tensor<3xf64> {blu.name = "m"}) {
  %d = blu.checkpoint -> tensor<3xf64> {
    %d1 = blu.sub %x, %c : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
    blu.yield %d1 : tensor<3xf64>
  }
  %m, %s = blu.checkpoint -> tensor<3xf64>, tensor<3xf64> {
    %m1 = blu.mul %d, %c : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
    %s1 = blu.checkpoint -> tensor<3xf64> {
      %a = blu.add %m1, %d : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
      %s2 = blu.softmax %a dim = 0 : tensor<3xf64>
      blu.yield %s2 : tensor<3xf64>
    }
    blu.yield %m1, %s1 : tensor<3xf64>, tensor<3xf64>
  }
  blu.return %s, %m : tensor<3xf64>, tensor<3xf64>
}
