//===- Passes.td - the passes of the fuse stage ------------*- tablegen -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_CONVERSION_PASSES_TD
#define BLUTRAIN_CONVERSION_PASSES_TD

include "mlir/Pass/PassBase.td"

def ConvertBluToBlurt : Pass<"convert-blu-to-blurt", "::mlir::ModuleOp"> {
  let summary = "express steps by groups, library calls, views and loops";
  let description = [{
    Turns every `blu.step` into a `func.func` over the same tensors. Each `blu` op
    becomes one or two `blurt.group`s, a library call, a view or a loop; nothing is
    fused yet. Splat constants are folded into the groups that read them.
    Checkpoint regions are inlined.

    What is decided here, once for an op and its recomputed clones, is how a value
    is computed: formulas, rounding points (bf16 computes in f32) and the domains
    that reductions run over. Later passes only move work between kernels.

    Before:
    ```mlir
    blu.step @f program(train) (%x: tensor<8x4xf32> {…}, %b: tensor<4xf32> {…}) -> (tensor<8x4xf32> {…}) {
      %y = blu.add %x, %b : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
      blu.return %y : tensor<8x4xf32>
    }
    ```
    After:
    ```mlir
    func.func @f(%x: tensor<8x4xf32> {…}, %b: tensor<4xf32> {…}) -> (tensor<8x4xf32> {…}) {
      %y = blurt.group "add" domain [8, 4]
          ins(%x [affine_map<(d0, d1) -> (d0, d1)>] : tensor<8x4xf32>,
              %b [affine_map<(d0, d1) -> (d1)>] : tensor<4xf32>)
          outs([affine_map<(d0, d1) -> (d0, d1)>]) -> tensor<8x4xf32> {
      ^bb0(%e: f32, %c: f32):
        %s = arith.addf %e, %c : f32
        blurt.group_yield %s : f32
      }
      return %y : tensor<8x4xf32>
    }
    ```
  }];
  let dependentDialects = [
    "::mlir::blurt::BlurtDialect", "::mlir::func::FuncDialect",
    "::mlir::arith::ArithDialect", "::mlir::math::MathDialect"
  ];
  let statistics = [
    Statistic<"numGroups", "groups", "groups created">,
    Statistic<"numGemms", "gemms", "GEMMs created">
  ];
}

def CanonicalizeViews : Pass<"blurt-canonicalize-views"> {
  let summary = "fold chains of views and views into the maps of groups";
  let description = [{
    Folds reshapes of reshapes, transposes of transposes, slices of slices and views
    that change nothing; a transpose that moves only dims of extent 1 becomes a
    reshape. A transpose read by a group becomes part of the input's map; a
    transpose that is the only reader of a group's result becomes part of the
    output's map, unless the transposed value is only read by views and library
    calls that take it as it is. Erases what is then dead.

    Before:
    ```mlir
    %t = blurt.transpose %x [1, 0] : tensor<8x4xf32> to tensor<4x8xf32>
    %y = blurt.group "exp" domain [4, 8] ins(%t [affine_map<(d0, d1) -> (d0, d1)>] : tensor<4x8xf32>) …
    ```
    After:
    ```mlir
    %y = blurt.group "exp" domain [4, 8] ins(%x [affine_map<(d0, d1) -> (d1, d0)>] : tensor<8x4xf32>) …
    ```
  }];
  let dependentDialects = ["::mlir::blurt::BlurtDialect"];
  let statistics = [
    Statistic<"numFolded", "folded", "views folded">
  ];
}

def FuseGroups : Pass<"blurt-fuse-groups"> {
  let summary = "merge groups that can share one pass over memory";
  let description = [{
    Merges producers into consumers, siblings that read the same value, and scalar
    groups. Two groups merge if one domain serves both, where elementwise groups take
    on any domain that the reshapes and broadcasts in between allow and the domain
    of a group that reduces is never changed, so that no sum changes its order; if
    they reduce over the same dims or only one reduces; and if no value goes from
    one to the other through a third op. Values needed elsewhere remain outputs.
    Between bf16 groups the rounding stays as a pair of casts.

    A merge must not move more bytes than the groups did before (what groups read
    and write, each tensor once). Cheap producers with several readers are cloned
    into each, unless joining what they read themselves saves more bytes. A group
    that only widens values is left to its readers. Elementwise work joins a
    reduction over columns that it does not feed if that writes along them as well.

    Before:
    ```mlir
    %s = blurt.group "add" domain [8, 4] ins(%x …, %h …) …
    %y = blurt.group "exp" domain [8, 4] ins(%s …) …
    ```
    After:
    ```mlir
    %s, %y = blurt.group "add_exp" domain [32] ins(%x …, %h …) …
    ```
  }];
  let dependentDialects = [
    "::mlir::blurt::BlurtDialect", "::mlir::arith::ArithDialect"
  ];
  let options = [
    Option<"maxOperands", "max-operands", "unsigned", "24",
           "most inputs, tables and outputs that merging may give a group">
  ];
  let statistics = [
    Statistic<"numBefore", "groups-before", "groups at entry">,
    Statistic<"numAfter", "groups-after", "groups at exit">,
    Statistic<"numCloned", "cloned", "cheap groups cloned into a reader">
  ];
}

def SetTf32 : Pass<"blurt-set-tf32", "::mlir::ModuleOp"> {
  let summary = "the tf32 policy on products and attention";
  let description = [{
    Where the module has `blu.tf32`, as `blu-set-precision` sets it, products and
    attention of f32 get the attribute `tf32`: their operands may be rounded to it.

    ```mlir
    %y = blurt.gemm %a, %b : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
    // becomes
    %y = blurt.gemm %a, %b tf32 : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
    ```
  }];
  let dependentDialects = ["::mlir::blurt::BlurtDialect"];
}

def SetSplit : Pass<"blurt-set-split", "::mlir::ModuleOp"> {
  let summary = "the fp32tc policy on products";
  let description = [{
    Where the module has `blu.split`, as `blu-set-precision` sets it, products of
    f32 get the attribute `split`: their operands are multiplied in pieces.

    ```mlir
    %y = blurt.gemm %a, %b : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
    // becomes
    %y = blurt.gemm %a, %b split : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
    ```
  }];
  let dependentDialects = ["::mlir::blurt::BlurtDialect"];
}

def VerifyFuse : Pass<"blurt-verify-fuse", "::mlir::ModuleOp"> {
  let summary = "check what holds at the end of the fuse stage";
  let description = [{
    No `blu` op is left, and the functions consist of `blurt` ops over tensors.
    An error names the op, a note the pass that should have removed it.
  }];
}

#endif // BLUTRAIN_CONVERSION_PASSES_TD
