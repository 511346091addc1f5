//===- TuneFileTest.cpp ---------------------------------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "../../../runtime/lib/Cuda/TuneFile.h"
#include "TestFiles.h"

#include <nlohmann/json.hpp>

using namespace blurt;
using nlohmann::ordered_json;

namespace {

blurt_device_gemm product(int64_t m) {
  blurt_device_gemm g = {};
  g.source = "mm";
  g.batch = 1;
  g.m = m, g.n = 3, g.k = 4;
  g.dtype_ab = g.dtype_c = BLURT_BF16;
  g.epilogue = BLURT_EPILOGUE_BIAS;
  return g;
}

/// A file with products of 2, 3, ... rows.
ordered_json fileOf(int products) {
  ordered_json file = {{"device", "Fake"}, {"cublaslt", "1.2.3"}};
  file["problems"] = ordered_json::array();
  for (int i = 0; i < products; ++i) {
    cuda::Algorithm algorithm = {};
    algorithm.words[0] = 100 + uint64_t(i);
    algorithm.words[7] = UINT64_MAX;
    file["problems"].push_back({{"problem", productKey(product(2 + i))},
                                {"algorithm", algorithmText(algorithm)},
                                {"us", 1.5}});
  }
  return file;
}

void expectBad(const ordered_json &file, const std::string &part) {
  const std::string text = file.dump(1);
  EXPECT_ERROR(TuneFile("t.json", text), ExitBadInput, "t.json: " + part);
}

} // namespace

TEST(TuneFile, FindsProducts) {
  const std::string text = fileOf(2).dump(1) + "\n";
  TuneFile file("t.json", text);
  EXPECT_EQ(file.device(), "Fake");
  EXPECT_EQ(file.library(), "1.2.3");
  ASSERT_TRUE(file.find(product(3)));
  EXPECT_EQ(file.find(product(3))->words[0], 101u);
  EXPECT_EQ(file.find(product(3))->words[7], UINT64_MAX);
  EXPECT_FALSE(file.find(product(4)));
  blurt_device_gemm other = product(3);
  other.trans_a = 1;
  EXPECT_FALSE(file.find(other));
  // One member more, or less, is another problem.
  ordered_json changed = fileOf(1);
  changed["problems"][0]["problem"]["split"] = 2;
  const std::string more = changed.dump();
  EXPECT_FALSE(TuneFile("t.json", more).find(product(2)));
  changed["problems"][0]["problem"].erase("split");
  changed["problems"][0]["problem"].erase("lda");
  const std::string less = changed.dump();
  EXPECT_FALSE(TuneFile("t.json", less).find(product(2)));
}

TEST(TuneFile, KnowsProductsOfOtherPlans) {
  // Operands that begin at multiples of 16 bytes, of which only that counts.
  auto at = [](int32_t alignment) {
    blurt_device_gemm g = product(2);
    g.align_a = g.align_b = g.align_c = alignment;
    return g;
  };
  ordered_json file = fileOf(1);
  file["problems"][0]["problem"] = productKey(at(256));
  const std::string text = file.dump();
  TuneFile read("t.json", text);
  EXPECT_TRUE(read.find(at(16)));
  EXPECT_TRUE(read.find(at(64)));
  EXPECT_FALSE(read.find(at(8)));
}

TEST(TuneFile, RefusesOtherFiles) {
  for (const ordered_json &file :
       {ordered_json(1), ordered_json::array(), ordered_json::object(),
        ordered_json({{"problems", 1}})})
    expectBad(file, "expected a file that the command tune wrote");
  EXPECT_ERROR(TuneFile("t.json", "{\"problems\": ["), ExitBadInput,
               "t.json: is not JSON");
  auto with = [](const char *key, ordered_json value) {
    ordered_json file = fileOf(2);
    file["problems"][1][key] = std::move(value);
    return file;
  };
  for (const char *text : {"", "12", "g"})
    expectBad(with("algorithm", text), "problem 1: expected an algorithm of "
                                       "128 hexadecimal digits");
  expectBad(with("algorithm", std::string(128, 'x')),
            "problem 1: expected an ");
  expectBad(with("algorithm", 7), "problem 1: expected an algorithm of ");
  expectBad(with("problem", 7), "problem 1: expected an object, got 7");
  ordered_json file = fileOf(1);
  file["problems"][0].erase("algorithm");
  expectBad(file, "problem 0: expected an algorithm of ");
  file = fileOf(1);
  file["problems"][0] = "x";
  expectBad(file, "problem 0: expected an object, got \"x\"");
  file = fileOf(0);
  file["device"] = 4;
  file.erase("cublaslt");
  const std::string text = file.dump();
  EXPECT_EQ(TuneFile("t.json", text).device(), "4");
  EXPECT_EQ(TuneFile("t.json", text).library(), "nothing");
}
