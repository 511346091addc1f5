//===- ProgramTest.cpp - the program table as the runtime reads it --------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "KernelHarness.h"

#include "blurt/blurt.h"

#include "mlir/AsmParser/AsmParser.h"

#include "gtest/gtest.h"

#include <cstring>

using namespace mlir;
using namespace mlir::blurt;
using namespace mlir::blurt::test;

namespace {

constexpr const char *kProgram = R"({
  name = "mlp", target = "cpu", precision = "fp32", optimizer = "adamw",
  state_bytes = 4096 : i64, peak_bytes = 8192 : i64,
  metadata = {compiler = "test", vocab_size = 257 : i64},
  state = [
    {name = "w", role = "param", type = tensor<4x8xf32>, offset = 64 : i64,
     export = "fc.weight", transpose, decay, init = "normal",
     init_a = 0.5 : f64, init_b = 0.02 : f64},
    {name = "block.{i}.b", role = "moment2", type = tensor<8xf64>,
     offset = 128 : i64, stack_count = 3 : i64, stack_first = 1 : i64,
     stack_stride = 256 : i64}],
  entries = [
    {name = "train", symbol = "run", peak_bytes = 8192 : i64, batch = 4 : i64,
     seq = 16 : i64, microbatches = 2 : i64,
     tensors = [{name = "lr", role = "scalar", type = tensor<f64>,
                 offset = 4096 : i64},
                {name = "tokens", role = "input", type = tensor<2x4x16xi32>,
                 offset = 4160 : i64}]}]
})";

TEST(Program, TableHasTheLayoutOfTheHeader) {
  KernelHarness h;
  unsigned buffer = h.add({4}, h.f32());
  AffineMap map = AffineMap::getMultiDimIdentityMap(1, &h.context());
  GroupOp::create(h.builder(), StringRef("one"), ArrayRef<int64_t>{4},
                  ArrayRef<int64_t>(), ValueRange(), ArrayRef<AffineMap>(),
                  ValueRange(), ValueRange{h.value(buffer)}, TypeRange(),
                  ArrayRef<AffineMap>(map),
                  [](OpBuilder &b, Location loc, ValueRange) {
                    return SmallVector<Value>{arith::ConstantOp::create(
                        b, loc, b.getF32FloatAttr(1))};
                  });
  h.setProgram(cast<DictionaryAttr>(parseAttribute(kProgram, &h.context())));
  ASSERT_TRUE(h.compile());
  auto *program =
      static_cast<const blurt_program *>(h.lookup("blurt_program_main"));
  ASSERT_NE(program, nullptr);
  EXPECT_EQ(program->abi_version, BLURT_ABI_VERSION);
  EXPECT_STREQ(program->name, "mlp");
  EXPECT_STREQ(program->target, "cpu");
  EXPECT_STREQ(program->precision, "fp32");
  EXPECT_STREQ(program->optimizer, "adamw");
  EXPECT_EQ(std::strlen(program->plan_hash), 64u);
  EXPECT_EQ(program->state_bytes, 4096u);
  EXPECT_EQ(program->peak_bytes, 8192u);
  ASSERT_EQ(program->num_metadata, 2);
  EXPECT_STREQ(program->metadata[0].key, "compiler");
  EXPECT_STREQ(program->metadata[0].value, "test");
  EXPECT_STREQ(program->metadata[1].value, "257");

  ASSERT_EQ(program->num_state, 2);
  const blurt_tensor &w = program->state[0];
  EXPECT_STREQ(w.name, "w");
  EXPECT_STREQ(w.export_name, "fc.weight");
  EXPECT_EQ(w.role, BLURT_PARAM);
  EXPECT_EQ(w.dtype, BLURT_F32);
  ASSERT_EQ(w.rank, 2);
  EXPECT_EQ(w.shape[0], 4);
  EXPECT_EQ(w.shape[1], 8);
  EXPECT_EQ(w.export_transpose, 1);
  EXPECT_EQ(w.offset, 64u);
  EXPECT_EQ(w.stack_count, 0);
  EXPECT_EQ(w.init_kind, BLURT_INIT_NORMAL);
  EXPECT_EQ(w.decay, 1);
  EXPECT_EQ(w.init_a, 0.5);
  EXPECT_EQ(w.init_b, 0.02);
  const blurt_tensor &m = program->state[1];
  EXPECT_STREQ(m.export_name, "block.{i}.b");
  EXPECT_EQ(m.role, BLURT_MOMENT2);
  EXPECT_EQ(m.dtype, BLURT_F64);
  EXPECT_EQ(m.stack_count, 3);
  EXPECT_EQ(m.stack_first, 1);
  EXPECT_EQ(m.stack_stride, 256u);
  EXPECT_EQ(m.decay, 0);

  ASSERT_EQ(program->num_entries, 1);
  const blurt_entry &train = program->entries[0];
  EXPECT_STREQ(train.name, "train");
  EXPECT_EQ(train.batch, 4);
  EXPECT_EQ(train.seq, 16);
  EXPECT_EQ(train.microbatches, 2);
  ASSERT_EQ(train.num_tensors, 2);
  EXPECT_EQ(train.tensors[0].rank, 0);
  EXPECT_EQ(train.tensors[0].role, BLURT_SCALAR);
  EXPECT_EQ(train.tensors[1].rank, 3);
  EXPECT_EQ(train.tensors[1].shape[2], 16);
  // The entry's function is not public, but the table reaches it.
  EXPECT_EQ(h.lookup("run"), nullptr);
  h.runEntry(train.run);
  EXPECT_EQ(h.get(buffer, {3}), 1.0);
}

} // namespace
