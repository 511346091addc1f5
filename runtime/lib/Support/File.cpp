//===- File.cpp - Mapped inputs and all-or-nothing outputs ----------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blurt/File.h"
#include "blurt/Error.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <utility>

using namespace blurt;

namespace {

std::string folderOf(const std::string &path) {
  size_t slash = path.rfind('/');
  if (slash == std::string::npos)
    return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string temporaryFor(const std::string &path) {
  return path + ".tmp." + std::to_string(getpid());
}

/// What a rename should replace: the file a symbolic link leads to, not the
/// link.
std::string resolveLinks(const std::string &path) {
  char *resolved = ::realpath(path.c_str(), nullptr);
  std::string result = resolved ? resolved : path;
  std::free(resolved);
  return result;
}

/// Writes everything, or returns the errno of the write that failed.
int writeAll(int descriptor, const char *data, size_t bytes) {
  while (bytes > 0) {
    ssize_t wrote = ::write(descriptor, data, bytes);
    if (wrote < 0) {
      if (errno == EINTR)
        continue;
      return errno;
    }
    data += wrote;
    bytes -= static_cast<size_t>(wrote);
  }
  return 0;
}

} // namespace

MappedFile::MappedFile(const std::string &path) : name(path) {
  int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0)
    throw badInput(systemMessage(path, "cannot open", errno));
  struct stat info;
  if (::fstat(descriptor, &info) != 0) {
    int errnum = errno;
    ::close(descriptor);
    throw badInput(systemMessage(path, "cannot read", errnum));
  }
  if (!S_ISREG(info.st_mode)) {
    ::close(descriptor);
    throw badInput(path + ": expected a regular file");
  }
  length = static_cast<uint64_t>(info.st_size);
  if (length > 0) {
    void *address =
        ::mmap(nullptr, length, PROT_READ, MAP_SHARED, descriptor, 0);
    if (address == MAP_FAILED) {
      int errnum = errno;
      ::close(descriptor);
      throw failure(systemMessage(path, "cannot map", errnum));
    }
    bytes = static_cast<const std::byte *>(address);
  }
  ::close(descriptor);
}

MappedFile::~MappedFile() {
  if (bytes)
    ::munmap(const_cast<std::byte *>(bytes), length);
}

MappedFile::MappedFile(MappedFile &&other) noexcept
    : name(std::move(other.name)), bytes(std::exchange(other.bytes, nullptr)),
      length(std::exchange(other.length, 0)) {}

void MappedFile::prefetch(uint64_t begin, uint64_t count) const {
  const uint64_t page = uint64_t(::sysconf(_SC_PAGESIZE));
  uint64_t end = std::min(begin + count, length);
  begin = begin / page * page;
  // It is advice: a file system that cannot follow it reads later.
  if (begin < end)
    ::madvise(const_cast<std::byte *>(bytes) + begin, end - begin,
              MADV_WILLNEED);
}

AtomicFile::AtomicFile(const std::string &path)
    : target(resolveLinks(path)), temporary(temporaryFor(target)) {
  // Renaming over a device would replace it.
  struct stat info;
  if (::stat(target.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    temporary.clear();
    throw failure(target + ": cannot write: expected a regular file");
  }
  descriptor =
      ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0)
    throw failure(systemMessage(target, "cannot write", errno));
}

AtomicFile::~AtomicFile() {
  if (descriptor >= 0)
    ::close(descriptor);
  if (!temporary.empty())
    ::unlink(temporary.c_str());
}

void AtomicFile::fail(const std::string &what) {
  throw failure(systemMessage(target, what, errno));
}

void AtomicFile::write(const void *data, size_t bytes) {
  if (int errnum =
          writeAll(descriptor, static_cast<const char *>(data), bytes)) {
    errno = errnum;
    fail("cannot write");
  }
}

void AtomicFile::sync() {
  if (::fsync(descriptor) != 0)
    fail("cannot sync");
}

void AtomicFile::commit() {
  sync();
  if (::close(std::exchange(descriptor, -1)) != 0)
    fail("cannot close");
  if (::rename(temporary.c_str(), target.c_str()) != 0)
    fail("cannot rename into place");
  temporary.clear();
  // The rename itself is durable once the folder is; a file system that cannot
  // sync folders says EINVAL.
  int folder =
      ::open(folderOf(target).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0)
    fail("cannot open its folder");
  int errnum = ::fsync(folder) == 0 ? 0 : errno;
  ::close(folder);
  if (errnum && errnum != EINVAL) {
    errno = errnum;
    fail("cannot sync its folder");
  }
}

LineFile::LineFile(const std::string &path, bool keep) : name(path) {
  descriptor = ::open(
      path.c_str(),
      O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (keep ? 0 : O_TRUNC), 0666);
  if (descriptor < 0)
    throw badInput(systemMessage(path, "cannot write", errno));
}

LineFile::~LineFile() { ::close(descriptor); }

void LineFile::append(std::string_view line) {
  std::string text(line);
  text += '\n';
  if (int errnum = writeAll(descriptor, text.data(), text.size()))
    throw failure(systemMessage(name, "cannot write", errnum));
}

void LineFile::sync() {
  // Pipes and terminals say EINVAL.
  if (::fsync(descriptor) != 0 && errno != EINVAL && errno != EROFS)
    throw failure(systemMessage(name, "cannot sync", errno));
}

void blurt::checkWritable(const std::string &flag, const std::string &path,
                          uint64_t bytes, bool device) {
  std::string target = resolveLinks(path);
  struct stat info;
  if (::stat(target.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    if (S_ISDIR(info.st_mode))
      throw badInput(flag + ": " + path + ": expected a file, got a folder");
    if (!device)
      throw badInput(flag + ": " + path + ": expected a regular file");
    return;
  }
  std::string probe = temporaryFor(target);
  int descriptor =
      ::open(probe.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0)
    throw badInput(flag + ": " + systemMessage(path, "cannot write", errno));
  struct statvfs space;
  bool known = ::fstatvfs(descriptor, &space) == 0;
  ::close(descriptor);
  ::unlink(probe.c_str());
  uint64_t free = known ? uint64_t(space.f_bavail) * space.f_frsize : bytes;
  if (free < bytes)
    throw badInput(flag + ": " + path + ": expected " + formatBytes(bytes) +
                   " of free space, got " + formatBytes(free));
}

std::string blurt::formatBytes(uint64_t bytes) {
  const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  for (; value >= 1024 && unit < 4; ++unit)
    value /= 1024;
  char text[64];
  if (unit == 0)
    std::snprintf(text, sizeof(text), "%llu bytes",
                  static_cast<unsigned long long>(bytes));
  else
    std::snprintf(text, sizeof(text), "%.2f %s", value, units[unit]);
  return text;
}
