//===- MpiChannel.cpp - Messages by MPI -----------------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blurt/Error.h"
#include "blurt/MpiPlugin.h"
#include "blurt/World.h"

#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>

using namespace blurt;

static const blurt_mpi_table &loadPlugin() {
  std::vector<std::string> candidates;
  if (const char *path = std::getenv("BLURT_MPI")) {
    candidates.push_back(path);
  } else {
    std::error_code ignored;
    std::filesystem::path self =
        std::filesystem::read_symlink("/proc/self/exe", ignored);
    candidates.push_back((self.parent_path() / "libblurt-mpi.so").string());
    candidates.push_back(BLURT_LIBRARY_FOLDER "/libblurt-mpi.so");
    candidates.push_back("libblurt-mpi.so");
  }
  std::string tried;
  for (const std::string &path : candidates) {
    // MPI's own plug-ins look for its symbols among the global ones.
    void *library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (!library) {
      tried += std::string("\n  ") + ::dlerror();
      continue;
    }
    auto function = reinterpret_cast<blurt_mpi_plugin_function>(
        ::dlsym(library, "blurt_mpi_plugin"));
    const blurt_mpi_table *table = function ? function() : nullptr;
    if (!table || table->version != BLURT_MPI_PLUGIN_VERSION)
      throw badInput(path + ": expected BluTrain's MPI plug-in, version " +
                     std::to_string(BLURT_MPI_PLUGIN_VERSION));
    return *table;
  }
  throw badInput("several ranks under mpirun need libblurt-mpi.so, which is "
                 "built where Open MPI is installed; BLURT_MPI names it. "
                 "Tried:" +
                 tried);
}

namespace {

class MpiChannel : public Channel {
public:
  MpiChannel() : mpi(loadPlugin()) {
    check(mpi.initialise(&number, &count), "MPI_Init_thread");
  }

  int64_t rank() const override { return number; }
  int64_t size() const override { return count; }
  std::string name() const override {
    std::string text = mpi.library;
    return "MPI (" + text.substr(0, text.find_first_of(",\n")) + ")";
  }

  void begin(const std::vector<Message> &messages) override {
    // Messages of one call meet those of the same call.
    tag = (tag + 1) % 32768;
    for (const Message &m : messages) {
      open.push_back({m.peer, nullptr, true});
      check(mpi.receive(m.receive, m.receiveBytes, int32_t(m.peer), tag,
                        &open.back().request),
            "MPI_Irecv");
    }
    for (const Message &m : messages) {
      open.push_back({m.peer, nullptr, false});
      check(mpi.send(m.send, m.sendBytes, int32_t(m.peer), tag,
                     &open.back().request),
            "MPI_Isend");
    }
  }

  size_t poll(int64_t &missing) override {
    std::vector<Open> left;
    missing = -1;
    for (const Open &it : open) {
      int32_t done = 0;
      check(mpi.test(it.request, &done), "MPI_Testall");
      if (done)
        continue;
      left.push_back(it);
      if (missing < 0)
        missing = it.peer;
    }
    open = std::move(left);
    return open.size();
  }

  void leave() override { check(mpi.finalise(), "MPI_Finalize"); }

private:
  struct Open {
    int64_t peer;
    void *request;
    bool receives;
  };

  static void check(int error, const char *what) {
    if (error)
      throw failure(std::string(what) + ": MPI error " + std::to_string(error));
  }

  const blurt_mpi_table &mpi;
  int32_t number = 0, count = 1, tag = 0;
  std::vector<Open> open;
};

} // namespace

std::unique_ptr<Channel> blurt::openMpiChannel() {
  return std::make_unique<MpiChannel>();
}
