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
// hole, no overlap, no byte left over. It decodes an entry when asked for it.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_SAFETENSORS_H
#define BLURT_SAFETENSORS_H

#include "blurt/File.h"
#include "blurt/Json.h"

#include <functional>
#include <optional>
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
  /// Tensors in the file.
  size_t size() const { return tensorCount; }
  std::optional<SafetensorsEntry> find(std::string_view name) const;
  /// Calls `use(name, entry)` for each tensor, by name.
  template <typename Fn> void forEach(Fn &&use) const {
    for (size_t i = 0; i < table.size(); ++i) {
      std::string name = table.key(i).str();
      if (std::optional<SafetensorsEntry> entry = find(name))
        use(name, *entry);
    }
  }
  std::optional<std::string> metadata(std::string_view key) const;
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
  void readHeader(std::string_view header, uint64_t bufferBytes);

  MappedFile file;
  const std::byte *tensors = nullptr;
  JsonTable table; ///< the header, which stays where it is
  size_t tensorCount = 0;
};

/// "F32[4, 8]".
std::string typeString(const SafetensorsEntry &entry);
/// Bytes an element, 0 for an unknown dtype.
uint64_t safetensorsDtypeSize(std::string_view dtype);

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
