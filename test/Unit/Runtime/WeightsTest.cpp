//===- WeightsTest.cpp ----------------------------------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blurt/Weights.h"
#include "TestFiles.h"
#include "blurt/Convert.h"
#include "blurt/Random.h"

#include <cstring>

using namespace blurt;
using namespace blurt::test;

namespace {

/// A program of parameters only: `wte` [4, 3], tied; `block.{i}.w` [2, 3], two
/// of them, exported transposed; a bf16 vector; an f64 scalar.
class Weights : public TestFolder {
protected:
  Weights() {
    auto add = [&](const char *name, const char *exported, int32_t dtype,
                   int32_t rank, const int64_t *shape, uint64_t offset,
                   int32_t init, double a, double b) {
      state.push_back({name, exported, BLURT_PARAM, dtype, rank, 0, shape,
                       offset, 0, 0, 0, init, 0, a, b, 0, 0, nullptr});
    };
    add("wte", "wte.weight", BLURT_F32, 2, wide, 0, BLURT_INIT_NORMAL, 1, 0.5);
    add("block.{i}.w", "h.{i}.c.weight", BLURT_F32, 2, small, 64,
        BLURT_INIT_UNIFORM, -1, 1);
    state.back().export_transpose = 1;
    state.back().stack_count = 2;
    state.back().stack_first = 0;
    state.back().stack_stride = 64;
    add("v", "v", BLURT_BF16, 1, vector, 192, BLURT_INIT_CONSTANT, 0.3, 0);
    add("s", "s", BLURT_F64, 0, nullptr, 256, BLURT_INIT_ONES, 0, 0);
    program.abi_version = BLURT_ABI_VERSION;
    program.name = "test";
    program.state = state.data();
    program.num_state = int32_t(state.size());
    program.state_bytes = program.peak_bytes = 320;
  }

  template <typename T> T get(uint64_t offset, size_t i) const {
    T value;
    std::memcpy(&value, arena.data() + offset + i * sizeof(T), sizeof(T));
    return value;
  }

  template <typename T>
  static SafetensorsOutput
  tensor(const std::string &name, const std::string &dtype,
         std::vector<int64_t> shape, std::vector<T> values) {
    return {name, dtype, std::move(shape), [values](AtomicFile &f) {
              f.write(values.data(), values.size() * sizeof(T));
            }};
  }

  /// A file that fits the program, in F32 throughout.
  std::vector<SafetensorsOutput> good() const {
    std::vector<float> w(12), h0{1, 2, 3, 4, 5, 6}, h1{7, 8, 9, 10, 11, 12};
    for (size_t i = 0; i < 12; ++i)
      w[i] = float(i) / 4;
    return {tensor<float>("wte.weight", "F32", {4, 3}, w),
            tensor<float>("h.0.c.weight", "F32", {3, 2}, h0),
            tensor<float>("h.1.c.weight", "F32", {3, 2}, h1),
            tensor<float>("v", "F32", {5}, {1, 2, 3, 4, 1.00390625f}),
            tensor<float>("s", "F32", {}, {0.1f})};
  }

  void load(const std::vector<SafetensorsOutput> &outputs) {
    writeSafetensors(path("w"), outputs, {});
    loadParameters(path("w"), program, arena.data(), pool);
  }

  const int64_t wide[2] = {4, 3}, small[2] = {2, 3}, vector[1] = {5};
  std::vector<blurt_tensor> state;
  blurt_program program{};
  std::vector<std::byte> arena = std::vector<std::byte>(320);
  ThreadPool pool{2};
};

} // namespace

TEST_F(Weights, LoadsConvertsAndTransposes) {
  load(good());
  EXPECT_EQ(get<float>(0, 5), 1.25f);
  // Stored (in, out) = (3, 2), held (2, 3).
  const float block0[] = {1, 3, 5, 2, 4, 6};
  for (size_t i = 0; i < 6; ++i)
    EXPECT_EQ(get<float>(64, i), block0[i]);
  EXPECT_EQ(get<float>(128, 1), 9.0f);
  EXPECT_EQ(get<uint16_t>(192, 2), toBf16(3.0f));
  // 1 + 2^-8 is a tie.
  EXPECT_EQ(get<uint16_t>(192, 4), toBf16(1.0f));
  EXPECT_EQ(get<double>(256, 0), double(0.1f));
}

TEST_F(Weights, LoadsEveryFloatingDtype) {
  auto outputs = good();
  outputs[0] =
      tensor<double>("wte.weight", "F64", {4, 3}, std::vector<double>(12, 0.1));
  outputs[1] = tensor<uint16_t>("h.0.c.weight", "F16", {3, 2},
                                {0x3C00, 0xC000, 0, 0, 0, 0x0001});
  outputs[2] = tensor<uint16_t>("h.1.c.weight", "BF16", {3, 2},
                                {0x3F80, 0xC000, 0, 0, 0, 0});
  load(outputs);
  EXPECT_EQ(get<float>(0, 11), 0.1f);
  EXPECT_EQ(get<float>(64, 0), 1.0f);
  EXPECT_EQ(get<float>(64, 3), -2.0f);
  EXPECT_EQ(get<float>(64, 5), 0x1p-24f);
  EXPECT_EQ(get<float>(128, 3), -2.0f);
}

TEST_F(Weights, AcceptsHuggingFaceHabits) {
  auto outputs = good();
  auto head = outputs[0];
  head.name = "lm_head.weight";
  for (auto &output : outputs)
    output.name = "transformer." + output.name;
  outputs.push_back(head);
  outputs.push_back(
      tensor<float>("transformer.h.0.attn.bias", "F32", {1}, {1}));
  outputs.push_back(tensor<float>("h.0.attn.masked_bias", "F32", {}, {1}));
  load(outputs);
  EXPECT_EQ(get<float>(0, 5), 1.25f);
}

TEST_F(Weights, RefusesWhatDoesNotFit) {
  auto with = [&](auto &&change) {
    auto outputs = good();
    change(outputs);
    return outputs;
  };
  auto add = [](const char *name) {
    return
        [name](auto &o) { o.push_back(tensor<float>(name, "F32", {1}, {1})); };
  };
  EXPECT_ERROR(load(with([](auto &o) { o.erase(o.begin() + 2); })),
               ExitBadInput, "missing tensor 'h.1.c.weight'");
  EXPECT_ERROR(load({}), ExitBadInput,
               "missing tensors 'wte.weight', 'h.0.c.weight', 'h.1.c.weight', "
               "'v' and 1 more");
  EXPECT_ERROR(load(with(add("extra"))), ExitBadInput,
               "unexpected tensor 'extra' of type F32[1]");
  EXPECT_ERROR(load(with(add("transformer.v"))), ExitBadInput,
               "'v' appears with and without the prefix");
  EXPECT_ERROR(load(with(add("lm_head.weight"))), ExitBadInput,
               "'lm_head.weight': expected it to equal 'wte.weight'");
  EXPECT_ERROR(load(with([](auto &o) {
                 o[1] = tensor<float>("h.0.c.weight", "F32", {2, 3},
                                      std::vector<float>(6));
               })),
               ExitBadInput,
               "'h.0.c.weight': expected shape [3, 2], got [2, 3]");
  EXPECT_ERROR(
      load(with([](auto &o) { o[4] = tensor<int32_t>("s", "I32", {}, {1}); })),
      ExitBadInput, "'s': expected dtype F32, F64, BF16 or F16, got I32");
}

TEST_F(Weights, SavesWhatItLoads) {
  load(good());
  std::vector<std::byte> before = arena;
  auto parameters = instances(stateOf(program), BLURT_PARAM);
  saveTensors(path("saved"), parameters, arena.data(), {{"format", "pt"}});
  SafetensorsFile saved(path("saved"));
  EXPECT_EQ(typeString(*saved.find("h.1.c.weight")), "F32[3, 2]");
  EXPECT_EQ(typeString(*saved.find("v")), "BF16[5]");
  EXPECT_EQ(typeString(*saved.find("s")), "F64[]");
  float second;
  std::memcpy(&second, saved.data(*saved.find("h.0.c.weight")) + 4, 4);
  EXPECT_EQ(second, 2.0f);
  EXPECT_GE(savedBytes(parameters), std::filesystem::file_size(path("saved")));
  std::fill(arena.begin(), arena.end(), std::byte(0));
  loadParameters(path("saved"), program, arena.data(), pool);
  EXPECT_EQ(arena, before);
}

TEST_F(Weights, InitialisesByNameAndIndex) {
  initialiseParameters(program, 5, arena.data(), pool);
  RandomStream wte(5, "wte"), block1(5, "block.1.w");
  for (size_t i = 0; i < 12; ++i)
    EXPECT_EQ(get<float>(0, i), float(1 + 0.5 * wte.normal(i)));
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(get<float>(128, i), float(2 * block1.uniform(i) - 1));
    EXPECT_NE(get<float>(64, i), get<float>(128, i));
  }
  EXPECT_EQ(get<uint16_t>(192, 4), toBf16(0.3f));
  EXPECT_EQ(get<double>(256, 0), 1.0);
  std::vector<std::byte> first = arena;
  ThreadPool other(1);
  initialiseParameters(program, 5, arena.data(), other);
  EXPECT_EQ(arena, first);
  initialiseParameters(program, 6, arena.data(), other);
  EXPECT_NE(arena, first);
}

TEST_F(Weights, VerifyProgramNamesWhatIsWrong) {
  auto broken = [&](auto &&change, const char *part) {
    std::vector<blurt_tensor> tensors = state;
    blurt_program copy = program;
    copy.state = tensors.data();
    change(copy, tensors);
    EXPECT_ERROR(verifyProgram(copy), ExitFailure, part);
  };
  verifyProgram(program);
  const int64_t version = BLURT_ABI_VERSION;
  const std::string message = "expected ABI version " +
                              std::to_string(version) + ", got " +
                              std::to_string(version + 1);
  broken([](auto &p, auto &) { ++p.abi_version; }, message.c_str());
  broken([](auto &p, auto &) { p.peak_bytes = 100; }, "exceeds the arena");
  broken([](auto &, auto &t) { t[0].offset = 8; },
         "tensor 'wte': expected 64-byte alignment, got offset 8");
  broken([](auto &, auto &t) { t[3].offset = 320; },
         "tensor 's': ends at byte 328 of an area of 320 bytes");
  broken([](auto &, auto &t) { t[1].stack_count = 5; },
         "'block.{i}.w': ends at");
  broken([](auto &, auto &t) { t[1].stack_stride = 0; }, "bad stack of 2");
  broken([](auto &, auto &t) { t[2].dtype = 99; }, "unknown dtype 99");
  broken([](auto &, auto &t) { t[2].role = 8; }, "unknown role 8");
  broken([](auto &, auto &t) { t[2].name = "s"; }, "'s': defined twice");
  broken([](auto &, auto &t) { t[2].export_transpose = 1; },
         "expected rank 2 for a transposed export, got bf16[5]");
}
