//===- Safetensors.h - Weight files -----------------------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// A safetensors file is a little-endian u64 header length, a JSON header of
// tensor names, dtypes, shapes and byte ranges, and the tensors, row-major and
// little-endian. The reader maps the file and accepts nothing but the format:
// a header of at most 100,000,000 bytes that starts with `{`, no name twice, no
// hole, no overlap, no byte left over.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_SAFETENSORS_H
#define BLURT_SAFETENSORS_H

#include "blurt/File.h"

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace blurt {

struct SafetensorsEntry {
  std::string dtype; ///< as spelled in the file: F32, BF16, …
  std::vector<int64_t> shape;
  uint64_t begin, end; ///< bytes from the start of the tensor area
};

class SafetensorsFile {
public:
  /// Throws Error (bad input), naming the file and what is wrong with it.
  explicit SafetensorsFile(const std::string &path);

  const std::string &path() const { return file.path(); }
  /// By name, sorted.
  const std::map<std::string, SafetensorsEntry> &entries() const {
    return table;
  }
  const std::map<std::string, std::string> &metadata() const { return notes; }
  /// All before the tensors.
  std::string_view header() const {
    return {reinterpret_cast<const char *>(file.data()),
            size_t(tensors - file.data())};
  }
  /// Not aligned to anything.
  const std::byte *data(const SafetensorsEntry &entry) const {
    return tensors + entry.begin;
  }

private:
  void parseHeader(const char *begin, const char *end, uint64_t bufferBytes);

  MappedFile file;
  const std::byte *tensors = nullptr;
  std::map<std::string, SafetensorsEntry> table;
  std::map<std::string, std::string> notes;
};

/// "F32[4, 8]".
std::string typeString(const SafetensorsEntry &entry);
/// Bytes an element, 0 for an unknown dtype.
uint64_t safetensorsDtypeSize(const std::string &dtype);

/// One tensor to write: `produce` hands exactly the bytes of dtype and shape to
/// the file.
struct SafetensorsOutput {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::function<void(AtomicFile &)> produce;
};

using SafetensorsMetadata = std::vector<std::pair<std::string, std::string>>;

/// Writes `outputs` in the given order; the file appears complete or not at
/// all. Throws Error (run-time failure) if it cannot be written.
void writeSafetensors(const std::string &path,
                      const std::vector<SafetensorsOutput> &outputs,
                      const SafetensorsMetadata &metadata);

} // namespace blurt

#endif // BLURT_SAFETENSORS_H
