//===- Stages.cpp - what happens in each stage, and why there -------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blutrain/Pipelines/Stages.h"

#include "blutrain/Autodiff/Passes.h"
#include "blutrain/Codegen/Passes.h"
#include "blutrain/Conversion/Passes.h"
#include "blutrain/Pipelines/Passes.h"
#include "blutrain/Sharding/Passes.h"
#include "blutrain/Transforms/Passes.h"
#include "blutrain/Transforms/Plan.h"

#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace blutrain;

StringRef blutrain::stringifyStage(Stage stage) {
  switch (stage) {
  case Stage::Input:
    return "input";
  case Stage::Blu:
    return "blu";
  case Stage::Grad:
    return "grad";
  case Stage::Shard:
    return "shard";
  case Stage::Fuse:
    return "fuse";
  case Stage::Plan:
    return "plan";
  case Stage::Kernel:
    return "kernel";
  case Stage::LLVM:
    return "llvm";
  }
  llvm_unreachable("covered switch");
}

std::optional<Stage> blutrain::symbolizeStage(StringRef name) {
  return llvm::StringSwitch<std::optional<Stage>>(name)
      .Case("blu", Stage::Blu)
      .Case("grad", Stage::Grad)
      .Case("shard", Stage::Shard)
      .Case("fuse", Stage::Fuse)
      .Case("plan", Stage::Plan)
      .Case("kernel", Stage::Kernel)
      .Case("llvm", Stage::LLVM)
      .Default(std::nullopt);
}

/// Rows of logits that begin on cache lines, in any precision, and tensor cores
/// that find 16 bytes at a time. OpenBLAS has its own packed copies.
static int64_t getVocabMultiple(const StageOptions &options) {
  if (options.padVocab >= 0)
    return options.padVocab;
  return options.target == "cuda" ? 64 : 0;
}

/// Model file to static models, one for each program of the executable.
static void buildBluStage(OpPassManager &pm, const StageOptions &options) {
  // A vector-Jacobian product is of the model itself, as it is written.
  if (!options.vjp) {
    InstantiateProgramsPassOptions programs;
    programs.batch = options.batch;
    programs.seq = options.seq;
    pm.addPass(createInstantiateProgramsPass(programs));
    // Before products and biases are rounded apart from each other.
    PadVocabularyPassOptions padding;
    padding.multiple = getVocabMultiple(options);
    pm.addPass(createPadVocabularyPass(padding));
  }
  // Precision at once: initialisers aside, no later pass then meets a type that
  // the program does not have.
  SetPrecisionPassOptions precision;
  precision.policy = options.precision;
  pm.addPass(createSetPrecisionPass(precision));
}

/// A chunk of logits stays in a cache of the CPU; on a GPU its products have to
/// be large enough to fill the device.
static int64_t getLossHeadBytes(const StageOptions &options) {
  if (options.lossHeadBytes >= 0)
    return options.lossHeadBytes;
  return int64_t(options.target == "cuda" ? 512 : 16) << 20;
}

/// Static models to steps: the whole training step, still in blu.
static void buildGradStage(OpPassManager &pm, const StageOptions &options) {
  // What --remat does not know the pass refuses.
  std::string recompute = options.remat == "none"   ? "views"
                          : options.remat == "full" ? "cheap"
                                                    : options.remat;
  ChunkLossHeadPassOptions lossHead;
  lossHead.bytes = getLossHeadBytes(options);
  // Checkpoint regions are part of what is differentiated.
  if (options.remat == "full")
    pm.addPass(createRematerializePass());
  if (options.vjp) {
    VjpPassOptions vjp;
    vjp.recompute = recompute;
    pm.addPass(createVjpPass(vjp));
    pm.addPass(createChunkLossHeadPass(lossHead));
    pm.addPass(createCanonicalizerPass());
    return;
  }
  // From here on a program is a function of its state, so that gradients are
  // derivatives by arguments.
  pm.addPass(createMaterializeStatePass());
  pm.addPass(createHoistCastsPass());
  KeyDropoutPassOptions dropout;
  dropout.rate = options.dropout;
  pm.addPass(createKeyDropoutPass(dropout));
  pm.addPass(createCacheAttentionPass());
  DifferentiateLossPassOptions gradient;
  gradient.microbatches = options.microbatches;
  gradient.recompute = recompute;
  pm.addPass(createDifferentiateLossPass(gradient));
  // The head and its gradient are next to each other now; no other pass may
  // have pulled them apart, so this comes at once; on a mesh, when the rows are
  // those of a device.
  if (options.mesh.empty())
    pm.addPass(createChunkLossHeadPass(lossHead));
  AccumulateGradientsPassOptions accumulate;
  accumulate.microbatches = options.microbatches;
  pm.addPass(createAccumulateGradientsPass(accumulate));
  AppendOptimizerPassOptions optimizer;
  optimizer.optimizer = options.optimizer;
  optimizer.groups.assign(options.paramGroups.begin(),
                          options.paramGroups.end());
  pm.addPass(createAppendOptimizerPass(optimizer));
  // Folds reshapes of reshapes and drops what nothing uses. Not CSE: it would
  // undo rematerialisation.
  pm.addPass(createCanonicalizerPass());
}

/// The step of one device to that of each device of a mesh.
static void buildShardStage(OpPassManager &pm, const StageOptions &options) {
  if (options.mesh.empty())
    return; // One device: the step is its own shard.
  SeedShardingPassOptions seed;
  seed.mesh = options.mesh;
  seed.layout = options.layout;
  pm.addPass(createSeedShardingPass(seed));
  // What the inputs cannot be cut into is said of them, not of what follows.
  pm.addPass(createVerifyShardingPass());
  pm.addPass(createPropagateShardingPass());
  pm.addPass(createVerifyShardingPass());
  pm.addPass(createPartitionPass());
  // Chunks are of a device's rows: whole ones would lie across devices.
  ChunkLossHeadPassOptions lossHead;
  lossHead.bytes = getLossHeadBytes(options);
  pm.addPass(createChunkLossHeadPass(lossHead));
  ReduceGradientsPassOptions reduce;
  reduce.zero = options.zero;
  pm.addPass(createReduceGradientsPass(reduce));
  GatherParametersPassOptions gather;
  gather.zero = options.zero;
  pm.addPass(createGatherParametersPass(gather));
  pm.addPass(createLowerAllReducePass());
  pm.addPass(createCanonicalizerPass());
  // Not what the passes meant to do, but what the program says.
  pm.addPass(createVerifySchedulePass());
}

/// Tensors to places in the arena.
static void buildPlanStage(OpPassManager &pm, const StageOptions &options,
                           PlanReport *report) {
  PlanOptions plan;
  plan.memoryLimit = options.memoryLimit;
  plan.debugMemory = options.debugMemory;
  plan.debugNonfinite = options.debugNonfinite;
  // Partial sums of reductions, and what the BLAS library asks for on Hopper.
  if (options.target == "cuda") {
    plan.workspaceBytes = 32 << 20;
    plan.rowPadding.alignment = 16;
  }
  plan.link = LinkModel::getDefault(options.target);
  if (!options.link.empty())
    plan.link = cantFail(LinkModel::parse(options.link, plan.link));
  if (!options.mesh.empty())
    pm.addPass(createOverlapCollectivesPass());
  pm.addPass(createPlanPass(plan, report));
  pm.addPass(createVerifyPlanPass());
}

/// Groups to kernels, vector loops on the CPU and threads on a GPU; everything
/// else to calls of the runtime.
static void buildKernelStage(OpPassManager &pm, const StageOptions &options) {
  if (options.target == "cuda") {
    blurt::BlurtEmitCudaKernelsOptions kernels;
    kernels.archs = llvm::to_vector(options.archs);
    pm.addPass(blurt::createBlurtEmitCudaKernels(kernels));
  } else {
    pm.addPass(blurt::createBlurtEmitCpuKernels());
  }
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
}

/// To the LLVM dialect, with the table that the runtime reads.
static void buildLLVMStage(OpPassManager &pm, const StageOptions &options) {
  // Device code first: what follows lowers host code, and takes the images for
  // constants.
  if (options.target == "cuda") {
    blurt::BlurtCompileDeviceOptions device;
    device.archs = llvm::to_vector(options.archs);
    device.toolkit = options.cudaToolkit;
    device.ptxFile = options.ptxFile;
    pm.addPass(blurt::createBlurtCompileDevice(device));
  }
  blurt::buildLowerToLLVMPipeline(pm);
}

void blutrain::buildStage(Stage stage, OpPassManager &manager,
                          const StageOptions &options, PlanReport *report) {
  switch (stage) {
  case Stage::Input:
    return;
  case Stage::Blu:
    buildBluStage(manager, options);
    break;
  case Stage::Grad:
    buildGradStage(manager, options);
    break;
  case Stage::Shard:
    buildShardStage(manager, options);
    break;
  case Stage::Fuse:
    // Steps to blurt: one group a kernel, library calls, views, loops.
    buildFuseStage(manager);
    if (options.target == "cuda")
      manager.addPass(createFuseBiasPass());
    if (options.target == "cuda" && llvm::is_contained(options.archs, "sm_90a"))
      manager.addPass(createTransposeOperandsPass());
    break;
  case Stage::Plan:
    buildPlanStage(manager, options, report);
    break;
  case Stage::Kernel:
    buildKernelStage(manager, options);
    break;
  case Stage::LLVM:
    buildLLVMStage(manager, options);
    break;
  }
  VerifyStagePassOptions verify;
  verify.stage = stringifyStage(stage).str();
  manager.addPass(createVerifyStagePass(verify));
}

namespace {
/// The same options for `bt-opt`, by the names of bt-compile's flags.
struct PipelineOptions : PassPipelineOptions<PipelineOptions> {
  StageOptions defaults;
  Option<std::string> target{*this, "target", llvm::cl::desc("cpu or cuda"),
                             llvm::cl::init(defaults.target)};
  ListOption<std::string> archs{*this, "arch",
                                llvm::cl::desc("architectures of the kernels")};
  Option<int64_t> batch{*this, "batch",
                        llvm::cl::desc("sequences (samples) a microbatch"),
                        llvm::cl::init(defaults.batch)};
  Option<int64_t> seq{*this, "seq", llvm::cl::desc("tokens a sequence"),
                      llvm::cl::init(defaults.seq)};
  Option<int64_t> accum{*this, "accum", llvm::cl::desc("microbatches a step"),
                        llvm::cl::init(defaults.microbatches)};
  Option<std::string> precision{
      *this, "precision", llvm::cl::desc("fp64, fp32, fp32tc, tf32 or bf16"),
      llvm::cl::init(defaults.precision)};
  Option<std::string> optimizer{*this, "optimizer",
                                llvm::cl::desc("adamw or sgd"),
                                llvm::cl::init(defaults.optimizer)};
  ListOption<std::string> paramGroups{
      *this, "param-group",
      llvm::cl::desc("factors of learning rate and weight decay by name")};
  Option<double> dropout{
      *this, "dropout",
      llvm::cl::desc("rate of every dropout; negative: as written"),
      llvm::cl::init(defaults.dropout)};
  Option<std::string> remat{*this, "remat",
                            llvm::cl::desc("none, cheap or full"),
                            llvm::cl::init(defaults.remat)};
  Option<int64_t> lossHeadBytes{
      *this, "loss-head-bytes",
      llvm::cl::desc("most bytes of logits at a time; 0: all, negative: as "
                     "suits the target"),
      llvm::cl::init(defaults.lossHeadBytes)};
  Option<int64_t> padVocab{
      *this, "pad-vocab",
      llvm::cl::desc("columns of logits are padded to a multiple of this; 0: "
                     "not at all, negative: as suits the target"),
      llvm::cl::init(defaults.padVocab)};
  Option<int64_t> memoryLimit{
      *this, "memory-limit",
      llvm::cl::desc("bytes of the largest arena allowed; 0: any"),
      llvm::cl::init(defaults.memoryLimit)};
  Option<std::string> mesh{*this, "mesh",
                           llvm::cl::desc("axes of devices, dp=4"),
                           llvm::cl::init(defaults.mesh)};
  Option<int64_t> zero{*this, "zero", llvm::cl::desc("ZeRO stage"),
                       llvm::cl::init(defaults.zero)};
  Option<bool> debugMemory{
      *this, "debug-memory",
      llvm::cl::desc("check every access against the memory plan"),
      llvm::cl::init(defaults.debugMemory)};
  Option<bool> debugNonfinite{
      *this, "debug-nonfinite",
      llvm::cl::desc("let the runtime look for values that are not finite"),
      llvm::cl::init(defaults.debugNonfinite)};
  Option<bool> vjp{*this, "vjp",
                   llvm::cl::desc("the vector-Jacobian product, for tests"),
                   llvm::cl::init(defaults.vjp)};

  StageOptions get() const {
    StageOptions options;
    options.target = target;
    if (!archs.empty())
      options.archs.assign(archs.begin(), archs.end());
    options.batch = batch;
    options.seq = seq;
    options.microbatches = accum;
    options.precision = precision;
    options.optimizer = optimizer;
    options.paramGroups.assign(paramGroups.begin(), paramGroups.end());
    options.dropout = dropout;
    options.remat = remat;
    options.lossHeadBytes = lossHeadBytes;
    options.padVocab = padVocab;
    options.memoryLimit = memoryLimit;
    options.mesh = mesh;
    options.zero = zero;
    options.debugMemory = debugMemory;
    options.debugNonfinite = debugNonfinite;
    options.vjp = vjp;
    return options;
  }
};
} // namespace

void blutrain::registerStagePipelines() {
  for (Stage stage : {Stage::Blu, Stage::Grad, Stage::Shard, Stage::Fuse,
                      Stage::Plan, Stage::Kernel, Stage::LLVM}) {
    std::string name = ("blutrain-" + stringifyStage(stage)).str();
    std::string text = ("what stage '" + stringifyStage(stage) +
                        "' does to the result of the stage before it")
                           .str();
    PassPipelineRegistration<PipelineOptions>(
        name, text, [stage](OpPassManager &manager, const PipelineOptions &o) {
          buildStage(stage, manager, o.get());
        });
  }
}
