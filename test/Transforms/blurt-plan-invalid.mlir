// RUN: bt-opt %s --split-input-file --blurt-plan --verify-diagnostics

// The old value of a donated tensor is read after its successor is computed.

#id = affine_map<(d0) -> (d0)>
func.func @read_after(%w: tensor<16xf32> {blu.tensor = {name = "wte.weight", role = "param"}})
    -> (tensor<16xf32> {blu.donates = 0 : i64}, tensor<16xf32> {blu.tensor = {name = "y", role = "output"}}) {
  // expected-error @+1 {{cannot update state tensor 'wte.weight' (param) in place}}
  %w1 = blurt.group "sgd" domain [16] ins(%w [#id] : tensor<16xf32>) outs([#id]) -> tensor<16xf32> {
  ^bb0(%e: f32):
    %s = arith.addf %e, %e : f32
    blurt.group_yield %s : f32
  }
  // expected-note @+1 {{the old value is still read here}}
  %y = blurt.group "late" domain [16] ins(%w [#id] : tensor<16xf32>) outs([#id]) -> tensor<16xf32> {
  ^bb0(%e: f32):
    %s = arith.mulf %e, %e : f32
    blurt.group_yield %s : f32
  }
  return %w1, %y : tensor<16xf32>, tensor<16xf32>
}

// -----

// The update reads other elements than it writes.

#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @transposed(%w: tensor<4x4xf32> {blu.tensor = {name = "w", role = "moment2"}})
    -> (tensor<4x4xf32> {blu.donates = 0 : i64}) {
  // expected-error @+2 {{cannot update state tensor 'w' (moment2) in place}}
  // expected-note @+1 {{the old value is still read here}}
  %w1 = blurt.group "transpose" domain [4, 4] ins(%w [affine_map<(d0, d1) -> (d1, d0)>] : tensor<4x4xf32>)
      outs([#id]) -> tensor<4x4xf32> {
  ^bb0(%e: f32):
    blurt.group_yield %e : f32
  }
  return %w1 : tensor<4x4xf32>
}

// -----

// Another tensor is returned in the place of the donated one.

func.func @exchange(%a: tensor<4xf32> {blu.tensor = {name = "a", role = "param"}},
                    %b: tensor<4xf32> {blu.tensor = {name = "b", role = "param"}})
    -> (tensor<4xf32> {blu.donates = 1 : i64}, tensor<4xf32> {blu.donates = 0 : i64}) {
  // expected-error @+2 {{cannot update state tensor 'b' (param) in place}}
  // expected-error @+1 {{cannot update state tensor 'a' (param) in place}}
  return %a, %b : tensor<4xf32>, tensor<4xf32>
}

// -----

// expected-error @+1 {{result 0 takes the place of argument 0, which is not of its type}}
func.func @types(%a: tensor<4xf32> {blu.tensor = {name = "a", role = "param"}})
    -> (tensor<2xf32> {blu.donates = 0 : i64}) {
  %b = blurt.slice %a [0] : tensor<4xf32> to tensor<2xf32>
  return %b : tensor<2xf32>
}

// -----

// expected-error @+1 {{argument 0 is donated to two results}}
func.func @twice(%a: tensor<4xf32> {blu.tensor = {name = "a", role = "param"}})
    -> (tensor<4xf32> {blu.donates = 0 : i64}, tensor<4xf32> {blu.donates = 0 : i64}) {
  return %a, %a : tensor<4xf32>, tensor<4xf32>
}

// -----

// expected-note @+1 {{the other is here}}
func.func @one(%a: tensor<4xf32> {blu.tensor = {name = "a", role = "param"}}) {
  return
}
// expected-error @+1 {{state tensor 'a' (param) is 'tensor<8xf32>' in @two, expected 'tensor<4xf32>' as in another entry}}
func.func @two(%a: tensor<8xf32> {blu.tensor = {name = "a", role = "param"}}) {
  return
}

// -----

// expected-error @+1 {{has type 'tensor<?xf32>' in its signature, expected tensors of static shape}}
func.func @dynamic(%a: tensor<?xf32>) {
  return
}

// -----

// Each iteration reads all slices, also those that were updated before it.

#id = affine_map<(d0) -> (d0)>
func.func @all_slices(%w: tensor<3x4xf32> {blu.tensor = {name = "w", role = "param"}})
    -> (tensor<3x4xf32> {blu.donates = 0 : i64}) {
  // expected-error @+1 {{cannot update state tensor 'w' (param) in place}}
  %w1 = blurt.loop "update" count 3 slice(%w : tensor<3x4xf32>) -> tensor<3x4xf32> {
  ^bb0(%i: tensor<i64>, %wi: tensor<4xf32>):
    %first = blurt.slice %w [0, 0] : tensor<3x4xf32> to tensor<1x4xf32>
    %row = blurt.reshape %first : tensor<1x4xf32> to tensor<4xf32>
    %n = blurt.group "sgd" domain [4] ins(%wi [#id] : tensor<4xf32>, %row [#id] : tensor<4xf32>) outs([#id]) -> tensor<4xf32> {
    ^bb0(%e: f32, %f: f32):
      %s = arith.addf %e, %f : f32
      blurt.group_yield %s : f32
    }
    blurt.loop_yield %n : tensor<4xf32>
  }
  return %w1 : tensor<3x4xf32>
}

// -----

// Within its iteration, a slice is read after its successor is computed.

#id = affine_map<(d0) -> (d0)>
func.func @late_slice(%w: tensor<3x4xf32> {blu.tensor = {name = "w", role = "param"}})
    -> (tensor<3x4xf32> {blu.donates = 0 : i64}, tensor<3x4xf32> {blu.tensor = {name = "y", role = "output"}}) {
  %w1, %y = blurt.loop "update" count 3 slice(%w : tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<3x4xf32>) {
  ^bb0(%i: tensor<i64>, %wi: tensor<4xf32>):
    // expected-error @+1 {{cannot update state tensor 'w' (param) in place}}
    %n = blurt.group "sgd" domain [4] ins(%wi [#id] : tensor<4xf32>) outs([#id]) -> tensor<4xf32> {
    ^bb0(%e: f32):
      %s = arith.addf %e, %e : f32
      blurt.group_yield %s : f32
    }
    // expected-note @+1 {{the old value is still read here}}
    %m = blurt.group "late" domain [4] ins(%wi [#id] : tensor<4xf32>, %n [#id] : tensor<4xf32>) outs([#id]) -> tensor<4xf32> {
    ^bb0(%e: f32, %f: f32):
      %s = arith.mulf %e, %f : f32
      blurt.group_yield %s : f32
    }
    blurt.loop_yield %n, %m : tensor<4xf32>, tensor<4xf32>
  }
  return %w1, %y : tensor<3x4xf32>, tensor<3x4xf32>
}
