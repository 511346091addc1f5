//===- Images.cpp - Labelled images from IDX files ------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blurt/Images.h"
#include "blurt/Error.h"
#include "blurt/Hash.h"

#include <algorithm>
#include <limits>
#include <zlib.h>

using namespace blurt;

static constexpr unsigned kByteType = 8, kMostDims = 4;

/// Bytes of the header, known after its first four.
static uint64_t headerBytes(const uint8_t *from) {
  return 4 + 4 * uint64_t(from[3]);
}

static void checkStart(const std::string &path, const uint8_t *from,
                       uint64_t size) {
  if (size < 4 || from[0] != 0 || from[1] != 0)
    throw badInput(path + ": expected an IDX file, which begins with two zero "
                          "bytes");
  if (from[2] != kByteType)
    throw badInput(path + ": expected elements of type 8 (bytes), got type " +
                   std::to_string(from[2]));
  if (from[3] < 1 || from[3] > kMostDims)
    throw badInput(path + ": expected 1 to 4 dims, got " +
                   std::to_string(from[3]));
}

/// Reads the dims of a whole header and returns the product of them.
static uint64_t readDims(const std::string &path, const uint8_t *from,
                         std::vector<uint64_t> &dims) {
  uint64_t count = 1;
  for (unsigned i = 0; i < from[3]; ++i) {
    const uint8_t *at = from + 4 + 4 * i;
    uint64_t dim = uint64_t(at[0]) << 24 | uint64_t(at[1]) << 16 |
                   uint64_t(at[2]) << 8 | at[3];
    if (dim == 0)
      throw badInput(path + ": dim " + std::to_string(i) +
                     ": expected at least 1, got 0");
    if (count > (uint64_t(1) << 40) / dim)
      throw badInput(path + ": expected at most 2^40 elements, got dims with "
                            "more");
    count *= dim;
    dims.push_back(dim);
  }
  return count;
}

static void checkSize(const std::string &path, uint64_t expected,
                      uint64_t size) {
  if (size != expected)
    throw badInput(path + ": expected " + std::to_string(expected) +
                   " bytes for the dims of the header, got " +
                   (size < expected ? std::to_string(size) : "more") +
                   ": the file is " +
                   (size < expected ? "truncated" : "too long"));
}

namespace {
/// A gzip file that is decompressed piece by piece.
class Inflater {
public:
  explicit Inflater(const MappedFile &file) : file(file) {
    // 32: a header of gzip or zlib.
    if (inflateInit2(&stream, 15 + 32) != Z_OK)
      throw failure(file.path() + ": cannot start zlib");
  }
  ~Inflater() { inflateEnd(&stream); }
  Inflater(const Inflater &) = delete;
  Inflater &operator=(const Inflater &) = delete;

  /// Writes at most `bytes` bytes to `out`, or nowhere if that is null, and
  /// returns how many; fewer only where the data ends.
  uint64_t read(uint8_t *out, uint64_t bytes) {
    uint8_t scratch[1 << 14];
    uint64_t done = 0;
    while (done < bytes && !ended) {
      uint64_t most = out ? uint64_t(1) << 30 : sizeof(scratch);
      auto some = unsigned(std::min(bytes - done, most));
      stream.next_out = out ? out + done : scratch;
      stream.avail_out = some;
      step();
      done += some - stream.avail_out;
    }
    return done;
  }

private:
  void step() {
    while (stream.avail_out > 0) {
      if (stream.avail_in == 0) {
        uint64_t some =
            std::min<uint64_t>(file.size() - taken, uint64_t(1) << 30);
        // zlib does not write to what it reads.
        stream.next_in = const_cast<uint8_t *>(
            reinterpret_cast<const uint8_t *>(file.data()) + taken);
        stream.avail_in = unsigned(some);
        taken += some;
      }
      int result = inflate(&stream, Z_NO_FLUSH);
      if (result == Z_STREAM_END) {
        // Parts that were compressed one by one follow each other.
        if (stream.avail_in == 0 && taken == file.size()) {
          ended = true;
          return;
        }
        inflateReset(&stream);
      } else if (result == Z_BUF_ERROR) {
        throw badInput(file.path() + ": damaged: the compressed data ends "
                                     "before its end");
      } else if (result != Z_OK) {
        throw badInput(file.path() + ": damaged: " +
                       (stream.msg ? stream.msg : "cannot decompress"));
      }
    }
  }

  const MappedFile &file;
  z_stream stream = {};
  uint64_t taken = 0;
  bool ended = false;
};
} // namespace

IdxFile::IdxFile(const std::string &path) : name(path) {
  file.emplace(path);
  auto *bytes = reinterpret_cast<const uint8_t *>(file->data());
  if (file->size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b) {
    readCompressed();
    return;
  }
  checkStart(name, bytes, file->size());
  uint64_t header = headerBytes(bytes);
  if (file->size() < header)
    checkSize(name, header, file->size());
  count = readDims(name, bytes, shape);
  checkSize(name, header + count, file->size());
  elements = bytes + header;
}

void IdxFile::readCompressed() {
  uint8_t start[4 + 4 * kMostDims] = {};
  uint64_t header = 0;
  auto readHeader = [&](Inflater &inflater) {
    checkStart(name, start, inflater.read(start, 4));
    header = headerBytes(start);
    if (uint64_t got = 4 + inflater.read(start + 4, header - 4); got < header)
      checkSize(name, header, got);
  };
  // Once to find out that what the header promises is there, so that memory
  // for it is asked for.
  {
    Inflater inflater(*file);
    readHeader(inflater);
    count = readDims(name, start, shape);
    uint64_t got = inflater.read(nullptr, count + 1);
    checkSize(name, header + count, header + got);
  }
  inflated.resize(count);
  Inflater inflater(*file);
  readHeader(inflater);
  inflater.read(inflated.data(), count);
  elements = inflated.data();
  file.reset();
}

static std::string labelsOf(const std::string &flag, const std::string &images,
                            const std::string &labelsFlag,
                            const std::string &labels) {
  if (!labels.empty())
    return labels;
  const std::string part = "images-idx3";
  size_t at = images.rfind(part);
  if (at == std::string::npos)
    throw badInput(labelsFlag + ": expected the file of the labels, since " +
                   flag + " " + images + " has no '" + part +
                   "' in its name from which to tell it");
  return std::string(images).replace(at, part.size(), "labels-idx1");
}

ImageSet::ImageSet(const std::string &flag, const std::string &imagesPath,
                   const std::string &labelsFlag, const std::string &labelsPath,
                   uint64_t elements, uint64_t classes)
    : elements(elements), images(imagesPath),
      labels(labelsOf(flag, imagesPath, labelsFlag, labelsPath)) {
  std::string shape;
  for (uint64_t dim : images.dims())
    shape += (shape.empty() ? "" : " × ") + std::to_string(dim);
  if (images.dims().size() < 2 || images.size() != size() * elements)
    throw badInput(images.path() + ": expected images of " +
                   std::to_string(elements) + " elements, got a file of " +
                   shape);
  if (labels.dims().size() != 1)
    throw badInput(labels.path() + ": expected labels, one dim, got " +
                   std::to_string(labels.dims().size()) + " dims");
  if (labels.size() != size())
    throw badInput(labels.path() + ": expected " + std::to_string(size()) +
                   " labels as there are images in " + images.path() +
                   ", got " + std::to_string(labels.size()));
  for (uint64_t i = 0; i < labels.size(); ++i)
    if (labels.data()[i] >= classes)
      throw badInput(labels.path() + ": label " + std::to_string(i) +
                     ": expected one below the model's " +
                     std::to_string(classes) + " classes, got " +
                     std::to_string(labels.data()[i]));
}

std::string ImageSet::digest() const {
  uint64_t hash = xxh64(labels.data(), labels.size());
  return hexString(xxh64(images.data(), images.size(), hash));
}
