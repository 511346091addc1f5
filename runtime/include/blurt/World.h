//===- World.h - the ranks of a program --------------------------*- C++
//-*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// A program for a mesh of N devices runs as N processes, its ranks. They find
// each other through what started them: mpirun, srun, or variables as torchrun
// sets them. Ranks talk about the run on a channel between hosts and move
// tensors by a transport, which the target decides.
//
// A rank that waits for others longer than the time-out, or sees that one of
// them is gone, says which one, in which collective, and ends its process. A
// thread watches what the rank waits for, on the host and on a device. When
// something takes too long it asks the threads of the other ranks where those
// are, by datagrams, so that the one that is behind is named.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_WORLD_H
#define BLURT_WORLD_H

#include "blurt/Error.h"
#include "blurt/blurt.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace blurt {

/// Bytes between the hosts of all ranks, in the order of calls.
class Channel {
public:
  virtual ~Channel() = default;
  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;
  /// "MPI (Open MPI v4.1.4)", "TCP".
  virtual std::string name() const = 0;

  /// One message each way between this rank and `peer`, null for none.
  struct Message {
    int64_t peer;
    const void *send;
    uint64_t sendBytes;
    void *receive;
    uint64_t receiveBytes;
  };
  /// Begins all of them; `poll` returns the number of those that are not done
  /// and sets `missing` to the first peer whose message has not come, or -1.
  virtual void begin(const std::vector<Message> &messages) = 0;
  virtual size_t poll(int64_t &missing) = 0;
  /// Says goodbye: every rank does.
  virtual void leave() = 0;
};

class World;

/// Where a device is among the collectives of an entry, as far as it wrote it.
struct DevicePosition {
  uint32_t queued = 0; ///< calls of entries, by the host
  uint32_t began = 0;  ///< the call that began last, from 1
  uint32_t ended = 0;  ///< the call that ended last
  uint32_t at = 0;     ///< 2n + 1 in collective n, 2n + 2 after it, else 0

  bool works() const { return queued != ended; }
  bool inCollective() const { return works() && at % 2 == 1; }
  bool operator==(const DevicePosition &) const = default;
};

/// Moves tensors for compiled code. Collectives run in the order that they are
/// started in.
class Transport {
public:
  virtual ~Transport() = default;
  virtual std::string name() const = 0;
  /// Collective `number` of the program; `args` are read before it returns.
  virtual void start(int32_t number, const blurt_collective &collective,
                     void *const *args) = 0;
  /// What is queued from now on comes after `number`, which was started. A
  /// shard of what is there already is cut at once.
  virtual void wait(int32_t number) = 0;

  /// Around what a device does for a call of an entry.
  virtual void beginCall() {}
  virtual void endCall() {}
  /// Read by another thread at any time.
  virtual DevicePosition position() const { return {}; }
  /// Makes collectives end that wait for others; nothing may follow. Called by
  /// any thread.
  virtual void abort() {}
};

/// Bytes and calls of collectives that this rank has sent.
struct TransferCounts {
  uint64_t calls = 0, bytes = 0;

  TransferCounts operator+(const TransferCounts &other) const {
    return {calls + other.calls, bytes + other.bytes};
  }
  TransferCounts operator-(const TransferCounts &other) const {
    return {calls - other.calls, bytes - other.bytes};
  }
};

class World {
public:
  /// Finds the other ranks. Throws Error (bad input) if the program is not
  /// started as it has to be. `timeout` is in seconds.
  static std::unique_ptr<World> join(const blurt_program &program,
                                     double timeout);
  World(const blurt_program &program, std::unique_ptr<Channel> channel,
        double timeout);
  ~World();

  int64_t rank() const { return link->rank(); }
  int64_t size() const { return link->size(); }
  bool leads() const { return rank() == 0; }
  const blurt_program &program() const { return table; }
  std::string channelName() const { return link->name(); }

  /// `bytes` of every rank, in their order.
  void gather(const void *mine, uint64_t bytes, void *all,
              const std::string &what);
  /// Rank 0's text on every rank.
  std::string fromLeader(const std::string &text, const std::string &what);
  uint64_t sum(uint64_t mine, const std::string &what);
  /// The largest number of any rank.
  uint64_t most(uint64_t mine, const std::string &what);
  /// Ends all ranks, naming the first that differs, unless all have `value`.
  void requireSame(const std::string &what, const std::string &value);
  /// Checks program and build, before anything else.
  void compareSchedules();

  void setTransport(std::unique_ptr<Transport> transport);
  Transport *transport() const { return mover.get(); }
  void start(int32_t number, void *const *args);
  /// Does nothing unless `number` was started and not waited for.
  void wait(int32_t number);

  /// Exchanges messages and ends the process if that takes too long.
  void exchange(const std::vector<Channel::Message> &messages,
                const std::string &what);
  /// Ends the process, and tells the other ranks why.
  [[noreturn]] void fail(const std::string &message, int code = ExitFailure);
  /// Cuts short what waits for other ranks: this one ends with an error.
  void abandon() {
    if (mover)
      mover->abort();
  }
  /// Never returns if the process is about to end: what a device computed may
  /// be of collectives that were cut short.
  void requireWhole() const;

  const TransferCounts &counts() const { return sent; }
  /// Collectives that a graph does again, or that were captured and not done.
  void setCounts(const TransferCounts &counts) { sent = counts; }
  /// All ranks are done.
  void leave();

  /// While it lives, this rank waits for others on the host, and ends with a
  /// message if that takes too long; with `forAll` also if any of them dies.
  class Wait {
  public:
    Wait(World &world, const std::string &what, bool forAll = false);
    ~Wait();
    Wait(const Wait &) = delete;
    Wait &operator=(const Wait &) = delete;

  private:
    World &world;
  };

private:
  class Watch;
  using Clock = std::chrono::steady_clock;
  struct Peer {
    char host[64];
    int64_t pid;
  };
  /// What the host waits for, for the thread that watches.
  struct Waiting {
    const std::string *what = nullptr; ///< null if it does not wait
    bool forAll = false;
    Clock::time_point since;
    int32_t collective = -1;
    uint64_t calls = 0, number = 0; ///< of collectives, of waits
  };
  void meetPeers();
  /// "has died", "is stopped", or nothing to be said of it.
  std::string stateOf(int64_t peer) const;
  /// "rank 2 (process 17 on host)".
  std::string nameOf(int64_t peer) const;

  const blurt_program &table;
  std::unique_ptr<Channel> link;
  std::unique_ptr<Transport> mover;
  double timeout;
  int32_t current = -1;
  std::vector<bool> started; ///< and not waited for
  TransferCounts sent;

  mutable std::mutex lock; ///< of what follows and of changing `mover`
  std::vector<Peer> peers;
  Waiting waiting;
  std::atomic<int64_t> missing{-1}; ///< whose message the wait is for
  std::atomic<bool> failing{false};
  std::unique_ptr<Watch> watch; ///< goes first
};

/// Ranks by variables of a launcher; rank is -1 where there is none.
struct LaunchedRank {
  int64_t rank = -1, size = 0, localRank = 0, localSize = 0;
  std::string launcher;
  const char *variable = ""; ///< the rank's
  bool mpi = false;
};
LaunchedRank findLaunchedRank();

std::unique_ptr<Channel> openMpiChannel();
/// Rank 0 listens at `host`:`port`, the others connect to it.
std::unique_ptr<Channel> openTcpChannel(int64_t rank, int64_t size,
                                        const std::string &host, int port,
                                        double timeout);

/// Collectives in host memory, over the channel. With
/// BLURT_LATE_COLLECTIVES=1 they run when they are waited for, not when they
/// are started: results are the same unless a wait is in the wrong place.
std::unique_ptr<Transport> createHostTransport(World &world);

class CudaDevice;
class CudaCode;

/// Collectives in memory of `device`, by NCCL; `code`, if there is any, times
/// them.
std::unique_ptr<Transport> createNcclTransport(CudaDevice &device,
                                               CudaCode *code, World &world);

/// Starts `count` ranks of this executable on this host, waits for them and
/// returns the exit code of the command.
int superviseRanks(const blurt_program &program, int64_t count, int argc,
                   char **argv);

} // namespace blurt

#endif // BLURT_WORLD_H
