//===- Error.h - Errors with an exit code -----------------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// Everything that can go wrong in the runtime is thrown as an Error and caught
// once, in the program's main. Messages are in LLVM's voice: lowercase, no
// final period, the file, tensor or flag at fault first, then what was expected
// and what was found.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_ERROR_H
#define BLURT_ERROR_H

#include <stdexcept>
#include <string>

namespace blurt {

enum ExitCode : int {
  ExitDone = 0,
  ExitBadInput = 1, ///< bad use or bad input: the user can fix it
  ExitFailure = 2   ///< the machine or the computation failed
};

class Error : public std::runtime_error {
public:
  Error(ExitCode code, const std::string &message)
      : std::runtime_error(message), code(code) {}
  ExitCode exitCode() const { return code; }

private:
  ExitCode code;
};

inline Error badInput(const std::string &message) {
  return Error(ExitBadInput, message);
}
inline Error failure(const std::string &message) {
  return Error(ExitFailure, message);
}

/// "`path`: `what`: " followed by the text of `errno`.
std::string systemMessage(const std::string &path, const std::string &what,
                          int errnum);

} // namespace blurt

#endif // BLURT_ERROR_H
