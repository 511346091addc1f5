// RUN: bt-opt %s --blurt-plan --blurt-verify-plan | FileCheck %s

// State comes first, parameters before moments before caches, at the same
// offsets in every entry; it is updated in place. Scratch of the entries
// overlaps. A stack is described by one iteration and its stride.

// CHECK:      module attributes {blurt.program = {
// CHECK-SAME:   entries = [{batch = 4 : i64, microbatches = 1 : i64, name = "train", peak_bytes = [[#]] : i64, seq = 32 : i64, symbol = @train, tensors = [
// CHECK-SAME:     {name = "g", offset = [[#SCRATCH:]] : i64, role = "input", type = tensor<2x10xf32>}
// CHECK-SAME:     {name = "lr", offset = [[#]] : i64, role = "scalar", type = tensor<f64>}
// CHECK-SAME:     {name = "loss", offset = [[#]] : i64, role = "output", type = tensor<f32>}]}
// CHECK-SAME:   {batch = 1 : i64, microbatches = 1 : i64, name = "decode"
// CHECK-SAME:     {name = "kv.{i}", offset = 384 : i64, role = "cache", stack_count = 2 : i64, stack_first = 0 : i64, stack_stride = 128 : i64, type = tensor<1x8x4xf32>}
// CHECK-SAME:   metadata = {vocab_size = "256"}, name = "m"
// CHECK-SAME:   state = [
// CHECK-SAME:     {decay, export = "h.{i}.w", name = "w.{i}", offset = 0 : i64, role = "param", stack_count = 2 : i64, stack_first = 0 : i64, stack_stride = 40 : i64, type = tensor<10xf32>}
// CHECK-SAME:     {name = "b", offset = 128 : i64, role = "param", type = tensor<32xf32>}
// CHECK-SAME:     {name = "w.{i}", offset = 256 : i64, role = "moment1", stack_count = 2 : i64, stack_first = 0 : i64, stack_stride = 40 : i64, type = tensor<10xf32>}
// CHECK-NOT:      role = "cache"
// CHECK-SAME:   state_bytes = 640 : i64

#id = affine_map<(d0, d1) -> (d0, d1)>
module attributes {blurt.program = {name = "m", target = "cpu", precision = "fp32", optimizer = "sgd", metadata = {vocab_size = "256"}}} {
// CHECK-LABEL: func.func @train
// CHECK:         %[[W:.*]] = blurt.slot %{{.*}} offset 0 {{.*}} -> memref<2x10xf32>
// CHECK:         %[[M:.*]] = blurt.slot %{{.*}} offset 256 {{.*}} -> memref<2x10xf32>
// CHECK:         blurt.group "momentum" {{.*}} outs(%[[W]] [{{.*}}] : memref<2x10xf32>, %[[M]] [{{.*}}] : memref<2x10xf32>)
// CHECK-NOT:     "copy"
func.func @train(
    %m: tensor<2x10xf32> {blu.tensor = {name = "w.{i}", role = "moment1", stack_count = 2 : i64, stack_first = 0 : i64}},
    %w: tensor<2x10xf32> {blu.tensor = {name = "w.{i}", export = "h.{i}.w", role = "param", stack_count = 2 : i64, stack_first = 0 : i64, decay}},
    %g: tensor<2x10xf32> {blu.tensor = {name = "g", role = "input"}},
    %lr: tensor<f64> {blu.tensor = {name = "lr", role = "scalar"}})
    -> (tensor<f32> {blu.tensor = {name = "loss", role = "output"}},
        tensor<2x10xf32> {blu.donates = 1 : i64}, tensor<2x10xf32> {blu.donates = 0 : i64})
    attributes {blurt.entry = {batch = 4 : i64, seq = 32 : i64, microbatches = 1 : i64}} {
  %loss = blurt.group "sum" domain [2, 10] reduce [0, 1] ins(%g [#id] : tensor<2x10xf32>)
      outs([affine_map<(d0, d1) -> ()>]) -> tensor<f32> {
  ^bb0(%e: f32):
    %s = blurt.reduce sum %e : f32
    blurt.group_yield %s : f32
  }
  %w1, %m1 = blurt.group "momentum" domain [2, 10]
      ins(%w [#id] : tensor<2x10xf32>, %m [#id] : tensor<2x10xf32>, %g [#id] : tensor<2x10xf32>, %lr [affine_map<(d0, d1) -> ()>] : tensor<f64>)
      outs([#id], [#id]) -> (tensor<2x10xf32>, tensor<2x10xf32>) {
  ^bb0(%we: f32, %me: f32, %ge: f32, %lre: f64):
    %l = arith.truncf %lre : f64 to f32
    %mn = arith.addf %me, %ge : f32
    %u = arith.mulf %mn, %l : f32
    %wn = arith.subf %we, %u : f32
    blurt.group_yield %wn, %mn : f32, f32
  }
  return %loss, %w1, %m1 : tensor<f32>, tensor<2x10xf32>, tensor<2x10xf32>
}

// A cache is updated slice by slice within the loop over the layers.
// CHECK-LABEL: func.func @decode
// CHECK:         scf.for %[[I:.*]] = %{{.*}} to %{{.*}} step
// CHECK:           %[[KV:.*]] = blurt.slot %{{.*}}[%[[I]]] offset 384 steps [128]
// CHECK:           blurt.cache_update %[[KV]], %{{.*}} at %{{.*}} into %[[KV]]
// CHECK-NOT:     "copy"
// CHECK:         return
func.func @decode(
    %w: tensor<2x10xf32> {blu.tensor = {name = "w.{i}", role = "param", stack_count = 2 : i64, stack_first = 0 : i64}},
    %b: tensor<32xf32> {blu.tensor = {name = "b", role = "param"}},
    %kv: tensor<2x1x8x4xf32> {blu.tensor = {name = "kv.{i}", role = "cache", stack_count = 2 : i64, stack_first = 0 : i64}},
    %x: tensor<1x1x4xf32> {blu.tensor = {name = "x", role = "input"}},
    %position: tensor<i64> {blu.tensor = {name = "position", role = "scalar"}})
    -> (tensor<1x1x4xf32> {blu.tensor = {name = "logits", role = "output"}},
        tensor<2x1x8x4xf32> {blu.donates = 2 : i64}) {
  %y, %kv1 = blurt.loop "block" count 2 carry(%x : tensor<1x1x4xf32>) slice(%kv : tensor<2x1x8x4xf32>)
      -> (tensor<1x1x4xf32>, tensor<2x1x8x4xf32>) {
  ^bb0(%i: tensor<i64>, %h: tensor<1x1x4xf32>, %cache: tensor<1x8x4xf32>):
    %u = blurt.cache_update %cache, %h at %position : (tensor<1x8x4xf32>, tensor<1x1x4xf32>, tensor<i64>) -> tensor<1x8x4xf32>
    %n = blurt.group "read" domain [1, 8, 4] reduce [1] ins(%u [affine_map<(d0, d1, d2) -> (d0, d1, d2)>] : tensor<1x8x4xf32>)
        outs([affine_map<(d0, d1, d2) -> (d0, 0, d2)>]) -> tensor<1x1x4xf32> {
    ^bb0(%e: f32):
      %s = blurt.reduce sum %e : f32
      blurt.group_yield %s : f32
    }
    blurt.loop_yield %n, %u : tensor<1x1x4xf32>, tensor<1x8x4xf32>
  }
  return %y, %kv1 : tensor<1x1x4xf32>, tensor<2x1x8x4xf32>
}
}
