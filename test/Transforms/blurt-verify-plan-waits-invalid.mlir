// RUN: bt-opt %s --split-input-file --blurt-verify-plan --verify-diagnostics

// What is on its way is read too early: the wait is missing.

#id = affine_map<(d0) -> (d0)>
module attributes {blurt.program = {state_bytes = 0 : i64, entries = [{name = "f", symbol = @reads, tensors = [
    {name = "x", role = "input", offset = 0 : i64, type = tensor<16xf32>}]}]}} {
func.func @reads(%ctx: !llvm.ptr, %arena: memref<256xi8>) {
  %x = blurt.slot %arena offset 0 {buffer = 0 : i64} : memref<256xi8> -> memref<16xf32>
  %p = blurt.slot %arena offset 64 {buffer = 1 : i64} : memref<256xi8> -> memref<8xf32>
  %y = blurt.slot %arena offset 128 {buffer = 2 : i64} : memref<256xi8> -> memref<8xf32>
  // expected-note @+1 {{expected a wait for ticket 3 before}}
  blurt.collective "reduce_scatter" async ticket 3 %x into %p axis = "dp" size = 2 : (memref<16xf32>, memref<8xf32>) -> ()
  // expected-error @+1 {{reads bytes [64, 96) that a collective writes meanwhile}}
  blurt.group "g" domain [8] ins(%p [#id] : memref<8xf32>) outs(%y [#id] : memref<8xf32>) {
  ^bb0(%e: f32):
    blurt.group_yield %e : f32
  }
  blurt.wait 3
  return
}
}

// -----

// What it reads is overwritten.

#id = affine_map<(d0) -> (d0)>
module attributes {blurt.program = {state_bytes = 128 : i64}} {
func.func @writes(%ctx: !llvm.ptr, %arena: memref<256xi8>) {
  %x = blurt.slot %arena offset 0 {buffer = 0 : i64} : memref<256xi8> -> memref<16xf32>
  %v = blurt.slot %arena offset 64 {buffer = 1 : i64} : memref<256xi8> -> memref<16xf32>
  %p = blurt.slot %arena offset 128 {buffer = 2 : i64} : memref<256xi8> -> memref<8xf32>
  // expected-note @+1 {{expected a wait for ticket 0 before}}
  blurt.collective "reduce_scatter" async ticket 0 %x into %p axis = "dp" size = 2 : (memref<16xf32>, memref<8xf32>) -> ()
  // Reading it is fine.
  blurt.group "read" domain [16] ins(%x [#id] : memref<16xf32>) outs(%v [#id] : memref<16xf32>) {
  ^bb0(%e: f32):
    blurt.group_yield %e : f32
  }
  // expected-error @+1 {{writes bytes [0, 64) that a collective reads meanwhile}}
  blurt.group "write" domain [16] ins(%v [#id] : memref<16xf32>) outs(%x [#id] : memref<16xf32>) {
  ^bb0(%e: f32):
    blurt.group_yield %e : f32
  }
  blurt.wait 0
  return
}
}

// -----

module attributes {blurt.program = {state_bytes = 128 : i64}} {
func.func @forgotten(%ctx: !llvm.ptr, %arena: memref<256xi8>) {
  %x = blurt.slot %arena offset 0 {buffer = 0 : i64} : memref<256xi8> -> memref<16xf32>
  %p = blurt.slot %arena offset 128 {buffer = 1 : i64} : memref<256xi8> -> memref<8xf32>
  // expected-error @+1 {{is not waited for before the return, expected a wait for ticket 0}}
  blurt.collective "reduce_scatter" async ticket 0 %x into %p axis = "dp" size = 2 : (memref<16xf32>, memref<8xf32>) -> ()
  return
}
}

// -----

// The wait of the next iteration is behind the start, where it is late.

module attributes {blurt.program = {state_bytes = 128 : i64}} {
func.func @restarted(%ctx: !llvm.ptr, %arena: memref<256xi8>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  scf.for %i = %c0 to %c4 step %c1 {
    %x = blurt.slot %arena offset 0 {buffer = 0 : i64} : memref<256xi8> -> memref<16xf32>
    %p = blurt.slot %arena[%i] offset 128 steps [32] {buffer = 1 : i64} : memref<256xi8> -> memref<8xf32>
    // expected-error @+1 {{starts while the one with ticket 0 is under way}}
    blurt.collective "reduce_scatter" async ticket 0 %x into %p axis = "dp" size = 2 : (memref<16xf32>, memref<8xf32>) -> ()
  }
  blurt.wait 0
  return
}
}

// -----

// With one slot for all iterations the next writes what is still read; with two
// in turns, as in @ring, all is well.

#id = affine_map<(d0) -> (d0)>
module attributes {blurt.program = {state_bytes = 64 : i64}} {
func.func @ring(%ctx: !llvm.ptr, %arena: memref<512xi8>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : index
  %w = blurt.slot %arena offset 0 {buffer = 0 : i64} : memref<512xi8> -> memref<16xf32>
  scf.for %i = %c0 to %c4 step %c1 {
    %t = arith.remui %i, %c2 : index
    %x = blurt.slot %arena[%t] offset 64 steps [64] {buffer = 1 : i64} : memref<512xi8> -> memref<16xf32>
    %p = blurt.slot %arena[%i] offset 192 steps [64] {buffer = 2 : i64} : memref<512xi8> -> memref<8xf32>
    blurt.group "g" domain [16] ins(%w [#id] : memref<16xf32>) outs(%x [#id] : memref<16xf32>) {
    ^bb0(%e: f32):
      blurt.group_yield %e : f32
    }
    blurt.wait 0
    blurt.collective "reduce_scatter" async ticket 0 %x into %p axis = "dp" size = 2 : (memref<16xf32>, memref<8xf32>) -> ()
  }
  blurt.wait 0
  return
}
func.func @line(%ctx: !llvm.ptr, %arena: memref<512xi8>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %w = blurt.slot %arena offset 0 {buffer = 0 : i64} : memref<512xi8> -> memref<16xf32>
  scf.for %i = %c0 to %c4 step %c1 {
    %x = blurt.slot %arena offset 64 {buffer = 1 : i64} : memref<512xi8> -> memref<16xf32>
    %p = blurt.slot %arena[%i] offset 192 steps [64] {buffer = 2 : i64} : memref<512xi8> -> memref<8xf32>
    // expected-error @+1 {{writes bytes [64, 128) that a collective reads meanwhile}}
    blurt.group "g" domain [16] ins(%w [#id] : memref<16xf32>) outs(%x [#id] : memref<16xf32>) {
    ^bb0(%e: f32):
      blurt.group_yield %e : f32
    }
    blurt.wait 0
    // expected-note @+1 {{expected a wait for ticket 0 before}}
    blurt.collective "reduce_scatter" async ticket 0 %x into %p axis = "dp" size = 2 : (memref<16xf32>, memref<8xf32>) -> ()
  }
  blurt.wait 0
  return
}
}
