//===- Launch.cpp - Which rank this is, and starting ranks ----------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blurt/Error.h"
#include "blurt/World.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <netinet/in.h>
#include <sstream>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace blurt;

/// A variable that is a number, or -1 where it is not set.
static int64_t numberOf(const char *name) {
  const char *text = std::getenv(name);
  if (!text)
    return -1;
  int64_t value = -1;
  const char *end = text + std::strlen(text);
  auto [next, error] = std::from_chars(text, end, value);
  if (error != std::errc() || next != end || value < 0)
    throw badInput(std::string(name) + ": expected a number, got '" + text +
                   "'");
  return value;
}

LaunchedRank blurt::findLaunchedRank() {
  struct Names {
    const char *launcher, *rank, *size, *localRank, *localSize;
    bool mpi;
  };
  // srun's MPI plug-in sets PMIx's rank beside Slurm's own variables.
  static const Names known[] = {
      {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
       "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", true},
      {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
       false},
      {"srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID",
       "SLURM_NTASKS_PER_NODE", false}};
  for (const Names &names : known) {
    int64_t rank = numberOf(names.rank), size = numberOf(names.size);
    if (rank < 0 || size < 1)
      continue;
    // A job of Slurm has its variables before srun starts anything.
    if (std::strcmp(names.launcher, "srun") == 0 &&
        !std::getenv("SLURM_STEP_ID"))
      continue;
    bool mpi = names.mpi || (std::strcmp(names.launcher, "srun") == 0 &&
                             std::getenv("PMIX_RANK"));
    return {rank,
            size,
            std::max<int64_t>(0, numberOf(names.localRank)),
            std::max<int64_t>(1, numberOf(names.localSize)),
            names.launcher,
            names.rank,
            mpi};
  }
  return {};
}

namespace {

/// Ends the process if the library's own start takes too long, which waits for
/// ranks without an end. The others are not known yet: those beside this one
/// are found among the children of who started it.
class StartLimit {
public:
  StartLimit(double timeout, const char *variable)
      : variable(std::string(variable) + "="), thread([this, timeout] {
          std::unique_lock<std::mutex> guard(lock);
          if (!started.wait_for(guard, std::chrono::duration<double>(timeout),
                                [this] { return done; }))
            end(timeout);
        }) {}
  ~StartLimit() {
    {
      std::lock_guard<std::mutex> guard(lock);
      done = true;
    }
    started.notify_all();
    thread.join();
  }

private:
  [[noreturn]] void end(double timeout) const {
    std::string names;
    std::error_code ignored;
    for (const auto &entry :
         std::filesystem::directory_iterator("/proc", ignored)) {
      std::string stat = textOf(entry.path() / "stat");
      size_t name = stat.rfind(')');
      if (name == std::string::npos)
        continue;
      char state = '?';
      long parent = 0;
      std::sscanf(stat.c_str() + name + 1, " %c %ld", &state, &parent);
      std::string environment = '\0' + textOf(entry.path() / "environ");
      size_t at = environment.find('\0' + variable);
      if (parent != ::getppid() || (state != 'T' && state != 't') ||
          at == std::string::npos)
        continue;
      names += (names.empty() ? "rank " : ", rank ") +
               std::string(environment.c_str() + at + 1 + variable.size()) +
               " (process " + entry.path().filename().string() + ") is stopped";
    }
    std::fprintf(
        stderr, "error: %s in the start of all ranks, for %g s (--timeout)\n",
        names.empty() ? "not all ranks have come" : names.c_str(), timeout);
    ::_exit(ExitFailure);
  }
  static std::string textOf(const std::filesystem::path &path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

  std::string variable;
  std::mutex lock;
  std::condition_variable started;
  bool done = false;
  std::thread thread; ///< goes first
};

} // namespace

std::unique_ptr<World> World::join(const blurt_program &program,
                                   double timeout) {
  LaunchedRank found = findLaunchedRank();
  std::string many = std::to_string(program.devices);
  if (program.devices <= 1) {
    if (found.size > 1)
      throw badInput("this program is for one device, expected one compiled "
                     "with --mesh dp=" +
                     std::to_string(found.size) + " for the " +
                     std::to_string(found.size) + " ranks of " +
                     found.launcher);
    return nullptr;
  }
  if (found.rank < 0)
    throw badInput("this program is for " + many +
                   " devices: start it with --devices " + many + ", or as " +
                   many + " ranks with mpirun -np " + many);
  if (found.size != program.devices)
    throw badInput("this program is for " + many +
                   " devices, expected as "
                   "many ranks, got " +
                   std::to_string(found.size) + " from " + found.launcher);
  std::unique_ptr<Channel> channel;
  if (found.mpi) {
    StartLimit limit(timeout, found.variable);
    channel = openMpiChannel();
    if (channel->size() != found.size)
      throw badInput("MPI sees " + std::to_string(channel->size()) +
                     " ranks, expected the " + std::to_string(found.size) +
                     " of " + found.launcher);
  } else {
    const char *host = std::getenv("MASTER_ADDR");
    int64_t port = numberOf("MASTER_PORT");
    if (!host || port < 1 || port > 65535)
      throw badInput(found.launcher + ": expected MASTER_ADDR and MASTER_PORT, "
                                      "where rank 0 is to listen");
    channel = openTcpChannel(found.rank, found.size, host, int(port), timeout);
  }
  auto world = std::make_unique<World>(program, std::move(channel), timeout);
  world->compareSchedules();
  return world;
}

//===----------------------------------------------------------------------===//
// Local ranks
//===----------------------------------------------------------------------===//

static volatile std::sig_atomic_t supervised = 0;

/// A port that is free now.
static int findPort() {
  int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  bool found =
      socket >= 0 &&
      ::bind(socket, reinterpret_cast<sockaddr *>(&address), length) == 0 &&
      ::getsockname(socket, reinterpret_cast<sockaddr *>(&address), &length) ==
          0;
  if (socket >= 0)
    ::close(socket);
  if (!found)
    throw failure(std::string("--devices: no free port: ") +
                  std::strerror(errno));
  return ntohs(address.sin_port);
}

/// Starts the ranks as processes of its own. When one fails the others have
/// some seconds to say what they know of it.
static int superviseForked(const std::string &self, int64_t count,
                           char **argv) {
  std::string port = std::to_string(findPort()), ranks = std::to_string(count);
  std::vector<pid_t> children;
  for (int64_t rank = 0; rank < count; ++rank) {
    pid_t child = ::fork();
    if (child < 0)
      throw failure(std::string("--devices: cannot start a rank: ") +
                    std::strerror(errno));
    if (child == 0) {
      // No rank outlives the one who looks after it.
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      std::string number = std::to_string(rank);
      for (auto [name, value] :
           {std::pair("RANK", number), std::pair("LOCAL_RANK", number),
            std::pair("WORLD_SIZE", ranks),
            std::pair("LOCAL_WORLD_SIZE", ranks),
            std::pair("MASTER_ADDR", std::string("127.0.0.1")),
            std::pair("MASTER_PORT", port)})
        ::setenv(name, value.c_str(), 1);
      ::execv(self.c_str(), argv);
      ::_exit(ExitFailure);
    }
    children.push_back(child);
  }
  static std::vector<pid_t> *all;
  all = &children;
  struct sigaction action = {};
  action.sa_handler = [](int signal) {
    for (pid_t child : *all)
      if (child > 0)
        ::kill(child, signal);
  };
  ::sigaction(SIGTERM, &action, nullptr);
  struct sigaction ignored = {};
  ignored.sa_handler = SIG_IGN; // the terminal gives it to the ranks as well
  ::sigaction(SIGINT, &ignored, nullptr);
  int code = ExitDone;
  size_t left = children.size();
  std::chrono::steady_clock::time_point killAt =
      std::chrono::steady_clock::time_point::max();
  while (left > 0) {
    int status = 0;
    pid_t child = ::waitpid(-1, &status, WNOHANG);
    if (child <= 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      if (std::chrono::steady_clock::now() > killAt)
        for (pid_t other : children)
          if (other > 0)
            ::kill(other, SIGKILL);
      continue;
    }
    size_t rank = size_t(std::find(children.begin(), children.end(), child) -
                         children.begin());
    if (rank == children.size())
      continue;
    children[rank] = -1;
    --left;
    int its = WIFEXITED(status) ? WEXITSTATUS(status) : int(ExitFailure);
    if (its == ExitDone)
      continue;
    if (code == ExitDone) {
      code = its == ExitBadInput ? ExitBadInput : ExitFailure;
      std::fprintf(stderr, "error: rank %zu ended with %s %d\n", rank,
                   WIFSIGNALED(status) ? "signal" : "exit code",
                   WIFSIGNALED(status) ? WTERMSIG(status) : its);
      killAt =
          std::chrono::steady_clock::now() + std::chrono::milliseconds(2500);
    }
  }
  return code;
}

int blurt::superviseRanks(const blurt_program &program, int64_t count, int argc,
                          char **argv) {
  if (count != program.devices)
    throw badInput(
        "--devices: expected the " + std::to_string(program.devices) +
        " devices that the program is for, got " + std::to_string(count));
  std::error_code error;
  std::string self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (program.device)
    return superviseForked(self, count, argv);
  std::string ranks = std::to_string(count);
  std::vector<std::string> words = {
      "mpirun", "--oversubscribe", "--bind-to", "none", "-np", ranks, self};
  for (int i = 1; i < argc; ++i)
    words.push_back(argv[i]);
  std::vector<char *> arguments;
  for (std::string &word : words)
    arguments.push_back(word.data());
  arguments.push_back(nullptr);
  // The user's rights are what counts, here as without mpirun; ranks wait by
  // sleeping, since there may be more of them than processors.
  for (const char *name :
       {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"})
    ::setenv(name, "1", 1);
  ::setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
  // Time to say which rank it was before all are killed.
  ::setenv("OMPI_MCA_odls_base_sigkill_timeout", "2", 0);
  pid_t child = ::fork();
  if (child < 0)
    throw failure(std::string("--devices: cannot start mpirun: ") +
                  std::strerror(errno));
  if (child == 0) {
    // mpirun ends its ranks when it is told to, and does not outlive this.
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    ::execvp("mpirun", arguments.data());
    std::fprintf(stderr, "error: --devices: expected mpirun, of the package "
                         "openmpi-bin, which starts ranks on CPUs\n");
    ::_exit(ExitBadInput);
  }
  supervised = child;
  struct sigaction action = {};
  action.sa_handler = [](int signal) { ::kill(supervised, signal); };
  ::sigaction(SIGTERM, &action, nullptr);
  // From a terminal the ranks have it already; mpirun passes it on.
  ::sigaction(SIGINT, &action, nullptr);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR)
      throw failure(std::string("--devices: ") + std::strerror(errno));
  if (WIFEXITED(status)) {
    int code = WEXITSTATUS(status);
    return code == ExitDone || code == ExitBadInput ? code : ExitFailure;
  }
  return ExitFailure;
}
