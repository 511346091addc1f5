//===- Watch.h - The thread that watches what a rank waits for --*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_LIB_WORLD_WATCH_H
#define BLURT_LIB_WORLD_WATCH_H

#include "blurt/World.h"

#include <netinet/in.h>
#include <optional>
#include <thread>

namespace blurt {

/// Looks several times a second whether the rank has waited too long or for one
/// that is gone, answers other ranks that ask where this one is, and ends the
/// process when it has to, whatever the rest of it is doing.
class World::Watch {
public:
  explicit Watch(World &world);
  ~Watch();
  Watch(const Watch &) = delete;
  Watch &operator=(const Watch &) = delete;

  /// Opens a socket for datagrams and returns its port, 0 if there is none.
  int open(bool oneHost);
  /// Where the others have theirs, and what their datagrams begin with.
  void introduce(const std::vector<int> &ports, bool oneHost, uint64_t token);
  /// Says to all why this rank ends.
  void tell(const std::string &text, int code);

private:
  enum Kind : uint32_t { Question = 1, Answer = 2, Ended = 3 };
  struct Datagram {
    uint64_t token;
    uint32_t kind;
    int32_t rank, code;
    uint32_t length; ///< of the text
    uint64_t waits;
    DevicePosition device;
    char text[1200];
  };
  /// Where a rank is.
  struct Status {
    std::string what; ///< empty if the host does not wait; only of this rank
    bool forAll = false;
    Clock::time_point since;
    uint64_t waits = 0;
    DevicePosition device;
    bool answered = false;
  };
  struct Notice {
    int64_t rank;
    int code;
    std::string text;
    Clock::time_point at;
  };

  /// Ranks that were introduced.
  int64_t known() const { return introduced ? int64_t(others.size()) : 0; }
  void loop();
  void check();
  void receive(int milliseconds);
  void send(const sockaddr_in &to, Kind kind, const std::string &text,
            int code);
  Status status() const;
  void failIfDead(int64_t peer, const Status &mine);
  void ask();
  std::string whyLate(const Status &mine);
  std::string placeOf(const DevicePosition &device) const;
  std::string placeOf(const Status &mine) const;

  World &world;
  int64_t self = 0; ///< this rank, when the peers are known
  int socket = -1;
  uint64_t token = 0;
  std::atomic<bool> introduced{false}, stop{false};
  std::vector<sockaddr_in> addresses; ///< port 0: not reachable
  std::vector<Status> others;
  std::optional<Notice> notice; ///< the first
  DevicePosition last;
  Clock::time_point lastChange = Clock::now();
  std::thread thread; ///< goes first
};

} // namespace blurt

#endif // BLURT_LIB_WORLD_WATCH_H
