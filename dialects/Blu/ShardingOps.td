//===- ShardingOps.td - collectives over the devices of a mesh -*- tablegen -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLU_SHARDING_OPS_TD
#define BLU_SHARDING_OPS_TD

include "BluBase.td"

// Every device of a mesh runs the same program; a collective is met by all
// devices that differ in their place along `axis` alone, `size` of them, in the
// same order. What it moves is a pure function of what those devices hold.
class Blu_CollectiveOp<string mnemonic> : Blu_Op<mnemonic, [Pure]> {
  let arguments = (ins Variadic<Blu_FloatTensor>:$inputs, StrAttr:$axis,
                       I64Attr:$size);
  let results = (outs Variadic<Blu_FloatTensor>:$results);
  let assemblyFormat = [{
    $inputs `axis` `=` $axis `size` `=` $size attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Blu_AllReduceOp : Blu_CollectiveOp<"all_reduce"> {
  let summary = "sums over the devices of an axis, on each of them";
  let description = [{
    `y = Σ_d x_d`, each input on its own. It stands where propagation found that a
    value is a sum of parts; `blu-lower-all-reduce` replaces it.
    Constraints:
    - C1: there are as many results as inputs, and at least one; size is at least 2.
    - C2: results have the types of the inputs.
    Gradient: not supported, sharding follows differentiation.
    Example: `%y = blu.all_reduce %x axis = "dp" size = 2 : (tensor<8xf32>) -> tensor<8xf32>`
  }];
}

def Blu_ReduceScatterOp : Blu_CollectiveOp<"reduce_scatter"> {
  let summary = "sums over the devices of an axis, a piece on each";
  let description = [{
    An input of n elements is cut, in row-major order, into `size` pieces of
    ⌈n/size⌉ elements, the last ones shorter or empty; device d gets the sum of
    piece d over the devices, added in their order, with zeros behind a short
    piece. Where the result has a rank of 2, dim 0 of input and result are the
    same and each of its elements is cut on its own. All inputs go at once.
    Constraints:
    - C1: there are as many results as inputs, and at least one; size is at least 2.
    - C2: a result has the input's element type and the shape of its pieces.
    Gradient: not supported, sharding follows differentiation.
    Example: `%y = blu.reduce_scatter %x axis = "dp" size = 2 : (tensor<3x5xf32>) -> tensor<8xf32>`
  }];
}

def Blu_AllGatherOp : Blu_CollectiveOp<"all_gather"> {
  let summary = "pieces of all devices of an axis, put together on each";
  let description = [{
    The inverse of how `blu.reduce_scatter` cuts: the result's elements, in
    row-major order, are the pieces of the devices in their order, without the
    zeros behind short ones.
    Constraints:
    - C1: there are as many results as inputs, and at least one; size is at least 2.
    - C2: an input has the result's element type and the shape of its pieces.
    Gradient: not supported, sharding follows differentiation.
    Example: `%y = blu.all_gather %x axis = "dp" size = 2 : (tensor<8xf32>) -> tensor<3x5xf32>`
  }];
}

def Blu_LocalShardOp : Blu_CollectiveOp<"local_shard"> {
  let summary = "a device's own piece of what all devices of an axis hold";
  let description = [{
    The piece that `blu.reduce_scatter` would give the device, of the input itself:
    no device sends anything.
    Constraints:
    - C1: there are as many results as inputs, and at least one; size is at least 2.
    - C2: a result has the input's element type and the shape of its pieces.
    Gradient: not supported, sharding follows differentiation.
    Example: `%y = blu.local_shard %x axis = "dp" size = 2 : (tensor<3x5xf32>) -> tensor<8xf32>`
  }];
}

def Blu_ShiftKeyOp : Blu_Op<"shift_key", [Pure]> {
  let summary = "the key whose element i is element i + offset of another";
  let description = [{
    `y` with `mix(y) = mix(key) + offset`, mix as for `blu.dropout`, which is
    one to one: a shard of a tensor then draws the random numbers that its elements
    have in the whole tensor.
    Constraints:
    - C1: all operands are i64 scalars.
    Gradient: none, the result is an integer.
    Example: `%k = blu.shift_key %key, %offset : (tensor<i64>, tensor<i64>) -> tensor<i64>`
  }];
  let arguments = (ins Blu_I64Scalar:$key, Blu_I64Scalar:$offset);
  let results = (outs Blu_I64Scalar:$result);
  let assemblyFormat = [{
    $key `,` $offset attr-dict `:` functional-type(operands, results)
  }];
}

#endif // BLU_SHARDING_OPS_TD
