//===- World.cpp - The ranks of a program ---------------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blurt/World.h"
#include "Watch.h"
#include "blurt/Context.h"
#include "blurt/Error.h"
#include "blurt/File.h"
#include "blurt/Hash.h"
#include "blurt/Program.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <numeric>
#include <random>
#include <thread>
#include <tuple>
#include <unistd.h>

using namespace blurt;

World::World(const blurt_program &program, std::unique_ptr<Channel> channel,
             double timeout)
    : table(program), link(std::move(channel)), timeout(timeout),
      started(size_t(program.num_collectives)),
      watch(std::make_unique<Watch>(*this)) {
  meetPeers();
}

World::~World() = default;

void World::meetPeers() {
  const std::string what = "the start of all ranks";
  Peer mine = {};
  ::gethostname(mine.host, sizeof(mine.host) - 1);
  mine.pid = ::getpid();
  std::vector<Peer> all(static_cast<size_t>(size()));
  gather(&mine, sizeof(mine), all.data(), what);
  bool oneHost = std::all_of(all.begin(), all.end(), [&](const Peer &peer) {
    return std::strncmp(peer.host, mine.host, sizeof(mine.host)) == 0;
  });
  {
    std::lock_guard<std::mutex> guard(lock);
    peers = std::move(all);
  }
  struct Address {
    uint64_t token;
    int64_t port;
  };
  std::random_device random;
  Address own = {uint64_t(random()) << 32 | random(), watch->open(oneHost)};
  std::vector<Address> addresses(static_cast<size_t>(size()));
  gather(&own, sizeof(own), addresses.data(), what);
  std::vector<int> ports;
  for (const Address &address : addresses)
    ports.push_back(int(address.port));
  watch->introduce(ports, oneHost, addresses[0].token);
}

std::string World::stateOf(int64_t peer) const {
  std::unique_lock<std::mutex> guard(lock);
  if (peer < 0 || size_t(peer) >= peers.size())
    return {};
  const Peer it = peers[size_t(peer)];
  if (std::strncmp(it.host, peers[size_t(rank())].host, sizeof(it.host)) != 0)
    return {};
  guard.unlock();
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

void World::fail(const std::string &message, int code) {
  if (failing.exchange(true))
    requireWhole();
  std::fflush(stdout);
  std::fprintf(stderr, "error: rank %lld: %s\n", static_cast<long long>(rank()),
               message.c_str());
  std::fflush(stderr);
  watch->tell(message, code);
  // A library that waits for ranks which are gone is not waited for.
  std::thread([this, code] {
    std::unique_lock<std::mutex> guard(lock);
    Transport *its = mover.get();
    guard.unlock();
    if (its)
      its->abort();
    ::_exit(code);
  }).detach();
  std::this_thread::sleep_for(std::chrono::seconds(1));
  // Neither destructors nor the library's goodbye: others may be gone.
  ::_exit(code);
}

void World::requireWhole() const {
  while (failing)
    ::pause();
}

World::Wait::Wait(World &world, const std::string &what, bool forAll)
    : world(world) {
  world.requireWhole();
  std::lock_guard<std::mutex> guard(world.lock);
  world.missing = -1;
  Waiting &it = world.waiting;
  it = {&what,         forAll,           Clock::now(),
        world.current, world.sent.calls, it.number + 1};
}

World::Wait::~Wait() {
  std::lock_guard<std::mutex> guard(world.lock);
  world.waiting.what = nullptr;
}

void World::setTransport(std::unique_ptr<Transport> transport) {
  requireWhole();
  // The old one goes without the lock, since that may take its time.
  std::unique_lock<std::mutex> guard(lock);
  std::swap(mover, transport);
}

void World::exchange(const std::vector<Channel::Message> &messages,
                     const std::string &what) {
  Wait wait(*this, what);
  link->begin(messages);
  int64_t peer = -1;
  for (unsigned rounds = 0; link->poll(peer) > 0; ++rounds) {
    missing.store(peer, std::memory_order_relaxed);
    if (rounds >= 64)
      std::this_thread::sleep_for(
          std::chrono::microseconds(rounds < 512 ? 20 : 200));
  }
}

std::string World::nameOf(int64_t peer) const {
  std::string text = "rank " + std::to_string(peer);
  std::lock_guard<std::mutex> guard(lock);
  if (size_t(peer) < peers.size())
    text += " (process " + std::to_string(peers[size_t(peer)].pid) + " on " +
            peers[size_t(peer)].host + ")";
  return text;
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
  auto its = [&](int64_t peer) {
    return std::string(all.data() + size_t(peer) * sizeof(mine));
  };
  // What most have is right, and what rank 0 has where none is more common.
  int64_t right = 0, most = 0;
  for (int64_t peer = 0; peer < size(); ++peer) {
    int64_t same = 0;
    for (int64_t other = 0; other < size(); ++other)
      same += its(other) == its(peer);
    if (same > most)
      std::tie(right, most) = std::pair(peer, same);
  }
  for (int64_t peer = 0; peer < size(); ++peer)
    if (its(peer) != its(right))
      fail("rank " + std::to_string(peer) + " has another " + what +
           " than rank " + std::to_string(right) + ": expected " + its(right) +
           ", got " + its(peer));
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
  if (collective.kind != BLURT_LOCAL_SHARD) {
    ++sent.calls;
    for (int32_t v = 0; v < collective.num_values; ++v) {
      const blurt_collective_value &value = collective.values[v];
      sent.bytes += uint64_t(size() - 1) * uint64_t(value.batch * value.piece) *
                    dtypeSize(value.dtype);
    }
  }
  try {
    mover->start(number, collective, args);
  } catch (const Error &error) {
    // Compiled code cannot be left by an exception.
    fail(error.what(), error.exitCode());
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
    fail(error.what(), error.exitCode());
  }
  current = -1;
}

void World::leave() {
  uint8_t done = 1;
  std::vector<uint8_t> all(static_cast<size_t>(size()));
  const std::string what = "the end of all ranks";
  gather(&done, 1, all.data(), what);
  Wait wait(*this, what);
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
