//===- File.h - Mapped inputs and all-or-nothing outputs --------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_FILE_H
#define BLURT_FILE_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace blurt {

/// A whole file mapped for reading. Owns the mapping; the bytes stay valid as
/// long as the object. Throws Error (bad input) if the file cannot be read.
class MappedFile {
public:
  explicit MappedFile(const std::string &path);
  ~MappedFile();
  MappedFile(MappedFile &&other) noexcept;
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;
  MappedFile &operator=(MappedFile &&) = delete;

  const std::string &path() const { return name; }
  const std::byte *data() const { return bytes; }
  uint64_t size() const { return length; }
  std::string_view text() const {
    return {reinterpret_cast<const char *>(bytes), size_t(length)};
  }

  /// Asks the system to read bytes [begin, begin + count) ahead of their use.
  void prefetch(uint64_t begin, uint64_t count) const;

private:
  std::string name;
  const std::byte *bytes = nullptr;
  uint64_t length = 0;
};

/// A file that appears under its name complete or not at all: written to a
/// temporary beside the target, synced, then renamed over it. Destroying the
/// object before `commit` removes the temporary. A symbolic link is followed;
/// what exists and is no regular file is refused. Throws Error (run-time
/// failure) when a write fails, naming the target.
class AtomicFile {
public:
  explicit AtomicFile(const std::string &path);
  ~AtomicFile();
  AtomicFile(const AtomicFile &) = delete;
  AtomicFile &operator=(const AtomicFile &) = delete;

  void write(const void *data, size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  /// Returns when what was written is on the disk: others that wait for this
  /// rank then do not wait for all of it at the end.
  void sync();
  void commit();

private:
  [[noreturn]] void fail(const std::string &what);

  std::string target, temporary;
  int descriptor = -1;
};

/// Appends whole lines, each handed to the system before `append` returns.
class LineFile {
public:
  /// Creates the file or, unless `keep`, empties it.
  LineFile(const std::string &path, bool keep);
  ~LineFile();
  LineFile(const LineFile &) = delete;
  LineFile &operator=(const LineFile &) = delete;

  /// Writes `line` and a newline.
  void append(std::string_view line);
  /// Returns when all lines are on the disk.
  void sync();

private:
  std::string name;
  int descriptor = -1;
};

/// Throws Error (bad input) unless a file of `bytes` bytes can be put at `path`
/// now: the folder exists and is writable, the target is no folder, and the
/// file system has the room. Pipes and terminals pass if `device`. `flag` is
/// the option at fault.
void checkWritable(const std::string &flag, const std::string &path,
                   uint64_t bytes, bool device = false);

/// "1.50 GiB", "12.0 KiB", "17 bytes".
std::string formatBytes(uint64_t bytes);

} // namespace blurt

#endif // BLURT_FILE_H
