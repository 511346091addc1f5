//===- Link.cpp - object file and runtime to executable -------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blutrain/Codegen/Object.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"

using namespace mlir;
using namespace mlir::blurt;

static constexpr StringRef kArchive = "libblurt.a";
static constexpr StringRef kFlags = "blurt-link-flags.txt";

/// The folder that holds the runtime, or an error.
static FailureOr<std::string> findRuntime(const LinkOptions &options,
                                          llvm::raw_ostream &errors) {
  SmallVector<std::string> folders;
  if (!options.runtimeFolder.empty()) {
    folders.push_back(options.runtimeFolder);
  } else {
    // Any address within this executable finds it.
    std::string self = llvm::sys::fs::getMainExecutable(
        nullptr, reinterpret_cast<void *>(&findRuntime));
    StringRef folder = llvm::sys::path::parent_path(self);
    for (StringRef relative : {"../lib", "../lib/blutrain", "lib"}) {
      SmallString<256> path(folder);
      llvm::sys::path::append(path, relative);
      llvm::sys::path::remove_dots(path, true);
      folders.push_back(path.str().str());
    }
  }
  for (const std::string &folder : folders) {
    SmallString<256> archive(folder);
    llvm::sys::path::append(archive, kArchive);
    if (llvm::sys::fs::exists(archive))
      return folder;
  }
  errors << "error: no " << kArchive << " in " << llvm::join(folders, ", ")
         << "; name the folder of the runtime\n";
  return failure();
}

LogicalResult blurt::linkExecutable(StringRef objectPath, StringRef outPath,
                                    const LinkOptions &options,
                                    llvm::raw_ostream &errors) {
  FailureOr<std::string> folder = findRuntime(options, errors);
  if (failed(folder))
    return failure();
  StringRef linkerName =
      options.linker.empty() ? StringRef("c++") : StringRef(options.linker);
  auto linker = llvm::sys::findProgramByName(linkerName);
  if (!linker) {
    errors << "error: cannot find the linker driver '" << linkerName
           << "': " << linker.getError().message() << '\n';
    return failure();
  }

  SmallVector<std::string> command{*linker, "-o", outPath.str(),
                                   objectPath.str()};
  SmallString<256> archive(*folder), flags(*folder);
  llvm::sys::path::append(archive, kArchive);
  llvm::sys::path::append(flags, kFlags);
  command.push_back(archive.str().str());
  if (auto buffer = llvm::MemoryBuffer::getFile(flags)) {
    SmallVector<StringRef> words;
    llvm::SplitString((*buffer)->getBuffer(), words);
    for (StringRef word : words)
      command.push_back(word.str());
  } else {
    errors << "error: cannot read " << flags << ": "
           << buffer.getError().message() << '\n';
    return failure();
  }

  SmallVector<StringRef> arguments(command.begin(), command.end());
  std::string message;
  int status = llvm::sys::ExecuteAndWait(*linker, arguments, std::nullopt, {},
                                         0, 0, &message);
  if (status == 0)
    return success();
  errors << "error: linking " << outPath << " failed";
  if (!message.empty())
    errors << ": " << message;
  errors << "\nnote: the command was: " << llvm::join(command, " ") << '\n';
  return failure();
}
