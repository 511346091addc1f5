//===- Passes.td - what closes a stage ---------------------*- tablegen -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_PIPELINES_PASSES_TD
#define BLUTRAIN_PIPELINES_PASSES_TD

include "mlir/Pass/PassBase.td"

def VerifyStagePass : Pass<"blutrain-verify-stage", "::mlir::ModuleOp"> {
  let summary = "check that a module is what a stage promises";
  let description = [{
    Names what is illegal, where it is, and the pass that should have removed it.

    ```mlir
    // stage=grad
    blu.model @m(…) …  // error: 'blu.model' op is not legal at the exit of stage grad
                       // note: blu-materialize-state should have removed it
    ```
  }];
  let options = [Option<"stage", "stage", "std::string", /*default=*/"",
                        "blu, grad, shard, fuse, plan, kernel or llvm">];
}

#endif // BLUTRAIN_PIPELINES_PASSES_TD
