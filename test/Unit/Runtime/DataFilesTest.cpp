//===- DataFilesTest.cpp - Images, HellaSwag ------------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "TestFiles.h"
#include "blurt/HellaSwag.h"
#include "blurt/Images.h"

#include <numeric>
#include <zlib.h>

using namespace blurt;
using namespace blurt::test;

namespace {
class DataFiles : public TestFolder {
protected:
  static std::string idx(const std::vector<uint32_t> &dims,
                         const std::string &elements, uint8_t type = 8) {
    std::string text = {0, 0, char(type), char(dims.size())};
    for (uint32_t dim : dims)
      for (int shift : {24, 16, 8, 0})
        text += char(dim >> shift);
    return text + elements;
  }

  static std::string gzip(const std::string &text) {
    z_stream stream = {};
    EXPECT_EQ(
        deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY),
        Z_OK);
    std::string out(text.size() + 100, '\0');
    std::string in = text;
    stream.next_in = reinterpret_cast<uint8_t *>(in.data());
    stream.avail_in = unsigned(in.size());
    stream.next_out = reinterpret_cast<uint8_t *>(out.data());
    stream.avail_out = unsigned(out.size());
    EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
    out.resize(out.size() - stream.avail_out);
    deflateEnd(&stream);
    return out;
  }

  IdxFile read(const std::string &bytes) {
    writeFile(path("f.idx"), bytes);
    return IdxFile(path("f.idx"));
  }

  ImageSet open(const std::string &images, const std::string &labels,
                uint64_t elements = 6, uint64_t classes = 3) {
    writeFile(path("x-images-idx3-ubyte"), images);
    writeFile(path("x-labels-idx1-ubyte"), labels);
    return {"--data", path("x-images-idx3-ubyte"), "--labels", "", elements,
            classes};
  }

  /// One example of single letters for tokens.
  static std::vector<uint16_t> example(uint16_t label,
                                       const std::vector<std::string> &texts) {
    std::vector<uint16_t> words = {65535, 0, 7, label, 4};
    for (const std::string &text : texts) {
      words.push_back(uint16_t(text.size()));
      words.insert(words.end(), text.begin(), text.end());
    }
    words[1] = uint16_t(2 * words.size());
    return words;
  }

  HellaSwagFile questions(const std::vector<uint16_t> &words,
                          uint32_t count = 1, int32_t magic = 20240522,
                          int32_t version = 1) {
    writeFile(path("h.bin"),
              shardHeader(magic, version, count, 99) +
                  std::string(reinterpret_cast<const char *>(words.data()),
                              2 * words.size()));
    return {path("h.bin"), 128};
  }
};
} // namespace

TEST_F(DataFiles, ReadsIdx) {
  std::string elements(12, '\0');
  std::iota(elements.begin(), elements.end(), '\0');
  const std::string plain = idx({2, 2, 3}, elements);
  for (const std::string &bytes :
       {plain, gzip(plain), gzip(plain.substr(0, 9)) + gzip(plain.substr(9))}) {
    IdxFile file = read(bytes);
    EXPECT_EQ(file.dims(), (std::vector<uint64_t>{2, 2, 3}));
    ASSERT_EQ(file.size(), 12u);
    for (unsigned i = 0; i < 12; ++i)
      EXPECT_EQ(file.data()[i], i);
  }
}

TEST_F(DataFiles, RefusesOtherIdx) {
  const std::string good = idx({3}, "abc");
  EXPECT_ERROR(IdxFile(path("none")), ExitBadInput, "none: cannot open");
  EXPECT_ERROR(read(""), ExitBadInput, "f.idx: ");
  EXPECT_ERROR(read("\1\0\0\0\0"), ExitBadInput, "expected an IDX file");
  EXPECT_ERROR(read(idx({3}, "abc", 13)), ExitBadInput,
               "expected elements of type 8 (bytes), got type 13");
  EXPECT_ERROR(read(idx({}, "a")), ExitBadInput, "expected 1 to 4 dims, got 0");
  EXPECT_ERROR(read(idx({1, 1, 1, 1, 1}, "a")), ExitBadInput, "got 5");
  EXPECT_ERROR(read(idx({3, 0}, "")), ExitBadInput,
               "dim 1: expected at least 1, got 0");
  const uint32_t most = UINT32_MAX;
  EXPECT_ERROR(read(idx({most, most, most, most}, "a")), ExitBadInput,
               "expected at most 2^40 elements");
  for (bool compressed : {false, true})
    for (size_t size = 4; size < good.size(); ++size) {
      std::string cut = good.substr(0, size);
      EXPECT_ERROR(read(compressed ? gzip(cut) : cut), ExitBadInput,
                   "the file is truncated");
    }
  // What a header promises is not allocated.
  EXPECT_ERROR(read(gzip(idx({1u << 20, 1u << 20}, "a"))), ExitBadInput,
               "the file is truncated");
  EXPECT_ERROR(read(good + "d"), ExitBadInput, "the file is too long");
  EXPECT_ERROR(read(gzip(good + "d")), ExitBadInput, "the file is too long");
  std::string packed = gzip(good);
  for (size_t size = 2; size < packed.size(); ++size)
    EXPECT_ERROR(read(packed.substr(0, size)), ExitBadInput, "f.idx: damaged");
  EXPECT_ERROR(read(packed + "tail"), ExitBadInput, "f.idx: damaged");
  packed[packed.size() - 6] ^= 1;
  EXPECT_ERROR(read(packed), ExitBadInput, "f.idx: damaged");
}

TEST_F(DataFiles, PairsImagesWithLabels) {
  const std::string images = idx({2, 2, 3}, "abcdefghijkl");
  ImageSet set = open(images, idx({2}, {2, 0}));
  EXPECT_EQ(set.size(), 2u);
  EXPECT_EQ(set.image(1)[0], 'g');
  EXPECT_EQ(set.label(0), 2);
  EXPECT_EQ(set.label(1), 0);
  std::string digest = set.digest();
  EXPECT_EQ(open(gzip(images), idx({2}, {2, 0})).digest(), digest);
  EXPECT_NE(open(images, idx({2}, {2, 1})).digest(), digest);
  EXPECT_NE(open(idx({2, 2, 3}, "abcdefghijkL"), idx({2}, {2, 0})).digest(),
            digest);
  EXPECT_ERROR(open(images, idx({3}, {0, 0, 0})), ExitBadInput,
               "expected 2 labels as there are images in ");
  EXPECT_ERROR(open(images, idx({2}, {1, 3})), ExitBadInput,
               "label 1: expected one below the model's 3 classes, got 3");
  EXPECT_ERROR(open(images, idx({2, 1}, {1, 2})), ExitBadInput,
               "expected labels, one dim, got 2 dims");
  EXPECT_ERROR(open(images, idx({2}, {0, 0}), 7), ExitBadInput,
               "expected images of 7 elements, got a file of 2 × 2 × 3");
  EXPECT_ERROR(open(idx({12}, "abcdefghijkl"), idx({12}, "abcdefghijkl"), 1),
               ExitBadInput, "expected images of 1 elements, got a file of 12");
  writeFile(path("other"), images);
  EXPECT_ERROR(ImageSet("--val", path("other"), "--val-labels", "", 6, 3),
               ExitBadInput,
               "--val-labels: expected the file of the labels, since --val ");
}

TEST_F(DataFiles, ReadsHellaSwag) {
  std::vector<uint16_t> words = example(2, {"ab", "c", "de", "fgh", "i"});
  std::vector<uint16_t> second = example(0, {"z", "y", "x", "w", "v"});
  words.insert(words.end(), second.begin(), second.end());
  HellaSwagFile file = questions(words, 2);
  ASSERT_EQ(file.size(), 2u);
  const HellaSwagFile::Example first = file.example(0);
  EXPECT_EQ(first.label, 2u);
  EXPECT_EQ(first.context.count, 2u);
  EXPECT_EQ(file.word(first.context.first + 1), 'b');
  EXPECT_EQ(first.endings[2].count, 3u);
  EXPECT_EQ(file.word(first.endings[2].first), 'f');
  EXPECT_EQ(file.word(file.example(1).endings[3].first), 'v');
}

TEST_F(DataFiles, RefusesOtherHellaSwag) {
  const std::vector<uint16_t> good = example(2, {"ab", "c", "de", "fgh", "i"});
  auto with = [&](size_t at, uint16_t value) {
    std::vector<uint16_t> words = good;
    words[at] = value;
    return words;
  };
  EXPECT_ERROR(questions(good, 1, 20240520), ExitBadInput,
               "expected a HellaSwag file with magic number 20240522, got "
               "20240520");
  EXPECT_ERROR(questions(good, 1, 20240522, 2), ExitBadInput,
               "expected HellaSwag file version 1, got 2");
  EXPECT_ERROR(questions({}, 0), ExitBadInput, "expected at least one example");
  EXPECT_ERROR(questions(good, 2), ExitBadInput,
               "example 1: the file is truncated");
  for (size_t size = 0; size < good.size(); ++size)
    EXPECT_ERROR(questions({good.begin(), good.begin() + std::ptrdiff_t(size)}),
                 ExitBadInput, "example 0: the file is truncated");
  EXPECT_ERROR(questions(with(0, 1)), ExitBadInput,
               "example 0: expected the start 65535, got 1");
  EXPECT_ERROR(questions(with(1, 3)), ExitBadInput,
               "expected a length in bytes of ");
  EXPECT_ERROR(questions(with(3, 4)), ExitBadInput,
               "expected a label below 4, got 4");
  EXPECT_ERROR(questions(with(4, 5)), ExitBadInput,
               "expected as many endings as 4, got 5");
  EXPECT_ERROR(questions(with(6, 128)), ExitBadInput,
               "expected an id below the vocabulary size 128, got 128");
  EXPECT_ERROR(questions(example(0, {"", "c", "d", "e", "f"})), ExitBadInput,
               "the context has no tokens");
  EXPECT_ERROR(questions(example(0, {"a", "c", "", "e", "f"})), ExitBadInput,
               "ending 1 has no tokens");
  std::vector<uint16_t> longer = good;
  longer.push_back(0);
  EXPECT_ERROR(questions(longer), ExitBadInput, "the file is too long");
  writeFile(path("s.bin"), "abc");
  EXPECT_ERROR(HellaSwagFile(path("s.bin"), 0), ExitBadInput, "got 3 bytes");
}
