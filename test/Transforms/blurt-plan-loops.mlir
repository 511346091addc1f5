// RUN: bt-opt %s --split-input-file --blurt-plan --blurt-verify-plan | FileCheck %s

// What a layer saves of its input lies in count+1 slots: iteration i reads slot
// i and writes slot i+1. The reverse loop reads the same slots; its carry is
// updated in place, its weight gradients are written into their slots, and the
// last use of a saved value makes room for the next.

#id = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-LABEL: func.func @forward_backward
// CHECK:         blurt.group "embed" {{.*}} outs(%[[H0:[0-9a-z]+]]
// CHECK:         scf.for %[[I:.*]] = %{{.*}} to %{{.*}} step %{{.*}} {
// CHECK-DAG:       %[[H:.*]] = blurt.slot %{{.*}}[%[[I]]] offset [[#SAVED:]] steps [512] {buffer = [[#X:]] : i64}
// CHECK-DAG:       %[[W:.*]] = blurt.slot %{{.*}}[%[[I]]] offset 0 steps [256]
// CHECK-DAG:       %[[G:.*]] = blurt.slot %{{.*}}[%[[I]]] offset [[#GS:]] steps [512]
// CHECK:           blurt.gemm %[[H]], %[[W]] into %[[G]]
// CHECK:           %[[NEXT:.*]] = blurt.slot %{{.*}}[%[[I]]] offset [[#SAVED+512]] steps [512] {buffer = [[#X]] : i64}
// CHECK:           blurt.group "gelu" {{.*}} ins(%[[G]] {{.*}} %[[H]] {{.*}} outs(%[[NEXT]]
// CHECK-NOT:       "copy"
// CHECK:         }
// CHECK:         %[[LAST:.*]] = blurt.slot %{{.*}} offset [[#SAVED+2048]] {buffer = [[#X]] : i64}
// CHECK:         blurt.group "copy" {{.*}} ins(%[[LAST]] {{.*}} outs(%[[D:[0-9a-z]+]]
// CHECK:         scf.for %[[K:.*]] = %{{.*}} to %{{.*}} step %{{.*}} {
// CHECK-NEXT:      %[[R:.*]] = arith.subi %{{.*}}, %[[K]]
// CHECK:           %[[DG:.*]] = blurt.slot %{{.*}}[%[[R]]] offset [[#GS]] steps [512]
// CHECK:           blurt.group "dgelu" {{.*}} ins(%[[DG]] {{.*}} %[[D]] {{.*}} outs(%[[DG]]
// CHECK:           %[[OLD:.*]] = blurt.slot %{{.*}}[%[[R]]] offset [[#SAVED]] steps [512]
// CHECK:           %[[DW:.*]] = blurt.slot %{{.*}}[%[[R]]] offset [[#]] steps [256]
// CHECK:           blurt.gemm %[[OLD]] transposed, %[[DG]] into %[[DW]]
// CHECK:           blurt.gemm %[[DG]], %{{.*}} transposed plus %[[D]] into %[[D]]
// CHECK-NOT:       "copy"
// CHECK:         }
func.func @forward_backward(
    %w: tensor<4x8x8xf32> {blu.tensor = {name = "w.{i}", role = "param", stack_count = 4 : i64, stack_first = 0 : i64}},
    %x: tensor<16x8xf32> {blu.tensor = {name = "x", role = "input"}})
    -> (tensor<16x8xf32> {blu.tensor = {name = "dx", role = "output"}},
        tensor<4x8x8xf32> {blu.tensor = {name = "w.{i}", role = "gradient", stack_count = 4 : i64, stack_first = 0 : i64}}) {
  %h0 = blurt.group "embed" domain [16, 8] ins(%x [#id] : tensor<16x8xf32>)
      outs([#id]) -> tensor<16x8xf32> {
  ^bb0(%e: f32):
    %s = arith.addf %e, %e : f32
    blurt.group_yield %s : f32
  }
  %h, %saved, %gs = blurt.loop "block" count 4 carry(%h0 : tensor<16x8xf32>) slice(%w : tensor<4x8x8xf32>)
      -> (tensor<16x8xf32>, tensor<4x16x8xf32>, tensor<4x16x8xf32>) {
  ^bb0(%i: tensor<i64>, %a: tensor<16x8xf32>, %wi: tensor<8x8xf32>):
    %g = blurt.gemm %a, %wi : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %n = blurt.group "gelu" domain [16, 8] ins(%g [#id] : tensor<16x8xf32>, %a [#id] : tensor<16x8xf32>)
        outs([#id]) -> tensor<16x8xf32> {
    ^bb0(%e: f32, %f: f32):
      %s = arith.addf %e, %f : f32
      blurt.group_yield %s : f32
    }
    blurt.loop_yield %n, %a, %g : tensor<16x8xf32>, tensor<16x8xf32>, tensor<16x8xf32>
  }
  %dx, %dw = blurt.loop "block.grad" count 4 reverse carry(%h : tensor<16x8xf32>)
      slice(%saved : tensor<4x16x8xf32>, %gs : tensor<4x16x8xf32>, %w : tensor<4x8x8xf32>)
      -> (tensor<16x8xf32>, tensor<4x8x8xf32>) {
  ^bb0(%i: tensor<i64>, %d: tensor<16x8xf32>, %a: tensor<16x8xf32>, %g: tensor<16x8xf32>, %wi: tensor<8x8xf32>):
    %dg = blurt.group "dgelu" domain [16, 8] ins(%g [#id] : tensor<16x8xf32>, %d [#id] : tensor<16x8xf32>)
        outs([#id]) -> tensor<16x8xf32> {
    ^bb0(%e: f32, %f: f32):
      %s = arith.mulf %e, %f : f32
      blurt.group_yield %s : f32
    }
    %dwi = blurt.gemm %a transposed, %dg : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %dn = blurt.gemm %dg, %wi transposed plus %d : (tensor<16x8xf32>, tensor<8x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
    blurt.loop_yield %dn, %dwi : tensor<16x8xf32>, tensor<8x8xf32>
  }
  return %dx, %dw : tensor<16x8xf32>, tensor<4x8x8xf32>
}

// -----

// A loop that counts down saves its carry the other way round: iteration i reads
// slot i+1 and writes slot i.

#id = affine_map<(d0) -> (d0)>
// CHECK-LABEL: func.func @saved_in_reverse
// CHECK:         %[[INPUT:.*]] = blurt.slot
// CHECK-NEXT:    %[[INIT:.*]] = blurt.slot %{{.*}} offset [[#BASE:]] {{.*}} -> memref<16xf32>
// CHECK:         blurt.group "init" {{.*}} outs(%[[INIT]]
// CHECK:         scf.for
// CHECK:           %[[I:.*]] = arith.subi
// CHECK-DAG:       %[[READ:.*]] = blurt.slot %{{.*}}[%[[I]]] offset [[#BASE-128]] steps [64]
// CHECK-DAG:       %[[WRITTEN:.*]] = blurt.slot %{{.*}}[%[[I]]] offset [[#BASE-192]] steps [64]
// CHECK:           blurt.group "next" {{.*}} ins(%[[READ]] {{.*}} outs(%[[WRITTEN]]
// CHECK:         }
// CHECK:         %[[ALL:.*]] = blurt.slot %{{.*}} offset [[#BASE-128]] {{.*}} -> memref<3x16xf32>
// CHECK:         blurt.group "use" {{.*}} ins(%[[ALL]]
func.func @saved_in_reverse(%x: tensor<16xf32> {blu.tensor = {name = "x", role = "input"}})
    -> (tensor<3x16xf32> {blu.tensor = {name = "y", role = "output"}}) {
  %init = blurt.group "init" domain [16] ins(%x [#id] : tensor<16xf32>) outs([#id]) -> tensor<16xf32> {
  ^bb0(%e: f32):
    %s = arith.addf %e, %e : f32
    blurt.group_yield %s : f32
  }
  %last, %saved = blurt.loop "down" count 3 reverse carry(%init : tensor<16xf32>) -> (tensor<16xf32>, tensor<3x16xf32>) {
  ^bb0(%i: tensor<i64>, %a: tensor<16xf32>):
    %n = blurt.group "next" domain [16] ins(%a [#id] : tensor<16xf32>) outs([#id]) -> tensor<16xf32> {
    ^bb0(%e: f32):
      %s = arith.mulf %e, %e : f32
      blurt.group_yield %s : f32
    }
    blurt.loop_yield %n, %a : tensor<16xf32>, tensor<16xf32>
  }
  %y = blurt.group "use" domain [3, 16] ins(%saved [affine_map<(d0, d1) -> (d0, d1)>] : tensor<3x16xf32>,
                                            %last [affine_map<(d0, d1) -> (d1)>] : tensor<16xf32>)
      outs([affine_map<(d0, d1) -> (d0, d1)>]) -> tensor<3x16xf32> {
  ^bb0(%e: f32, %f: f32):
    %s = arith.addf %e, %f : f32
    blurt.group_yield %s : f32
  }
  return %y : tensor<3x16xf32>
}

// -----

// A carry that is read after its successor is computed needs a second buffer,
// and carries that change places are saved first. The iteration is stored for
// the operations that read it.

#id = affine_map<(d0) -> (d0)>
#none = affine_map<() -> ()>
// CHECK-LABEL: func.func @double_buffer
// CHECK:         scf.for %[[I:.*]] = %{{.*}} to %{{.*}} step
// CHECK:           %[[COUNTER:.*]] = blurt.slot {{.*}} -> memref<i64>
// CHECK:           %[[NUMBER:.*]] = arith.index_cast %[[I]] : index to i64
// CHECK:           memref.store %[[NUMBER]], %[[COUNTER]][]
// CHECK:           blurt.group "gemv" {{.*}} ins(%[[A:[0-9a-z]+]] {{.*}}%[[COUNTER]] {{.*}} outs(%[[N:[0-9a-z]+]]
// CHECK:           blurt.group "after" {{.*}} ins(%[[A]] {{.*}}, %[[N]]
// CHECK:           blurt.group "copy" {{.*}} ins(%[[N]] {{.*}} outs(%[[A]]
// CHECK:         }
func.func @double_buffer(%x: tensor<16xf32> {blu.tensor = {name = "x", role = "input"}})
    -> (tensor<16xf32> {blu.tensor = {name = "y", role = "output"}},
        tensor<3x16xf32> {blu.tensor = {name = "z", role = "output"}}) {
  %y, %z = blurt.loop "l" count 3 carry(%x : tensor<16xf32>) -> (tensor<16xf32>, tensor<3x16xf32>) {
  ^bb0(%i: tensor<i64>, %a: tensor<16xf32>):
    %n = blurt.group "gemv" domain [16] ins(%a [#id] : tensor<16xf32>, %i [affine_map<(d0) -> ()>] : tensor<i64>)
        outs([#id]) -> tensor<16xf32> {
    ^bb0(%e: f32, %f: i64):
      %g = arith.sitofp %f : i64 to f32
      %s = arith.mulf %e, %g : f32
      blurt.group_yield %s : f32
    }
    %c = blurt.group "after" domain [16] ins(%a [#id] : tensor<16xf32>, %n [#id] : tensor<16xf32>)
        outs([#id]) -> tensor<16xf32> {
    ^bb0(%e: f32, %f: f32):
      %s = arith.addf %e, %f : f32
      blurt.group_yield %s : f32
    }
    blurt.loop_yield %n, %c : tensor<16xf32>, tensor<16xf32>
  }
  return %y, %z : tensor<16xf32>, tensor<3x16xf32>
}

// -----

#id = affine_map<(d0) -> (d0)>
// CHECK-LABEL: func.func @swap
// CHECK:         scf.for
// CHECK:           blurt.group "copy" {{.*}} ins(%[[B:[0-9a-z]+]] {{.*}} outs(%[[T:[0-9a-z]+]]
// CHECK:           blurt.group "copy" {{.*}} ins(%[[A:[0-9a-z]+]] {{.*}} outs(%[[B]]
// CHECK:           blurt.group "copy" {{.*}} ins(%[[T]] {{.*}} outs(%[[A]]
// CHECK:         }
func.func @swap(%x: tensor<16xf32> {blu.tensor = {name = "x", role = "input"}},
                %y: tensor<16xf32> {blu.tensor = {name = "y", role = "input"}})
    -> (tensor<16xf32> {blu.tensor = {name = "z", role = "output"}}) {
  %p, %q = blurt.loop "l" count 3 carry(%x : tensor<16xf32>, %y : tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>) {
  ^bb0(%i: tensor<i64>, %a: tensor<16xf32>, %b: tensor<16xf32>):
    blurt.loop_yield %b, %a : tensor<16xf32>, tensor<16xf32>
  }
  return %p : tensor<16xf32>
}

// -----

// A collected slice of something else is copied into its slot.

// CHECK-LABEL: func.func @collect_a_slice
// CHECK:         scf.for %[[I:.*]] = %{{.*}} to %{{.*}} step
// CHECK:           %[[SLICE:.*]] = blurt.slot %{{.*}}[%[[I]]] offset [[#]] steps [64]
// CHECK:           %[[SLOT:.*]] = blurt.slot %{{.*}}[%[[I]]] offset [[#]] steps [64]
// CHECK:           blurt.group "copy" {{.*}} ins(%[[SLICE]] {{.*}} outs(%[[SLOT]]
func.func @collect_a_slice(%x: tensor<3x16xf32> {blu.tensor = {name = "x", role = "input"}})
    -> (tensor<3x16xf32> {blu.tensor = {name = "y", role = "output"}}) {
  %y = blurt.loop "l" count 3 slice(%x : tensor<3x16xf32>) -> tensor<3x16xf32> {
  ^bb0(%i: tensor<i64>, %a: tensor<16xf32>):
    blurt.loop_yield %a : tensor<16xf32>
  }
  return %y : tensor<3x16xf32>
}

// -----

// Microbatches: the accumulators are carried through the outer loop and added to
// in place, the inner loops' slots are reused by every microbatch.

#id = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-LABEL: func.func @accumulate
// CHECK:         blurt.group "zero" {{.*}} outs(%[[ACC:[0-9a-z]+]]
// CHECK:         scf.for %[[K:.*]] = %{{.*}} to %{{.*}} step
// CHECK:           scf.for %[[I:.*]] = %{{.*}} to %{{.*}} step
// CHECK:             %[[XK:.*]] = blurt.slot %{{.*}}[%[[K]]] offset [[#]] steps [128]
// CHECK:             %[[SLOT:.*]] = blurt.slot %{{.*}}[%[[I]]] offset [[#GRADS:]] steps [128]
// CHECK:             blurt.group "grad" {{.*}} ins(%[[XK]] {{.*}} outs(%[[SLOT]]
// CHECK:           }
// CHECK:           %[[SUM:.*]] = blurt.slot %{{.*}} offset [[#GRADS]] {{.*}} -> memref<2x32xf32>
// CHECK:           blurt.group "add" {{.*}} ins(%[[ACC]] {{.*}}, %[[SUM]] {{.*}} outs(%[[ACC]]
// CHECK-NOT:       "copy"
// CHECK:         return
func.func @accumulate(%x: tensor<3x32xf32> {blu.tensor = {name = "x", role = "input"}})
    -> (tensor<2x32xf32> {blu.tensor = {name = "y", role = "output"}}) {
  %zero = blurt.group "zero" domain [2, 32] outs([#id]) -> tensor<2x32xf32> {
    %c = arith.constant 0.0 : f32
    blurt.group_yield %c : f32
  }
  %y = blurt.loop "accumulate" count 3 carry(%zero : tensor<2x32xf32>) slice(%x : tensor<3x32xf32>) -> tensor<2x32xf32> {
  ^bb0(%k: tensor<i64>, %acc: tensor<2x32xf32>, %xk: tensor<32xf32>):
    %g = blurt.loop "layers" count 2 -> tensor<2x32xf32> {
    ^bb0(%i: tensor<i64>):
      %gi = blurt.group "grad" domain [32] ins(%xk [affine_map<(d0) -> (d0)>] : tensor<32xf32>)
          outs([affine_map<(d0) -> (d0)>]) -> tensor<32xf32> {
      ^bb0(%e: f32):
        %s = arith.mulf %e, %e : f32
        blurt.group_yield %s : f32
      }
      blurt.loop_yield %gi : tensor<32xf32>
    }
    %n = blurt.group "add" domain [2, 32] ins(%acc [#id] : tensor<2x32xf32>, %g [#id] : tensor<2x32xf32>)
        outs([#id]) -> tensor<2x32xf32> {
    ^bb0(%e: f32, %f: f32):
      %s = arith.addf %e, %f : f32
      blurt.group_yield %s : f32
    }
    blurt.loop_yield %n : tensor<2x32xf32>
  }
  return %y : tensor<2x32xf32>
}

// -----

// A reshape of a saved carry is saved with it.

#id = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-LABEL: func.func @saved_reshape
// CHECK-NOT:     "copy"
// CHECK:         scf.for
// CHECK:           %[[A:.*]] = blurt.slot %{{.*}}[%{{.*}}] offset [[#BASE:]] steps [64] {{.*}} -> memref<4x4xf32>
// CHECK-NOT:     "copy"
// CHECK:         }
// CHECK:         %[[ALL:.*]] = blurt.slot %{{.*}} offset [[#BASE]] {{.*}} -> memref<3x16xf32>
// CHECK:         blurt.group "use" {{.*}} ins(%[[ALL]]
func.func @saved_reshape(%x: tensor<4x4xf32> {blu.tensor = {name = "x", role = "input"}})
    -> (tensor<3x16xf32> {blu.tensor = {name = "y", role = "output"}}) {
  %init = blurt.group "init" domain [4, 4] ins(%x [#id] : tensor<4x4xf32>) outs([#id]) -> tensor<4x4xf32> {
  ^bb0(%e: f32):
    %s = arith.addf %e, %e : f32
    blurt.group_yield %s : f32
  }
  %last, %saved = blurt.loop "up" count 3 carry(%init : tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<3x16xf32>) {
  ^bb0(%i: tensor<i64>, %a: tensor<4x4xf32>):
    %flat = blurt.reshape %a : tensor<4x4xf32> to tensor<16xf32>
    %n = blurt.group "next" domain [4, 4] ins(%a [#id] : tensor<4x4xf32>) outs([#id]) -> tensor<4x4xf32> {
    ^bb0(%e: f32):
      %s = arith.mulf %e, %e : f32
      blurt.group_yield %s : f32
    }
    blurt.loop_yield %n, %flat : tensor<4x4xf32>, tensor<16xf32>
  }
  %y = blurt.group "use" domain [3, 16] ins(%saved [#id] : tensor<3x16xf32>)
      outs([#id]) -> tensor<3x16xf32> {
  ^bb0(%e: f32):
    %s = arith.addf %e, %e : f32
    blurt.group_yield %s : f32
  }
  return %y : tensor<3x16xf32>
}

// -----

// A carry that its successor's kernel reads as a table is not written over.

#id = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-LABEL: func.func @table_carry
// CHECK:         scf.for
// CHECK:           blurt.group "gather" {{.*}} tables(%[[A:[0-9a-z]+]] {{.*}} outs(%[[N:[0-9a-z]+]]
// CHECK:           blurt.group "copy" {{.*}} ins(%[[N]] {{.*}} outs(%[[A]]
// CHECK:         }
func.func @table_carry(%x: tensor<4x4xf32> {blu.tensor = {name = "x", role = "input"}},
                       %ids: tensor<4xi64> {blu.tensor = {name = "ids", role = "input"}})
    -> (tensor<4x4xf32> {blu.tensor = {name = "y", role = "output"}}) {
  %y = blurt.loop "l" count 3 carry(%x : tensor<4x4xf32>) -> tensor<4x4xf32> {
  ^bb0(%i: tensor<i64>, %a: tensor<4x4xf32>):
    %n = blurt.group "gather" domain [4, 4] ins(%ids [affine_map<(d0, d1) -> (d0)>] : tensor<4xi64>)
        tables(%a : tensor<4x4xf32>) outs([#id]) -> tensor<4x4xf32> {
    ^bb0(%id: i64, %t: tensor<4x4xf32>):
      %j = blurt.index 1 : i64
      %s = blurt.load %t[%id, %j] : tensor<4x4xf32> -> f32
      blurt.group_yield %s : f32
    }
    blurt.loop_yield %n : tensor<4x4xf32>
  }
  return %y : tensor<4x4xf32>
}
