// RUN: bt-opt %s --split-input-file --blurt-verify-plan --verify-diagnostics

#id = affine_map<(d0) -> (d0)>
module attributes {blurt.program = {state_bytes = 0 : i64, entries = [{name = "f", symbol = @overlap, tensors = [
    {name = "x", role = "input", offset = 0 : i64, type = tensor<16xf32>}]}]}} {
func.func @overlap(%ctx: !llvm.ptr, %arena: memref<256xi8>) {
  %x = blurt.slot %arena offset 0 {buffer = 0 : i64} : memref<256xi8> -> memref<16xf32>
  %y = blurt.slot %arena offset 32 {buffer = 1 : i64} : memref<256xi8> -> memref<16xf32>
  // expected-error @+2 {{uses buffer 1 at bytes [32, 96) while buffer 0 at bytes [0, 64) is live}}
  // expected-note @+1 {{buffer 0 is last used here}}
  blurt.group "g" domain [16] ins(%x [#id] : memref<16xf32>) outs(%y [#id] : memref<16xf32>) {
  ^bb0(%e: f32):
    blurt.group_yield %e : f32
  }
  return
}
}

// -----

// A value from outside a loop that the loop reads lives to the loop's end, also
// past its last reader in the body.

#id = affine_map<(d0) -> (d0)>
module attributes {blurt.program = {state_bytes = 0 : i64, entries = [{name = "f", symbol = @loop, tensors = [
    {name = "x", role = "input", offset = 0 : i64, type = tensor<16xf32>}]}]}} {
func.func @loop(%ctx: !llvm.ptr, %arena: memref<256xi8>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  scf.for %i = %c0 to %c4 step %c1 {
    %x = blurt.slot %arena offset 0 {buffer = 0 : i64} : memref<256xi8> -> memref<16xf32>
    %y = blurt.slot %arena offset 64 {buffer = 1 : i64} : memref<256xi8> -> memref<16xf32>
    %z = blurt.slot %arena offset 0 {buffer = 2 : i64} : memref<256xi8> -> memref<16xf32>
    // expected-note @+1 {{buffer 0 is last used here}}
    blurt.group "g" domain [16] ins(%x [#id] : memref<16xf32>) outs(%y [#id] : memref<16xf32>) {
    ^bb0(%e: f32):
      blurt.group_yield %e : f32
    }
    // expected-error @+1 {{uses buffer 2 at bytes [0, 64) while buffer 0 at bytes [0, 64) is live}}
    blurt.group "h" domain [16] ins(%y [#id] : memref<16xf32>) outs(%z [#id] : memref<16xf32>) {
    ^bb0(%e: f32):
      blurt.group_yield %e : f32
    }
  }
  return
}
}

// -----

// The slots of all iterations count.

module attributes {blurt.program = {state_bytes = 0 : i64}} {
func.func @arena(%ctx: !llvm.ptr, %arena: memref<256xi8>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  scf.for %i = %c0 to %c4 step %c1 {
    // expected-error @+1 {{reaches byte 320 of an arena of 256}}
    %x = blurt.slot %arena[%i] offset 64 steps [64] {buffer = 0 : i64} : memref<256xi8> -> memref<16xf32>
  }
  return
}
}

// -----

module attributes {blurt.program = {state_bytes = 64 : i64}} {
func.func @state(%ctx: !llvm.ptr, %arena: memref<256xi8>) {
  // expected-error @+1 {{lies partly in the state area, which ends at 64}}
  %x = blurt.slot %arena offset 32 {buffer = 0 : i64} : memref<256xi8> -> memref<16xf32>
  return
}
}

// -----

#id = affine_map<(d0) -> (d0)>
func.func @uninitialized(%ctx: !llvm.ptr, %arena: memref<256xi8>) {
  %x = blurt.slot %arena offset 0 {buffer = 0 : i64} : memref<256xi8> -> memref<16xf32>
  %y = blurt.slot %arena offset 64 {buffer = 1 : i64} : memref<256xi8> -> memref<16xf32>
  // expected-error @+1 {{reads buffer 0 before anything is written to it}}
  blurt.group "g" domain [16] ins(%x [#id] : memref<16xf32>) outs(%y [#id] : memref<16xf32>) {
  ^bb0(%e: f32):
    blurt.group_yield %e : f32
  }
  return
}

// -----

func.func @anonymous(%ctx: !llvm.ptr, %arena: memref<256xi8>) {
  // expected-error @+1 {{does not say which buffer it is part of}}
  %x = blurt.slot %arena offset 0 : memref<256xi8> -> memref<16xf32>
  return
}

// -----

// expected-error @+1 {{is not in plan form, expected (!llvm.ptr, memref<Nxi8>) -> ()}}
func.func @unplanned(%x: tensor<4xf32>) {
  return
}

// -----

func.func @leftover(%ctx: !llvm.ptr, %arena: memref<256xi8>) {
  // expected-note @+2 {{blurt-plan rewrites all tensors}}
  // expected-error @+1 {{is not allowed at the plan stage}}
  %x = memref.alloc() : memref<4xf32>
  return
}
