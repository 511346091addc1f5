//===- FaultIo.cpp - A disk that fails when told to -----------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// Preloaded into a program, makes one of its calls that change files fail:
//
//   FAULT_IO=CALL:N:WHAT   the N-th CALL, from 1, of open, write, fsync, close,
//                          rename, mkdir, unlinkat, or any
//   WHAT                   an errno; `short`, half a write and no space for the
//                          rest; or `kill`, the end of the process right before
//                          the call (a write does half of its work first)
//   FAULT_IO_PATH=PART     counts only files with PART in their path
//   FAULT_IO_LOG=FILE      a line for each call that counts
//
//===----------------------------------------------------------------------===//

#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <string>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

namespace {

template <typename Fn> Fn *real(const char *name) {
  return reinterpret_cast<Fn *>(::dlsym(RTLD_NEXT, name));
}

bool spent = false; ///< a short write was done, the next one fails
long counted = 0;

enum class Fault { None, Errno, Short, Kill };

bool concerns(const char *path) {
  const char *part = std::getenv("FAULT_IO_PATH");
  return path && (!part || std::strstr(path, part));
}

std::string pathOf(int descriptor) {
  std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  char target[4096];
  ssize_t length = ::readlink(link.c_str(), target, sizeof(target) - 1);
  return length > 0 ? std::string(target, size_t(length)) : std::string();
}

Fault fault(const char *call, const char *path, int &error) {
  const char *spec = std::getenv("FAULT_IO");
  if (!spec || !concerns(path))
    return Fault::None;
  std::string text = spec;
  size_t first = text.find(':'), second = text.find(':', first + 1);
  std::string name = text.substr(0, first), what = text.substr(second + 1);
  if (name != "any" && name != call)
    return Fault::None;
  ++counted;
  if (const char *log = std::getenv("FAULT_IO_LOG")) {
    std::string line = std::string(call) + " " + path + "\n";
    int file = real<int(const char *, int, ...)>("open")(
        log, O_WRONLY | O_CREAT | O_APPEND, 0666);
    (void)!real<ssize_t(int, const void *, size_t)>("write")(file, line.data(),
                                                             line.size());
    real<int(int)>("close")(file);
  }
  if (spent) {
    error = ENOSPC;
    return Fault::Errno;
  }
  if (counted != std::atol(text.c_str() + first + 1))
    return Fault::None;
  if (what == "kill") {
    if (std::strcmp(call, "write"))
      ::kill(::getpid(), SIGKILL);
    return Fault::Kill;
  }
  if (what == "short") {
    spent = true;
    return Fault::Short;
  }
  error = std::atoi(what.c_str());
  return Fault::Errno;
}

/// Whether the call is to fail, with errno set.
bool fails(const char *call, const char *path) {
  int error = 0;
  if (fault(call, path, error) != Fault::Errno)
    return false;
  errno = error;
  return true;
}

} // namespace

extern "C" {

int open(const char *path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  int mode = flags & O_CREAT ? va_arg(arguments, int) : 0;
  va_end(arguments);
  if ((flags & O_CREAT) && fails("open", path))
    return -1;
  return real<int(const char *, int, ...)>("open")(path, flags, mode);
}

ssize_t write(int descriptor, const void *data, size_t bytes) {
  int error = 0;
  auto *to = real<ssize_t(int, const void *, size_t)>("write");
  switch (fault("write", pathOf(descriptor).c_str(), error)) {
  case Fault::None:
    break;
  case Fault::Errno:
    errno = error;
    return -1;
  case Fault::Short:
    return to(descriptor, data, (bytes + 1) / 2);
  case Fault::Kill:
    (void)!to(descriptor, data, bytes / 2);
    ::kill(::getpid(), SIGKILL);
  }
  return to(descriptor, data, bytes);
}

int fsync(int descriptor) {
  if (fails("fsync", pathOf(descriptor).c_str()))
    return -1;
  return real<int(int)>("fsync")(descriptor);
}

int close(int descriptor) {
  bool failed = (::fcntl(descriptor, F_GETFL) & O_ACCMODE) == O_WRONLY &&
                fails("close", pathOf(descriptor).c_str());
  int error = errno;
  int status = real<int(int)>("close")(descriptor);
  if (!failed)
    return status;
  errno = error;
  return -1;
}

int rename(const char *from, const char *to) noexcept {
  if (fails("rename", concerns(from) ? from : to))
    return -1;
  return real<int(const char *, const char *)>("rename")(from, to);
}

int mkdir(const char *path, mode_t mode) noexcept {
  if (fails("mkdir", path))
    return -1;
  return real<int(const char *, mode_t)>("mkdir")(path, mode);
}

int unlinkat(int folder, const char *path, int flags) noexcept {
  std::string full = *path == '/' ? path : pathOf(folder) + "/" + path;
  if (fails("unlinkat", full.c_str()))
    return -1;
  return real<int(int, const char *, int)>("unlinkat")(folder, path, flags);
}
}
