//===- Passes.td - one device to the devices of a mesh -----*- tablegen -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_SHARDING_PASSES_TD
#define BLUTRAIN_SHARDING_PASSES_TD

include "mlir/Pass/PassBase.td"

def SeedShardingPass : Pass<"blu-seed-sharding", "::mlir::ModuleOp"> {
  let summary = "say how the inputs of a program are cut among the devices of a mesh";
  let description = [{
    Writes the mesh into the module and, for the programs `train` and `eval`, a
    `blu.sharding` at every input: its batch is cut along `dp`. Means of
    `blu.cross_entropy`, which are of what is counted on all devices, are written
    as sums and counts. A layout file (docs/Distribution.md) may say how inputs are
    cut instead, and which parameters get `blu.unsharded`.

    ```mlir
    %x: tensor<8x4xi32> {blu.tensor = {name = "x", role = "input"}}
    // mesh="dp=2" becomes
    %x: tensor<8x4xi32> {blu.tensor = {…}, blu.sharding = {dims = [["dp"], []]}}
    ```
  }];
  let options = [
    Option<"mesh", "mesh", "std::string", /*default=*/"\"\"",
           "axes and sizes, dp=4">,
    Option<"layout", "layout", "std::string", /*default=*/"\"\"",
           "a layout file">
  ];
  let dependentDialects = ["::mlir::blu::BluDialect"];
}

def PropagateShardingPass : Pass<"blu-propagate-sharding", "::mlir::ModuleOp"> {
  let summary = "how every value is cut, from how the inputs are";
  let description = [{
    Goes forward through each step: what an op works on in parts, its results have
    in parts. A sum over a dim that is cut is a sum over devices too: its value is
    `partial`, and so is what is linear in it, up to where the sum itself is
    needed; there a `blu.all_reduce` is put behind it. A constant or a broadcast is
    cut as those need it that use it. Types stay those of whole values.

    ```mlir
    %s = blu.reduce_sum %x [0] : (tensor<8xf32>) -> tensor<f32>  // %x: dims = [["dp"]]
    %e = blu.exp %s : tensor<f32>
    // becomes
    %s = blu.reduce_sum %x [0] {blu.sharding = [{dims = [], partial = ["dp"]} ]} : …
    %a = blu.all_reduce %s axis = "dp" size = 2 : …
    %e = blu.exp %a : tensor<f32>
    ```
  }];
  let statistics = [Statistic<"numReduced", "values",
                              "values that are summed over devices">];
  let dependentDialects = ["::mlir::blu::BluDialect"];
}

def VerifyShardingPass : Pass<"blu-verify-sharding", "::mlir::ModuleOp"> {
  let summary = "check that values can be cut as their attributes say";
  let description = [{
    Fails, at the value's place, if a `blu.sharding` has another rank than its
    value, names an axis that the mesh lacks or one axis twice, or cuts a dim that
    does not divide.
  }];
}

def PartitionPass : Pass<"blu-partition", "::mlir::ModuleOp"> {
  let summary = "from whole values to what one device has of them";
  let description = [{
    Gives every value the type of a device's part and removes `blu.sharding`; that
    of an argument stays as `blu.part`. The keys of `blu.dropout` are moved to the part's place in the whole tensor, which
    the scalar `dp_index` says.

    ```mlir
    %y = blu.exp %x {blu.sharding = [{dims = [["dp"], []]} ]} : tensor<8x4xf32>
    // with dp=2 becomes
    %y = blu.exp %x : tensor<4x4xf32>
    ```
  }];
  let dependentDialects = ["::mlir::blu::BluDialect"];
}

def ReduceGradientsPass : Pass<"blu-reduce-gradients", "::mlir::ModuleOp"> {
  let summary = "gradients leave as soon as they are final, in one call a stack iteration";
  let description = [{
    Replaces the all-reduces of gradients by reduce-scatters, one for all parameters
    of an iteration at the end of the backward stack's body, one for those before
    and one for those after each such stack; their norm becomes the ordered sum of
    what the devices' pieces add up to. With gradient accumulation they leave after
    the last microbatch. What follows depends on the ZeRO stage:

    | stage | |
    |---|---|
    | 0 | all-gathers give every device all gradients |
    | 1 | a device updates its piece of every parameter and has the moments of that alone; all-gathers put the parameters together |
    | 2 | as 1; with accumulation the pieces of microbatches are added up, not whole gradients |
    | 3 | as 2; the pieces of gradients stay results. `blu-gather-parameters` does the rest |

    A parameter with `blu.unsharded` and what belongs to it is as in stage 0.

    ```mlir
    %g = blu.all_reduce %p axis = "dp" size = 2 : (tensor<8xf32>) -> tensor<8xf32>
    // zero=0 becomes
    %s = blu.reduce_scatter %p axis = "dp" size = 2 : (tensor<8xf32>) -> tensor<4xf32>
    %g = blu.all_gather %s axis = "dp" size = 2 : (tensor<4xf32>) -> tensor<8xf32>
    ```
  }];
  let options = [
    Option<"zero", "zero", "int64_t", /*default=*/"0", "the ZeRO stage">
  ];
  let statistics = [Statistic<"numBuckets", "buckets",
                              "reduce-scatters of gradients">];
  let dependentDialects = ["::mlir::blu::BluDialect"];
}

def GatherParametersPass : Pass<"blu-gather-parameters", "::mlir::ModuleOp"> {
  let summary = "a device has its piece of every parameter, and gathers what it reads";
  let description = [{
    In stage 3 a device's state is its piece of every parameter; the optimizer takes
    it and leaves it. The body of a stack begins with one all-gather of what this
    iteration reads, forward and backward; so the whole parameters of no two
    iterations are needed at once. Of other parameters, those that are used between
    the same two stacks are gathered in one call in front of the first use there, and
    again behind the next stack if they are used there, too.

    Stages 1 and 2 keep whole parameters, unless products take them rounded: then
    state is pieces of what is updated, and the step begins by gathering all
    parameters, each once and rounded unless it is also used as it is. Stage 0, and
    programs without a mesh, are left as they are.

    Pieces are rounded before they are gathered, outside of stacks.

    ```mlir
    %s = blu.stack "s" [0 to 2] iteration(%i) carry(%h = %x) slices(%w = %ws) : … {
      %n = blu.mul %h, %w : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
    // becomes, with zero=3
    %s = blu.stack "s" [0 to 2] iteration(%i) carry(%h = %x) slices(%p = %ps) : … {
      %w = blu.all_gather %p axis = "dp" size = 2 : (tensor<3xf32>) -> tensor<5xf32>
      %n = blu.mul %h, %w : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
    ```
  }];
  let options = [
    Option<"zero", "zero", "int64_t", /*default=*/"0", "the ZeRO stage">
  ];
  let statistics = [Statistic<"numGathers", "gathers",
                              "all-gathers of parameters">];
  let dependentDialects = ["::mlir::blu::BluDialect"];
}

def LowerAllReducePass : Pass<"blu-lower-all-reduce", "::mlir::ModuleOp"> {
  let summary = "the all-reduces that are left, as gathers and sums in order";
  let description = [{
    Values of few elements are gathered from all devices and added up in their
    order; larger ones are reduce-scattered and gathered.

    ```mlir
    %y = blu.all_reduce %x axis = "dp" size = 2 : (tensor<f32>) -> tensor<f32>
    // becomes
    %0 = blu.reshape %x [1] : (tensor<f32>) -> tensor<1xf32>
    %1 = blu.all_gather %0 axis = "dp" size = 2 : (tensor<1xf32>) -> tensor<2xf32>
    %2 = blu.reduce_sum %1 [0] : (tensor<2xf32>) -> tensor<f32>
    ```
  }];
  let dependentDialects = ["::mlir::blu::BluDialect"];
}

def VerifySchedulePass : Pass<"blu-verify-schedule", "::mlir::ModuleOp"> {
  let summary = "prove that ranks meet in the same collectives and hold what they should";
  let description = [{
    Of a module that is partitioned, knowing nothing of how. Collectives are along
    axes of the mesh and met by all devices of the axis, which puts every device
    into one group; around them are only loops whose number of iterations is
    written down. For each axis a forward analysis then finds what devices hold of
    each value:

    | | |
    |---|---|
    | whole | the same on all: state, scalars, what is gathered or added up |
    | part | a block of a cut dim: inputs with `blu.part`, and what is computed from them |
    | piece | a piece of what is cut in row-major order: state with `shards`, what `blu.reduce_scatter` and `blu.local_shard` give |
    | partial | a term of a sum: what is summed over a cut dim, and what is linear in it |
    | terms | the terms of all devices, gathered, before `blu.reduce_sum` |
    | index, key | what comes from the device's place, which may only move random keys |

    A value that is used as what it is not, above all a term as if it were the sum,
    is an error at its use, as are outputs that differ between devices and state
    that is not as its argument says.

    ```mlir
    %s = blu.reduce_sum %x [0] : (tensor<4xf32>) -> tensor<f32>  // %x: a part
    %r = blu.sqrt %s : tensor<f32>  // error: operand 0 is a term of a sum over the
                                    // devices along 'dp', expected the sum
    ```
  }];
  let statistics = [Statistic<"numCollectives", "collectives",
                              "collectives whose place was checked">];
}

#endif // BLUTRAIN_SHARDING_PASSES_TD
