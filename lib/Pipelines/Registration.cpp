//===- Registration.cpp - every dialect, pass and pipeline ----------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blutrain/Pipelines/Registration.h"

#include "blutrain/Autodiff/Passes.h"
#include "blutrain/Codegen/Passes.h"
#include "blutrain/Conversion/Passes.h"
#include "blutrain/Pipelines/Passes.h"
#include "blutrain/Pipelines/Stages.h"
#include "blutrain/Sharding/Passes.h"
#include "blutrain/Transforms/Passes.h"

#include "Blu/Blu.h"
#include "Blurt/BlurtDialect.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

void blutrain::registerDialects(DialectRegistry &registry) {
  registry.insert<affine::AffineDialect, arith::ArithDialect,
                  cf::ControlFlowDialect, func::FuncDialect, math::MathDialect,
                  memref::MemRefDialect, scf::SCFDialect, tensor::TensorDialect,
                  vector::VectorDialect, LLVM::LLVMDialect, NVVM::NVVMDialect,
                  gpu::GPUDialect, blu::BluDialect, blurt::BlurtDialect>();
}

void blutrain::registerPasses() {
  registerTransformsPasses();
  registerAutodiffPasses();
  registerConversionPasses();
  registerShardingPasses();
  registerFuseStagePipeline();
  registerBluTrainTransformsPasses();
  blurt::registerCodegenPasses();
  blurt::registerCodegenPipelines();
  registerStagePasses();
  registerStagePipelines();
}
