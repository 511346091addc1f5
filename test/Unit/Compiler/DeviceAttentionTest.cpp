//===- DeviceAttentionTest.cpp - attention for CUDA devices ---*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// What can be known of the kernels without a device: that they are emitted for
// every shape within shared memory, that they assemble without spills, and
// that they use tensor cores and 16-byte accesses where they should.
//
//===----------------------------------------------------------------------===//

#include "Codegen/Cuda/AttentionKernels.h"
#include "DeviceHarness.h"

#include "mlir/IR/Verifier.h"

#include "llvm/Support/FileSystem.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::blurt;
using namespace mlir::blurt::test;

namespace {

AttentionShape makeShape(MLIRContext &context, DeviceCompute compute,
                         int64_t depth, int64_t heads = 4,
                         int64_t keyHeads = 2) {
  AttentionShape shape;
  shape.batch = 2;
  shape.queries = 130;
  shape.keys = 200;
  shape.heads = heads;
  shape.keyHeads = keyHeads;
  shape.depth = depth;
  shape.causal = true;
  shape.scale = 0.125;
  shape.compute = compute;
  shape.element = compute == DeviceCompute::BF16
                      ? Type(BFloat16Type::get(&context))
                      : Type(Float32Type::get(&context));
  auto contiguous = [&](int64_t rows, int64_t count) {
    return RowStrides{rows * count * depth, count * depth, depth, 1};
  };
  shape.q = shape.o = shape.dO = shape.dQ = contiguous(shape.queries, heads);
  shape.k = shape.v = shape.dK = shape.dV = contiguous(shape.keys, keyHeads);
  return shape;
}

/// Emits the kernels of a shape; the backward pass's too unless at a position.
void emitAll(DeviceHarness &harness, const std::string &name,
             const AttentionShape &shape) {
  gpu::GPUModuleOp module = harness.gpuModule();
  Location loc = module.getLoc();
  SmallVector<FailureOr<DeviceLaunch>> launches;
  launches.push_back(emitAttentionForward(module, loc, name + "_o", shape));
  if (!shape.hasPosition) {
    launches.push_back(emitAttentionDelta(module, loc, name + "_delta", shape));
    launches.push_back(emitAttentionGradQ(module, loc, name + "_dq", shape));
    launches.push_back(emitAttentionGradKV(module, loc, name + "_dkv", shape));
  }
  for (const FailureOr<DeviceLaunch> &launch : launches) {
    ASSERT_TRUE(succeeded(launch)) << name;
    EXPECT_LE(launch->sharedBytes, kMaxSharedBytes) << name;
    EXPECT_EQ(launch->grid[2], shape.batch) << name;
  }
}

constexpr DeviceCompute kComputes[] = {DeviceCompute::F32, DeviceCompute::TF32,
                                       DeviceCompute::BF16};
constexpr const char *kNames[] = {"f32", "tf32", "bf16"};

TEST(DeviceAttention, EmitsForEveryDepth) {
  for (int64_t depth : {1, 5, 8, 12, 16, 24, 33, 40, 64, 72, 80, 96, 127, 128})
    for (DeviceCompute compute : kComputes) {
      DeviceHarness harness;
      AttentionShape shape = makeShape(harness.context(), compute, depth);
      emitAll(harness, "causal", shape);
      shape.causal = false;
      shape.scale = -0.5;
      emitAll(harness, "full", shape);
      shape.hasPosition = true;
      emitAll(harness, "position", shape);
      EXPECT_TRUE(succeeded(verify(harness.gpuModule()))) << depth;
    }
}

TEST(DeviceAttention, RefusesWhatItCannot) {
  DeviceHarness harness;
  std::string message;
  ScopedDiagnosticHandler handler(&harness.context(),
                                  [&](Diagnostic &diagnostic) {
                                    message = diagnostic.str();
                                    return success();
                                  });
  auto refuse = [&](const AttentionShape &shape, StringRef expected) {
    message.clear();
    gpu::GPUModuleOp module = harness.gpuModule();
    EXPECT_TRUE(failed(
        emitAttentionForward(module, module.getLoc(), "refused", shape)));
    EXPECT_TRUE(StringRef(message).contains(expected)) << message;
    EXPECT_TRUE(module.getBody()->empty());
  };
  AttentionShape shape = makeShape(harness.context(), DeviceCompute::BF16, 136);
  refuse(shape, "heads of depth 136, expected 1 to 128");
  shape = makeShape(harness.context(), DeviceCompute::BF16, 64);
  shape.v[3] = 2;
  refuse(shape, "stride 2 along its last dim, expected 1");
  shape = makeShape(harness.context(), DeviceCompute::TF32, 64);
  shape.element = BFloat16Type::get(&harness.context());
  refuse(shape, "element type 'bf16', expected f32");
}

constexpr AttentionKernel kKernels[] = {
    AttentionKernel::Forward, AttentionKernel::GradQ, AttentionKernel::GradKV};

TEST(DeviceAttention, HopperHasItsOwnKernelsWhereTheyFit) {
  DeviceHarness harness;
  MLIRContext &context = harness.context();
  auto count = [&](const AttentionShape &shape) {
    return llvm::count_if(kKernels, [&](AttentionKernel kernel) {
      return getHopperTiles(kernel, shape).has_value();
    });
  };
  AttentionShape shape = makeShape(context, DeviceCompute::BF16, 64);
  // 130 queries: dk and dv copy lse and delta by 16 bytes.
  EXPECT_EQ(count(shape), 2);
  shape.queries = 132;
  EXPECT_EQ(count(shape), 3);
  EXPECT_EQ(count(makeShape(context, DeviceCompute::BF16, 128)), 2);
  EXPECT_EQ(count(makeShape(context, DeviceCompute::TF32, 64)), 3);
  EXPECT_EQ(count(makeShape(context, DeviceCompute::TF32, 128)), 1);
  EXPECT_EQ(count(makeShape(context, DeviceCompute::F32, 64)), 0);
  EXPECT_EQ(count(makeShape(context, DeviceCompute::BF16, 80)), 0);
  auto changed = [&](auto change) {
    AttentionShape other = shape;
    change(other);
    return count(other);
  };
  EXPECT_EQ(changed([](auto &s) { s.hasPosition = true; }), 0);
  EXPECT_EQ(changed([](auto &s) { s.alignment = 8; }), 0);
  EXPECT_EQ(changed([](auto &s) { s.scalarAlignment = 4; }), 0);
  EXPECT_EQ(changed([](auto &s) { s.queries = 63; }), 0);
  EXPECT_EQ(changed([](auto &s) { s.keys = 1; }), 0);
  EXPECT_EQ(changed([](auto &s) { s.k[1] = 260; }), 0);
  EXPECT_EQ(changed([](auto &s) { s.v[2] = 0; }), 0);
  EXPECT_EQ(changed([](auto &s) { s.o[1] = 260; }), 2);
  EXPECT_EQ(changed([](auto &s) { s.dK[1] = 260; }), 1);
  EXPECT_EQ(changed([](auto &s) { s.q[0] = int64_t(1) << 40; }), 0);
}

/// Emits the kernels for sm_90a; returns their number.
size_t emitForHopper(DeviceHarness &harness, const std::string &name,
                     const AttentionShape &shape) {
  gpu::GPUModuleOp module = harness.gpuModule();
  size_t count = 0;
  for (auto [kernel, suffix] :
       llvm::zip_equal(kKernels, ArrayRef<const char *>{"_o", "_dq", "_dkv"})) {
    std::optional<AttentionTiles> tiles = getHopperTiles(kernel, shape);
    if (!tiles)
      continue;
    FailureOr<DeviceLaunch> launch = emitAttentionOnHopper(
        kernel, module, module.getLoc(), name + suffix, shape, *tiles);
    EXPECT_TRUE(succeeded(launch)) << name;
    if (failed(launch))
      continue;
    EXPECT_LE(launch->sharedBytes, kMaxHopperSharedBytes) << name;
    EXPECT_EQ(launch->grid[2], shape.batch) << name;
    bool isBF16 = shape.element.isBF16();
    EXPECT_EQ(launch->maps.empty(), !isBF16) << name;
    for (const DeviceMap &map : launch->maps) {
      EXPECT_EQ(map.extents.size(), map.strides.size()) << name;
      EXPECT_EQ(map.extents.size(), map.box.size()) << name;
      EXPECT_EQ(map.swizzle, map.extents.size() == 4 ? 128 : 0) << name;
    }
    ++count;
  }
  return count;
}

/// Assembles `ptx` for `chip`: so many kernels, none of which spills.
void expectNoSpills(const std::string &ptx, StringRef chip, size_t kernels) {
  llvm::SmallString<128> cubin;
  ASSERT_FALSE(llvm::sys::fs::createTemporaryFile("attention", "cubin", cubin));
  std::vector<DeviceReport> reports = DeviceHarness::assemble(ptx, chip, cubin);
  EXPECT_EQ(reports.size(), kernels);
  for (const DeviceReport &report : reports) {
    EXPECT_EQ(report.spillBytes, 0) << report.kernel;
    EXPECT_EQ(report.stackBytes, 0) << report.kernel;
    EXPECT_GT(report.registers, 0) << report.kernel;
    EXPECT_EQ(report.warning, "") << report.kernel;
  }
  for (StringRef suffix : {"", ".ptx", ".log"})
    llvm::sys::fs::remove(cubin + suffix);
}

/// Emits depth 64 and, unless `brief`, depth 128, a position, and rows that
/// cannot be accessed 16 bytes at a time, and assembles for `chip`.
void assembleFor(StringRef chip, bool brief = false) {
  if (DeviceHarness::findAssembler().empty())
    GTEST_SKIP() << "no ptxas";
  for (auto [compute, name] : llvm::zip_equal(kComputes, kNames)) {
    std::string prefix(name);
    DeviceHarness harness;
    MLIRContext &context = harness.context();
    emitAll(harness, prefix + "_64", makeShape(context, compute, 64, 2, 2));
    if (!brief) {
      emitAll(harness, prefix + "_128", makeShape(context, compute, 128));
      AttentionShape shape = makeShape(context, compute, 40);
      shape.hasPosition = true;
      emitAll(harness, prefix + "_position", shape);
    }
    std::string ptx = harness.translate(chip);
    ASSERT_FALSE(ptx.empty());
    EXPECT_NE(ptx.find("st.global.v4"), std::string::npos);
    EXPECT_NE(ptx.find("ld.global.nc.v4"), std::string::npos);
    EXPECT_NE(ptx.find("ld.shared.v4"), std::string::npos);
    EXPECT_NE(ptx.find("cp.async.cg.shared.global"), std::string::npos);
    EXPECT_EQ(ptx.find(".local"), std::string::npos);
    EXPECT_EQ(ptx.find("mma.sync") != std::string::npos,
              compute != DeviceCompute::F32);
    expectNoSpills(ptx, chip, brief ? 4 : 9);
    if (brief)
      continue;

    DeviceHarness unaligned;
    AttentionShape shape = makeShape(unaligned.context(), compute, 40);
    shape.alignment = 4;
    emitAll(unaligned, prefix + "_unaligned", shape);
    ptx = unaligned.translate(chip);
    ASSERT_FALSE(ptx.empty());
    EXPECT_EQ(ptx.find("cp.async.cg"), std::string::npos);
    EXPECT_EQ(ptx.find("st.global.v"), std::string::npos);
    expectNoSpills(ptx, chip, 4);
  }
}

TEST(DeviceAttention, AssemblesForAmpere) { assembleFor("sm_80"); }
TEST(DeviceAttention, AssemblesForHopper) {
  assembleFor("sm_90a", /*brief=*/true);
}

TEST(DeviceAttention, AssemblesHopperKernels) {
  if (DeviceHarness::findAssembler().empty())
    GTEST_SKIP() << "no ptxas";
  for (DeviceCompute compute : {DeviceCompute::BF16, DeviceCompute::TF32}) {
    DeviceHarness harness;
    MLIRContext &context = harness.context();
    size_t count = 0;
    for (int64_t depth : {64, 128}) {
      AttentionShape shape = makeShape(context, compute, depth);
      shape.queries = 132;
      std::string name = "d" + std::to_string(depth);
      count += emitForHopper(harness, name + "_tails", shape);
      shape.queries = shape.keys = 1024;
      shape.keyHeads = shape.heads;
      count += emitForHopper(harness, name + "_causal", shape);
      shape.causal = false;
      shape.scale = -0.5;
      count += emitForHopper(harness, name + "_full", shape);
    }
    EXPECT_TRUE(succeeded(verify(harness.gpuModule())));
    std::string ptx = harness.translate("sm_90a");
    ASSERT_FALSE(ptx.empty());
    bool isBF16 = compute == DeviceCompute::BF16;
    EXPECT_NE(ptx.find(isBF16 ? "wgmma.mma_async.sync.aligned.m64n64k16.f32."
                                "bf16.bf16"
                              : "wgmma.mma_async.sync.aligned.m64n64k8.f32."
                                "tf32.tf32"),
              std::string::npos);
    EXPECT_EQ(ptx.find("cp.async.bulk.tensor.4d") != std::string::npos, isBF16);
    EXPECT_EQ(ptx.find("mma.sync"), std::string::npos);
    EXPECT_EQ(ptx.find(".local"), std::string::npos);
    expectNoSpills(ptx, "sm_90a", count);
  }
}

/// Shapes of depth `depth` whose gradients are one kernel, by name.
std::vector<std::pair<std::string, AttentionShape>>
makeMergedShapes(MLIRContext &context, int64_t depth) {
  AttentionShape shape = makeShape(context, DeviceCompute::F32, depth);
  shape.batch = 128;
  std::vector<std::pair<std::string, AttentionShape>> shapes;
  std::string prefix = "d" + std::to_string(depth);
  auto add = [&](const char *name) {
    shapes.push_back({prefix + name, shape});
  };
  add("_tails");
  shape.queries = shape.keys = 256;
  shape.keyHeads = shape.heads;
  if (depth <= 64)
    add("_diagonal");
  shape.causal = false;
  shape.keys = 200;
  add("_full");
  shape.alignment = 4;
  add("_unaligned");
  return shapes;
}

TEST(DeviceAttention, MergesGradientsOfManyHeads) {
  DeviceHarness harness;
  AttentionShape shape = makeShape(harness.context(), DeviceCompute::F32, 64);
  EXPECT_FALSE(hasMergedGradients(shape));
  shape.batch = 127;
  EXPECT_FALSE(hasMergedGradients(shape));
  shape.batch = 128;
  EXPECT_TRUE(hasMergedGradients(shape));
  auto kernel = AttentionKernel::GradQKV;
  EXPECT_TRUE(getHopperTiles(kernel, shape).has_value());
  shape.alignment = 4;
  EXPECT_FALSE(getHopperTiles(kernel, shape).has_value());
  shape = makeShape(harness.context(), DeviceCompute::TF32, 64);
  shape.batch = 128;
  EXPECT_FALSE(hasMergedGradients(shape));
}

/// Emits and assembles the merged gradients for `chip`.
void assembleMerged(StringRef chip) {
  if (DeviceHarness::findAssembler().empty())
    GTEST_SKIP() << "no ptxas";
  bool hopper = chip == "sm_90a";
  DeviceHarness harness;
  gpu::GPUModuleOp module = harness.gpuModule();
  Location loc = module.getLoc();
  size_t count = 0;
  for (int64_t depth : {16, 64, 128})
    for (const auto &[name, shape] :
         makeMergedShapes(harness.context(), depth)) {
      auto kernel = AttentionKernel::GradQKV;
      std::optional<AttentionTiles> tiles = getHopperTiles(kernel, shape);
      if (hopper && !tiles)
        continue;
      FailureOr<DeviceLaunch> launch =
          hopper
              ? emitAttentionOnHopper(kernel, module, loc, name, shape, *tiles)
              : emitAttentionGradQKV(module, loc, name, shape);
      ASSERT_TRUE(succeeded(launch)) << name;
      EXPECT_LE(launch->sharedBytes,
                hopper ? kMaxHopperSharedBytes : kMaxSharedBytes)
          << name;
      EXPECT_EQ(launch->grid[0], 1) << name;
      EXPECT_EQ(launch->grid[1], shape.keyHeads) << name;
      EXPECT_EQ(launch->grid[2], shape.batch) << name;
      ++count;
    }
  EXPECT_TRUE(succeeded(verify(module)));
  std::string ptx = harness.translate(chip);
  ASSERT_FALSE(ptx.empty());
  EXPECT_EQ(ptx.find(".local"), std::string::npos);
  EXPECT_EQ(ptx.find("\tatom."), std::string::npos);
  EXPECT_EQ(ptx.find("\tred."), std::string::npos);
  expectNoSpills(ptx, chip, count);
}

TEST(DeviceAttention, AssemblesMergedForAmpere) { assembleMerged("sm_80"); }
TEST(DeviceAttention, AssemblesMergedForHopper) { assembleMerged("sm_90a"); }

} // namespace
