// RUN: bt-opt %s -split-input-file -verify-diagnostics -blu-verify-schedule | FileCheck %s

// A sum over a cut dim is gathered and added up, a gradient leaves and comes back
// as whole weights, state is kept in pieces, and a part draws its own numbers.
// CHECK-LABEL: blu.step @good
module attributes {blu.mesh = {dp = 2 : i64}} {
blu.step @good program(train) (
    %x: tensor<4x3xf32> {blu.tensor = {name = "x", role = "input"}, blu.part = {dims = [["dp"], []]}},
    %w: tensor<3xf32> {blu.tensor = {name = "w", role = "param"}},
    %m: tensor<2xf32> {blu.tensor = {name = "w", role = "moment1", shard_of = array<i64: 3>, shards = 2 : i64}},
    %lr: tensor<f64> {blu.tensor = {name = "lr", role = "scalar"}},
    %key: tensor<i64> {blu.tensor = {name = "seed", role = "scalar"}},
    %dp_index: tensor<i64> {blu.tensor = {name = "dp_index", role = "scalar"}})
    -> (tensor<f32> {blu.tensor = {name = "loss", role = "output"}},
        tensor<3xf32> {blu.donates = 1 : i64}, tensor<2xf32> {blu.donates = 2 : i64}) {
  %n = blu.constant dense<12> : tensor<i64>
  %o = blu.mul %dp_index, %n : (tensor<i64>, tensor<i64>) -> tensor<i64>
  %k = blu.shift_key %key, %o : (tensor<i64>, tensor<i64>) -> tensor<i64>
  %d = blu.dropout %x key %k rate = 0.5 : tensor<4x3xf32>
  %p = blu.mul %d, %w : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
  %s = blu.reduce_sum %p [0, 1] : (tensor<4x3xf32>) -> tensor<f32>
  %r = blu.reshape %s [1] : (tensor<f32>) -> tensor<1xf32>
  %a = blu.all_gather %r axis = "dp" size = 2 : (tensor<1xf32>) -> tensor<2xf32>
  %l = blu.reduce_sum %a [0] : (tensor<2xf32>) -> tensor<f32>
  %g = blu.reduce_sum %d [0] : (tensor<4x3xf32>) -> tensor<3xf32>
  %h = blu.reduce_scatter %g axis = "dp" size = 2 : (tensor<3xf32>) -> tensor<2xf32>
  %v = blu.local_shard %w axis = "dp" size = 2 : (tensor<3xf32>) -> tensor<2xf32>
  %w1, %m1 = blu.sgd %v, %h, %m lr %lr momentum %lr weight_decay %lr : tensor<2xf32>
  %w2 = blu.all_gather %w1 axis = "dp" size = 2 : (tensor<2xf32>) -> tensor<3xf32>
  blu.return %l, %w2, %m1 : tensor<f32>, tensor<3xf32>, tensor<2xf32>
}
}

// -----

module attributes {blu.mesh = {dp = 2 : i64}} {
blu.step @dropped program(train) (
    %x: tensor<4xf32> {blu.tensor = {name = "x", role = "input"}, blu.part = {dims = [["dp"]]}})
    -> (tensor<f32> {blu.tensor = {name = "loss", role = "output"}}) {
  // expected-note @+1 {{it comes from here}}
  %s = blu.reduce_sum %x [0] : (tensor<4xf32>) -> tensor<f32>
  // expected-error @+1 {{operand 0 is a term of a sum over the devices along 'dp', expected the sum}}
  %r = blu.sqrt %s : tensor<f32>
  blu.return %r : tensor<f32>
}
}

// -----

module attributes {blu.mesh = {dp = 2 : i64}} {
blu.step @output program(train) (
    %x: tensor<4xf32> {blu.tensor = {name = "x", role = "input"}, blu.part = {dims = [["dp"]]}})
    -> (tensor<f32> {blu.tensor = {name = "loss", role = "output"}}) {
  // expected-note @+1 {{it comes from here}}
  %s = blu.reduce_sum %x [0] : (tensor<4xf32>) -> tensor<f32>
  // expected-error @+1 {{operand 0 is a term of a sum over the devices along 'dp', expected a value that is the same on all devices along 'dp'}}
  blu.return %s : tensor<f32>
}
}

// -----

module attributes {blu.mesh = {dp = 2 : i64}} {
blu.step @terms program(train) (
    %x: tensor<4xf32> {blu.tensor = {name = "x", role = "input"}, blu.part = {dims = [["dp"]]}})
    -> (tensor<2xf32> {blu.tensor = {name = "loss", role = "output"}}) {
  %s = blu.reduce_sum %x [0] {keep_dims} : (tensor<4xf32>) -> tensor<1xf32>
  // expected-note @+1 {{it comes from here}}
  %a = blu.all_gather %s axis = "dp" size = 2 : (tensor<1xf32>) -> tensor<2xf32>
  // expected-error @+1 {{operand 0 is the terms of a sum over the devices along 'dp', expected blu.reduce_sum along dim 0}}
  %r = blu.sqrt %a : tensor<2xf32>
  blu.return %r : tensor<2xf32>
}
}

// -----

module attributes {blu.mesh = {dp = 2 : i64}} {
blu.step @twice program(train) (
    // expected-note @+1 {{it comes from here}}
    %w: tensor<4xf32> {blu.tensor = {name = "w", role = "param"}})
    -> (tensor<2xf32> {blu.tensor = {name = "y", role = "output"}}) {
  // expected-error @+1 {{operand 0 is a value that is the same on all devices along 'dp', expected a term of a sum}}
  %a = blu.reduce_scatter %w axis = "dp" size = 2 : (tensor<4xf32>) -> tensor<2xf32>
  blu.return %a : tensor<2xf32>
}
}

// -----

module attributes {blu.mesh = {dp = 2 : i64}} {
blu.step @beside program(train) (
    // expected-note @+1 {{it comes from here}}
    %w: tensor<4xf32> {blu.tensor = {name = "w", role = "param"}},
    %x: tensor<4xf32> {blu.tensor = {name = "x", role = "input"}, blu.part = {dims = [["dp"]]}})
    -> (tensor<4xf32> {blu.tensor = {name = "y", role = "output"}}) {
  // expected-error @+1 {{operand 0 is a value that is the same on all devices along 'dp', expected a part like that of operand 1}}
  %a = blu.add %w, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  blu.return %a : tensor<4xf32>
}
}

// -----

module attributes {blu.mesh = {dp = 2 : i64}} {
blu.step @padding program(train) (
    %m: tensor<2xf32> {blu.tensor = {name = "w", role = "moment1", shard_of = array<i64: 3>, shards = 2 : i64}})
    -> (tensor<f32> {blu.tensor = {name = "y", role = "output"}}) {
  // expected-note @+1 {{it comes from here}}
  %e = blu.exp %m : tensor<2xf32>
  // expected-error @+1 {{with other numbers than zeros behind a short one, which cannot be added up}}
  %s = blu.reduce_sum %e [0] : (tensor<2xf32>) -> tensor<f32>
  blu.return %s : tensor<f32>
}
}

// -----

module attributes {blu.mesh = {dp = 2 : i64}} {
blu.step @index program(train) (
    // expected-note @+1 {{it comes from here}}
    %dp_index: tensor<i64> {blu.tensor = {name = "dp_index", role = "scalar"}},
    %w: tensor<i64> {blu.tensor = {name = "w", role = "scalar"}})
    -> (tensor<i1> {blu.tensor = {name = "y", role = "output"}}) {
  // expected-error @+1 {{operand 0 is a number that depends on the device's place along 'dp', which may only move a random key}}
  %c = blu.compare lt %dp_index, %w : (tensor<i64>, tensor<i64>) -> tensor<i1>
  blu.return %c : tensor<i1>
}
}

// -----

module attributes {blu.mesh = {dp = 2 : i64}} {
blu.step @mask program(train) (
    // expected-note @+1 {{it comes from here}}
    %x: tensor<4xf32> {blu.tensor = {name = "x", role = "input"}, blu.part = {dims = [["dp"]]}},
    %key: tensor<i64> {blu.tensor = {name = "seed", role = "scalar"}})
    -> (tensor<4xf32> {blu.tensor = {name = "y", role = "output"}}) {
  // expected-error @+1 {{for which every device would draw the same numbers}}
  %d = blu.dropout %x key %key rate = 0.5 : tensor<4xf32>
  blu.return %d : tensor<4xf32>
}
}

// -----

module attributes {blu.mesh = {dp = 2 : i64}} {
blu.step @carry program(train) (
    // expected-note @+1 {{it comes from here}}
    %w: tensor<f32> {blu.tensor = {name = "w", role = "param"}},
    %x: tensor<4xf32> {blu.tensor = {name = "x", role = "input"}, blu.part = {dims = [["dp"]]}})
    -> (tensor<f32> {blu.tensor = {name = "y", role = "output"}}) {
  // expected-error @+1 {{operand 0 is a value that is the same on all devices along 'dp', which an iteration leaves in another way}}
  %s = blu.stack "s" [0 to 2] iteration(%i) carry(%h = %w) : (tensor<f32>) -> (tensor<f32>) {
    %r = blu.reduce_sum %x [0] : (tensor<4xf32>) -> tensor<f32>
    blu.yield %r : tensor<f32>
  }
  blu.return %s : tensor<f32>
}
}

// -----

module attributes {blu.mesh = {dp = 2 : i64}} {
blu.step @axes program(train) (
    %w: tensor<4xf32> {blu.tensor = {name = "w", role = "param"}})
    -> () {
  // expected-error @+1 {{is along axis 'tp', which the mesh lacks}}
  %a = blu.local_shard %w axis = "tp" size = 2 : (tensor<4xf32>) -> tensor<2xf32>
  // expected-error @+1 {{is met by 4 devices, expected the 2 along axis 'dp'}}
  %b = blu.local_shard %w axis = "dp" size = 4 : (tensor<4xf32>) -> tensor<1xf32>
  blu.return
}
}

// -----

module attributes {blu.mesh = {dp = 2 : i64}} {
// expected-note @+1 {{'func.func' is around it}}
func.func @elsewhere(%w: tensor<4xf32>) -> tensor<2xf32> {
  // expected-error @+1 {{stands where not all devices may come, or not as often}}
  %a = blu.local_shard %w axis = "dp" size = 2 : (tensor<4xf32>) -> tensor<2xf32>
  func.return %a : tensor<2xf32>
}
}
