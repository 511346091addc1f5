//===- World.cpp - The ranks of a program ---------------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blurt/World.h"
#include "blurt/Context.h"
#include "blurt/Error.h"
#include "blurt/File.h"
#include "blurt/Hash.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <numeric>
#include <thread>
#include <unistd.h>

using namespace blurt;

World::World(const blurt_program &program, std::unique_ptr<Channel> channel,
             double timeout)
    : table(program), link(std::move(channel)), timeout(timeout),
      started(size_t(program.num_collectives)) {
  meetPeers();
}

World::~World() = default;

void World::meetPeers() {
  Peer mine = {};
  ::gethostname(mine.host, sizeof(mine.host) - 1);
  mine.pid = ::getpid();
  std::vector<Peer> all(static_cast<size_t>(size()));
  gather(&mine, sizeof(mine), all.data(), "the start of all ranks");
  peers = std::move(all);
}

std::string World::stateOf(int64_t peer) const {
  if (peer < 0 || size_t(peer) >= peers.size())
    return {};
  const Peer &it = peers[size_t(peer)];
  if (std::strncmp(it.host, peers[size_t(rank())].host, sizeof(it.host)) != 0)
    return {};
  if (::kill(pid_t(it.pid), 0) != 0 && errno == ESRCH)
    return "has died";
  std::ifstream file("/proc/" + std::to_string(it.pid) + "/stat");
  std::string text;
  std::getline(file, text);
  size_t end = text.rfind(')');
  char state =
      end == std::string::npos || end + 2 >= text.size() ? '?' : text[end + 2];
  if (state == 'Z' || state == 'X')
    return "has died";
  return state == 'T' || state == 't' ? "is stopped" : "";
}

void World::fail(const std::string &message) {
  std::fflush(stdout);
  std::fprintf(stderr, "error: rank %lld: %s\n", static_cast<long long>(rank()),
               message.c_str());
  std::fflush(stderr);
  // Neither destructors nor the library's goodbye: others may be gone.
  ::_exit(ExitFailure);
}

void World::exchange(const std::vector<Channel::Message> &messages,
                     const std::string &what) {
  using Clock = std::chrono::steady_clock;
  link->begin(messages);
  Clock::time_point start = Clock::now();
  auto describe = [&](int64_t missing, const std::string &state) {
    std::string text = nameOf(missing);
    text += state.empty() ? " did not answer" : " " + state;
    text += " in " + what;
    if (current >= 0)
      text += ", collective " + std::to_string(current + 1) + " of " +
              std::to_string(table.num_collectives) + " of the program, call " +
              std::to_string(sent.calls);
    return text;
  };
  unsigned rounds = 0;
  for (int64_t missing = -1; link->poll(missing) > 0; ++rounds) {
    if (rounds < 64)
      continue;
    std::this_thread::sleep_for(
        std::chrono::microseconds(rounds < 512 ? 20 : 200));
    if (rounds % 256 != 0)
      continue;
    std::string state = stateOf(missing);
    std::chrono::duration<double> waited = Clock::now() - start;
    if (state == "has died")
      fail(describe(missing, state));
    if (waited.count() > timeout) {
      char seconds[32];
      std::snprintf(seconds, sizeof(seconds), "%g", timeout);
      fail(describe(missing, state) + ", for " + seconds + " s (--timeout)");
    }
  }
}

std::string World::nameOf(int64_t peer) const {
  if (peer < 0)
    return "the other ranks";
  std::string text = "rank " + std::to_string(peer);
  if (size_t(peer) < peers.size())
    text += " (process " + std::to_string(peers[size_t(peer)].pid) + " on " +
            peers[size_t(peer)].host + ")";
  return text;
}

void World::await(const std::function<bool()> &done, const std::string &what) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point start = Clock::now();
  for (unsigned rounds = 0; !done(); ++rounds) {
    std::this_thread::sleep_for(std::chrono::microseconds(20));
    if (rounds % 4096 != 4095)
      continue;
    std::chrono::duration<double> waited = Clock::now() - start;
    for (int64_t peer = 0; peer < size(); ++peer) {
      std::string state = peer == rank() ? "" : stateOf(peer);
      if (state == "has died" || (!state.empty() && waited.count() > timeout))
        fail(nameOf(peer) + " " + state + " in " + what);
    }
    if (waited.count() > timeout) {
      char text[32];
      std::snprintf(text, sizeof(text), "%g", timeout);
      fail(what + " did not end within " + text + " s (--timeout)");
    }
  }
}

void World::gather(const void *mine, uint64_t bytes, void *all,
                   const std::string &what) {
  auto *to = static_cast<std::byte *>(all);
  std::vector<Channel::Message> messages;
  for (int64_t peer = 0; peer < size(); ++peer)
    if (peer != rank())
      messages.push_back(
          {peer, mine, bytes, to + uint64_t(peer) * bytes, bytes});
  std::memcpy(to + uint64_t(rank()) * bytes, mine, bytes);
  exchange(messages, what);
}

std::string World::fromLeader(const std::string &text,
                              const std::string &what) {
  uint64_t length = most(leads() ? text.size() : 0, what);
  std::vector<char> mine(length), all(length * uint64_t(size()));
  if (leads())
    std::memcpy(mine.data(), text.data(), length);
  if (length > 0)
    gather(mine.data(), length, all.data(), what);
  return std::string(all.data(), length);
}

uint64_t World::most(uint64_t mine, const std::string &what) {
  std::vector<uint64_t> all(static_cast<size_t>(size()));
  gather(&mine, sizeof(mine), all.data(), what);
  return *std::max_element(all.begin(), all.end());
}

uint64_t World::sum(uint64_t mine, const std::string &what) {
  std::vector<uint64_t> all(static_cast<size_t>(size()));
  gather(&mine, sizeof(mine), all.data(), what);
  return std::accumulate(all.begin(), all.end(), uint64_t(0));
}

void World::requireSame(const std::string &what, const std::string &value) {
  char mine[128] = {};
  std::snprintf(mine, sizeof(mine), "%s", value.c_str());
  std::vector<char> all(sizeof(mine) * size_t(size()));
  gather(mine, sizeof(mine), all.data(), "comparing " + what);
  for (int64_t peer = 1; peer < size(); ++peer) {
    const char *its = all.data() + size_t(peer) * sizeof(mine);
    if (std::strcmp(its, all.data()) != 0)
      fail("rank " + std::to_string(peer) + " has another " + what +
           " than rank 0: expected " + all.data() + ", got " + its);
  }
}

void World::compareSchedules() {
  std::string schedule;
  for (int32_t i = 0; i < table.num_collectives; ++i) {
    const blurt_collective &c = table.collectives[i];
    schedule += std::to_string(c.kind) + " " + c.axis + " " +
                std::to_string(c.size) + " " + c.source + "\n";
    for (int32_t v = 0; v < c.num_values; ++v)
      schedule += std::to_string(c.values[v].batch) + "x" +
                  std::to_string(c.values[v].count) + ":" +
                  std::to_string(c.values[v].dtype) + " ";
  }
  requireSame("program (digest of its plan)", table.plan_hash);
  requireSame("schedule of collectives (its digest)",
              hexString(xxh64(schedule.data(), schedule.size())));
  MappedFile self("/proc/self/exe");
  requireSame("executable (its digest)",
              hexString(xxh64(self.data(), self.size())));
}

void World::start(int32_t number, void *const *args) {
  const blurt_collective &collective = table.collectives[number];
  current = number;
  sent.calls += collective.kind != BLURT_LOCAL_SHARD;
  try {
    mover->start(number, collective, args);
  } catch (const Error &error) {
    // Compiled code cannot be left by an exception.
    fail(error.what());
  }
  started[size_t(number)] = collective.kind != BLURT_LOCAL_SHARD;
  current = -1;
}

void World::wait(int32_t number) {
  if (!started[size_t(number)])
    return;
  started[size_t(number)] = false;
  current = number;
  try {
    mover->wait(number);
  } catch (const Error &error) {
    fail(error.what());
  }
  current = -1;
}

void World::leave() {
  uint8_t done = 1;
  std::vector<uint8_t> all(static_cast<size_t>(size()));
  gather(&done, 1, all.data(), "the end of all ranks");
  link->leave();
}

static World &worldOf(void *ctx) {
  World *world = static_cast<Context *>(ctx)->world;
  if (!world) {
    std::fprintf(stderr, "error: this entry is for several devices, and is "
                         "run on one\n");
    ::_exit(ExitBadInput);
  }
  return *world;
}

void blurt_collective_run(void *ctx, int32_t number, void *const *args) {
  World &world = worldOf(ctx);
  world.start(number, args);
  world.wait(number);
}

void blurt_collective_start(void *ctx, int32_t number, void *const *args) {
  worldOf(ctx).start(number, args);
}

void blurt_collective_wait(void *ctx, int32_t number) {
  worldOf(ctx).wait(number);
}
