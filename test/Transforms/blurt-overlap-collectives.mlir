// RUN: bt-opt %s --blurt-overlap-collectives --blurt-plan --blurt-verify-plan | FileCheck %s
// RUN: bt-opt %s --blurt-overlap-collectives | FileCheck %s --check-prefix=MARK
// RUN: bt-opt %s --blurt-overlap-collectives --blurt-plan=report=%t.json -o /dev/null
// RUN: FileCheck %s --input-file=%t.json --check-prefix=REPORT
// RUN: bt-opt %s --blurt-overlap-collectives --blurt-plan --blurt-emit-cpu-kernels | FileCheck %s --check-prefix=EMIT

#id = affine_map<(d0) -> (d0)>

// A gradient leaves while the next iteration computes its own in the other slot
// of the ring; the gather takes over from the reduce-scatter.

// MARK-LABEL: func.func @layers
// MARK:         blurt.collective "reduce_scatter" async %
// MARK:         blurt.collective "all_gather" async %
// MARK:         blurt.collective "local_shard" %
// CHECK-LABEL: func.func @layers
// CHECK-DAG:     %[[TWO:.*]] = arith.constant 2 : index
// CHECK:         scf.for %[[K:.*]] = %{{.*}} to %{{.*}} step %{{.*}} {
// CHECK-NEXT:      %[[I:.*]] = arith.subi %{{.*}}, %[[K]] : index
// CHECK-NEXT:      %[[TURN:.*]] = arith.remui %[[I]], %[[TWO]] : index
// CHECK:           %[[G:.*]] = blurt.slot %{{.*}}[%[[TURN]]] offset [[#GO:]] steps [64] {buffer = [[#B:]] : i64}
// CHECK-NOT:       blurt.wait
// CHECK:           blurt.group "grad" {{.*}} outs(%[[G]]
// CHECK-NOT:       blurt.wait
// CHECK:           %[[P:.*]] = blurt.slot %{{.*}}[%[[TURN]]] offset [[#]] steps [32]
// CHECK:           blurt.wait 0
// CHECK-NEXT:      blurt.collective "reduce_scatter" async ticket 0 %[[G]] into %[[P]] axis
// CHECK:           %[[W:.*]] = blurt.slot %{{.*}}[%[[I]]] offset [[#]] steps [64]
// CHECK:           blurt.wait 1
// CHECK-NEXT:      blurt.collective "all_gather" async ticket 1 %[[P]] into %[[W]] axis
// CHECK-NOT:       "copy"
// CHECK:         }
// CHECK-NOT:     blurt.wait
// CHECK:         blurt.group "twice"
// CHECK:         blurt.wait 1
// CHECK-NEXT:    blurt.collective "local_shard" %
// CHECK:         blurt.wait 0
// CHECK-NEXT:    return
func.func @layers(
    %w: tensor<4x16xf32> {blu.tensor = {name = "w.{i}", role = "param", stack_count = 4 : i64, stack_first = 0 : i64}},
    %x: tensor<16xf32> {blu.tensor = {name = "x", role = "input"}})
    -> (tensor<4x8xf32> {blu.tensor = {name = "g", role = "output"}},
        tensor<16xf32> {blu.tensor = {name = "y", role = "output"}}) {
  %h, %gs = blurt.loop "layer" count 4 reverse carry(%x : tensor<16xf32>)
      slice(%w : tensor<4x16xf32>)
      -> (tensor<16xf32>, tensor<4x16xf32>) {
  ^bb0(%i: tensor<i64>, %d: tensor<16xf32>, %wi: tensor<16xf32>):
    %g = blurt.group "grad" domain [16] ins(%d [#id] : tensor<16xf32>, %wi [#id] : tensor<16xf32>) outs([#id]) -> tensor<16xf32> {
    ^bb0(%a: f32, %b: f32):
      %s = arith.mulf %a, %b : f32
      blurt.group_yield %s : f32
    }
    %n = blurt.group "next" domain [16] ins(%d [#id] : tensor<16xf32>, %wi [#id] : tensor<16xf32>) outs([#id]) -> tensor<16xf32> {
    ^bb0(%a: f32, %b: f32):
      %s = arith.addf %a, %b : f32
      blurt.group_yield %s : f32
    }
    %p = blurt.collective "reduce_scatter" %g axis = "dp" size = 2 : (tensor<16xf32>) -> tensor<8xf32>
    %q = blurt.collective "all_gather" %p axis = "dp" size = 2 : (tensor<8xf32>) -> tensor<16xf32>
    blurt.loop_yield %n, %q : tensor<16xf32>, tensor<16xf32>
  }
  %y = blurt.group "twice" domain [16] ins(%h [#id] : tensor<16xf32>) outs([#id]) -> tensor<16xf32> {
  ^bb0(%a: f32):
    %s = arith.addf %a, %a : f32
    blurt.group_yield %s : f32
  }
  %l = blurt.collective "local_shard" %gs axis = "dp" size = 2 : (tensor<4x16xf32>) -> tensor<4x8xf32>
  return %l, %y : tensor<4x8xf32>, tensor<16xf32>
}

// One that is used at once is not asynchronous; one that something stands
// behind is, and nothing takes its bytes until then. What is returned is waited
// for at the end.

// MARK-LABEL: func.func @line
// MARK:         blurt.collective "reduce_scatter" async %
// MARK:         blurt.collective "all_gather" %
// MARK:         blurt.collective "all_gather" async %
// CHECK-LABEL: func.func @line
// CHECK:         blurt.slot
// CHECK:         %[[A:.*]] = blurt.slot %{{.*}} offset [[#AO:]] {
// CHECK-NEXT:    blurt.group "a" {{.*}} outs(%[[A]]
// CHECK:         blurt.collective "reduce_scatter" async ticket 0 %[[A]]
// CHECK-NOT:     offset [[#AO]] {
// CHECK-NOT:     blurt.wait
// CHECK:         blurt.group "b"
// CHECK:         blurt.wait 0
// CHECK-NEXT:    blurt.group "c"
// CHECK:         blurt.collective "all_gather" %
// CHECK:         blurt.collective "all_gather" async ticket 1
// CHECK-NOT:     blurt.wait
// CHECK:         blurt.group "b"
// CHECK-NOT:     blurt.wait
// CHECK:         blurt.wait 1
// CHECK-NEXT:    return
func.func @line(%x: tensor<16xf32> {blu.tensor = {name = "x", role = "input"}})
    -> (tensor<16xf32> {blu.tensor = {name = "y", role = "output"}},
        tensor<16xf32> {blu.tensor = {name = "z", role = "output"}},
        tensor<16xf32> {blu.tensor = {name = "v", role = "output"}}) {
  %a = blurt.group "a" domain [16] ins(%x [#id] : tensor<16xf32>) outs([#id]) -> tensor<16xf32> {
  ^bb0(%e: f32):
    %s = arith.addf %e, %e : f32
    blurt.group_yield %s : f32
  }
  %p = blurt.collective "reduce_scatter" %a axis = "dp" size = 2 : (tensor<16xf32>) -> tensor<8xf32>
  %b = blurt.group "b" domain [16] ins(%x [#id] : tensor<16xf32>) outs([#id]) -> tensor<16xf32> {
  ^bb0(%e: f32):
    %s = arith.mulf %e, %e : f32
    blurt.group_yield %s : f32
  }
  %c = blurt.group "c" domain [8] ins(%p [#id] : tensor<8xf32>) outs([#id]) -> tensor<8xf32> {
  ^bb0(%e: f32):
    %s = arith.mulf %e, %e : f32
    blurt.group_yield %s : f32
  }
  %z = blurt.collective "all_gather" %c axis = "dp" size = 2 : (tensor<8xf32>) -> tensor<16xf32>
  %u = blurt.group "u" domain [16] ins(%z [#id] : tensor<16xf32>) outs([#id]) -> tensor<16xf32> {
  ^bb0(%e: f32):
    %s = arith.mulf %e, %e : f32
    blurt.group_yield %s : f32
  }
  %y = blurt.collective "all_gather" %c axis = "dp" size = 2 : (tensor<8xf32>) -> tensor<16xf32>
  %v = blurt.group "b" domain [16] ins(%b [#id] : tensor<16xf32>, %u [#id] : tensor<16xf32>) outs([#id]) -> tensor<16xf32> {
  ^bb0(%e: f32, %f: f32):
    %s = arith.mulf %e, %f : f32
    blurt.group_yield %s : f32
  }
  return %y, %z, %v : tensor<16xf32>, tensor<16xf32>, tensor<16xf32>
}

// Weights that a loop gathers: each iteration starts what the next one reads,
// into the other of two slots, and the last one nothing.

// MARK-LABEL: func.func @gathers
// MARK:         blurt.collective "all_gather" async %{{.*}} {blurt.ahead}
// CHECK-LABEL: func.func @gathers
// CHECK-DAG:     %[[C1:.*]] = arith.constant 1 : index
// CHECK-DAG:     %[[C3:.*]] = arith.constant 3 : index
// CHECK:         %[[S:.*]] = blurt.slot %{{.*}} offset 352 {
// CHECK-NEXT:    %[[F:.*]] = blurt.slot %{{.*}} offset [[#WO:]] {buffer = [[#BO:]] : i64} : {{.*}} -> memref<16xf32>
// CHECK:         blurt.collective "all_gather" async ticket 0 %[[S]] into %[[F]] axis
// CHECK:         blurt.wait 0
// CHECK-NEXT:    scf.for %[[K:.*]] = %{{.*}} to %{{.*}} step %{{.*}} {
// CHECK-NEXT:      %[[I:.*]] = arith.subi %[[C3]], %[[K]] : index
// CHECK-NEXT:      %[[T:.*]] = arith.remui %[[I]]
// CHECK:           %[[L:.*]] = arith.cmpi ult, %[[K]], %[[C3]] : index
// CHECK-NEXT:      blurt.wait 0
// CHECK-NEXT:      scf.if %[[L]] {
// CHECK-NEXT:        %[[N:.*]] = arith.subi %[[I]], %[[C1]] : index
// CHECK-NEXT:        %[[U:.*]] = arith.remui %[[N]]
// CHECK-NEXT:        %[[A:.*]] = blurt.slot %{{.*}}[%[[N]]] offset 256 steps [32]
// CHECK-NEXT:        %[[O:.*]] = blurt.slot %{{.*}}[%[[U]]] offset [[#WO-64]] steps [64] {buffer = [[#BO]] : i64}
// CHECK-NEXT:        blurt.collective "all_gather" async ticket 0 %[[A]] into %[[O]] axis
// CHECK-NEXT:      }
// CHECK-NEXT:      %[[R:.*]] = blurt.slot %{{.*}}[%[[T]]] offset [[#WO-64]] steps [64] {buffer = [[#BO]] : i64}
// CHECK:           blurt.group "use" {{.*}} ins(%{{.*}}, %[[R]]
// CHECK-NOT:       blurt.wait
// CHECK:         }
// It is one entry of the program's table.
// EMIT-LABEL: func.func @gathers
// EMIT:         %[[N:.*]] = arith.constant 6 : i32
// EMIT-NEXT:    llvm.call @blurt_collective_start(%{{.*}}, %[[N]],
// EMIT:         llvm.call @blurt_collective_wait
// EMIT:         scf.for
// EMIT:           %[[W:.*]] = arith.constant 6 : i32
// EMIT-NEXT:      llvm.call @blurt_collective_wait(%{{.*}}, %[[W]])
// EMIT-NEXT:      scf.if
// EMIT:             %[[M:.*]] = arith.constant 6 : i32
// EMIT-NEXT:        llvm.call @blurt_collective_start(%{{.*}}, %[[M]],
func.func @gathers(
    %w: tensor<4x8xf32> {blu.tensor = {name = "v.{i}", role = "param", stack_count = 4 : i64, stack_first = 0 : i64}},
    %x: tensor<16xf32> {blu.tensor = {name = "x", role = "input"}})
    -> (tensor<16xf32> {blu.tensor = {name = "y", role = "output"}}) {
  %h = blurt.loop "layer" count 4 reverse carry(%x : tensor<16xf32>)
      slice(%w : tensor<4x8xf32>) -> (tensor<16xf32>) {
  ^bb0(%i: tensor<i64>, %d: tensor<16xf32>, %p: tensor<8xf32>):
    %q = blurt.collective "all_gather" %p axis = "dp" size = 2 : (tensor<8xf32>) -> tensor<16xf32>
    %n = blurt.group "use" domain [16] ins(%d [#id] : tensor<16xf32>, %q [#id] : tensor<16xf32>) outs([#id]) -> tensor<16xf32> {
    ^bb0(%a: f32, %b: f32):
      %s = arith.addf %a, %b : f32
      blurt.group_yield %s : f32
    }
    blurt.loop_yield %n : tensor<16xf32>
  }
  return %h : tensor<16xf32>
}

// REPORT:      "collectives": [
// REPORT:        "kind": "reduce_scatter",
// REPORT-NEXT:   "entry": "layers",
// REPORT-NEXT:   "location":
// REPORT-NEXT:   "axis": "dp",
// REPORT-NEXT:   "size": 2,
// REPORT-NEXT:   "values": 1,
// REPORT-NEXT:   "position":
// REPORT-NEXT:   "count": 4,
// REPORT-NEXT:   "bytes": 32,
// REPORT-NEXT:   "seconds": {{.*}},
// REPORT-NEXT:   "async": true,
// REPORT-NEXT:   "ahead": false,
// REPORT-NEXT:   "waits": [
// REPORT-NEXT:     "blurt.collective at
// REPORT-NEXT:     "func.return at
// REPORT:        "kind": "local_shard",
// REPORT:        "bytes": 0,
// REPORT-NEXT:   "seconds": 0,
// REPORT-NEXT:   "async": false,
// REPORT-NEXT:   "ahead": false,
// REPORT-NEXT:   "waits": []
