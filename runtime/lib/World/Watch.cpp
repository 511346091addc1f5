//===- Watch.cpp - The thread that watches what a rank waits for ----------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Watch.h"

#include <algorithm>
#include <arpa/inet.h>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <tuple>
#include <unistd.h>
#include <utility>

using namespace blurt;

static constexpr auto kAnswerTime = std::chrono::milliseconds(1000);
/// What another rank says of its end waits this long for what this one finds.
static constexpr auto kGrace = std::chrono::milliseconds(300);

World::Watch::Watch(World &world) : world(world), thread([this] { loop(); }) {}

World::Watch::~Watch() {
  stop = true;
  thread.join();
  if (socket >= 0)
    ::close(socket);
}

int World::Watch::open(bool oneHost) {
  int made = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(oneHost ? INADDR_LOOPBACK : INADDR_ANY);
  auto *any = reinterpret_cast<sockaddr *>(&address);
  socklen_t length = sizeof(address);
  if (made < 0)
    return 0;
  if (::bind(made, any, length) != 0 ||
      ::getsockname(made, any, &length) != 0) {
    ::close(made);
    return 0;
  }
  socket = made;
  return ntohs(address.sin_port);
}

void World::Watch::introduce(const std::vector<int> &ports, bool oneHost,
                             uint64_t its) {
  token = its;
  self = world.rank();
  addresses.resize(ports.size());
  others.resize(ports.size());
  for (size_t i = 0; i < ports.size(); ++i) {
    sockaddr_in &to = addresses[i];
    to = {};
    to.sin_family = AF_INET;
    addrinfo hints = {}, *found = nullptr;
    hints.ai_family = AF_INET;
    if (oneHost)
      to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    else if (::getaddrinfo(world.peers[i].host, nullptr, &hints, &found) == 0)
      to.sin_addr = reinterpret_cast<sockaddr_in *>(found->ai_addr)->sin_addr;
    else
      continue;
    if (found)
      ::freeaddrinfo(found);
    to.sin_port = htons(uint16_t(ports[i]));
  }
  introduced = true;
}

void World::Watch::loop() {
  // Signals are for the thread that looks at them.
  sigset_t all;
  sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  while (!stop) {
    receive(50);
    check();
  }
}

World::Watch::Status World::Watch::status() const {
  Status mine;
  std::lock_guard<std::mutex> guard(world.lock);
  const Waiting &it = world.waiting;
  if (it.what) {
    mine.what = *it.what;
    if (it.collective >= 0)
      mine.what += ", collective " + std::to_string(it.collective + 1) +
                   " of " + std::to_string(world.table.num_collectives) +
                   " of the program, call " + std::to_string(it.calls);
  }
  mine.forAll = it.what && it.forAll;
  mine.since = it.since;
  mine.waits = it.number;
  if (world.mover)
    mine.device = world.mover->position();
  return mine;
}

void World::Watch::send(const sockaddr_in &to, Kind kind,
                        const std::string &text, int code) {
  Status mine = status();
  Datagram datagram = {};
  datagram.token = token;
  datagram.kind = kind;
  datagram.rank = int32_t(self);
  datagram.code = code;
  datagram.length = uint32_t(std::min(text.size(), sizeof(datagram.text)));
  datagram.waits = mine.waits;
  datagram.device = mine.device;
  std::memcpy(datagram.text, text.data(), datagram.length);
  ::sendto(socket, &datagram, sizeof(datagram), MSG_NOSIGNAL,
           reinterpret_cast<const sockaddr *>(&to), sizeof(to));
}

void World::Watch::tell(const std::string &text, int code) {
  if (!introduced)
    return;
  for (size_t i = 0; i < addresses.size(); ++i)
    if (int64_t(i) != self && addresses[i].sin_port)
      send(addresses[i], Ended, text, code);
}

void World::Watch::receive(int milliseconds) {
  if (!introduced || socket < 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    return;
  }
  pollfd readable = {socket, POLLIN, 0};
  if (::poll(&readable, 1, milliseconds) <= 0)
    return;
  Datagram got;
  while (::recv(socket, &got, sizeof(got), 0) == ssize_t(sizeof(got))) {
    if (got.token != token || got.rank < 0 ||
        size_t(got.rank) >= others.size() || got.rank == self ||
        got.length > sizeof(got.text))
      continue;
    Status &its = others[size_t(got.rank)];
    if (got.kind == Question)
      send(addresses[size_t(got.rank)], Answer, "", 0);
    if (got.kind == Answer) {
      its.waits = got.waits;
      its.device = got.device;
      its.answered = true;
    }
    if (got.kind == Ended && !notice)
      notice = Notice{got.rank, got.code, std::string(got.text, got.length),
                      Clock::now()};
  }
}

void World::Watch::check() {
  if (world.failing)
    return;
  Status mine = status();
  auto place = [](const DevicePosition &p) {
    return std::tuple(p.began, p.ended, p.at);
  };
  Clock::time_point now = Clock::now();
  if (!mine.device.works() || place(mine.device) != place(last))
    lastChange = now;
  last = mine.device;
  auto fail = [&](const Notice &its) {
    world.fail(world.nameOf(its.rank) + " ended: " + its.text, its.code);
  };
  if (notice && now - notice->at > kGrace)
    fail(*notice);
  if (!mine.what.empty())
    failIfDead(world.missing, mine);
  // What a device does it does with all others.
  if (mine.forAll || mine.device.works())
    for (int64_t peer = 0; peer < known(); ++peer)
      failIfDead(peer, mine);
  std::chrono::duration<double> host = now - mine.since,
                                device = now - lastChange;
  if ((mine.what.empty() || host.count() <= world.timeout) &&
      (!mine.device.works() || device.count() <= world.timeout))
    return;
  std::string why = whyLate(mine);
  // It may have ended while the others were asked.
  Status after = status();
  if (notice)
    fail(*notice);
  if (after.waits != mine.waits || place(after.device) != place(mine.device) ||
      after.what.empty() != mine.what.empty())
    return;
  char seconds[32];
  std::snprintf(seconds, sizeof(seconds), ", for %g s (--timeout)",
                world.timeout);
  size_t end = why.find(';');
  world.fail(why.insert(std::min(end, why.size()), seconds));
}

void World::Watch::failIfDead(int64_t peer, const Status &mine) {
  if (peer < 0 || peer == world.rank() || world.stateOf(peer) != "has died")
    return;
  receive(0);
  if (notice)
    world.fail(world.nameOf(notice->rank) + " ended: " + notice->text,
               notice->code);
  world.fail(world.nameOf(peer) + " has died in " + placeOf(mine));
}

std::string World::Watch::placeOf(const DevicePosition &device) const {
  std::string run = "run " + std::to_string(device.began) + " of an entry";
  if (device.at == 0)
    return "what comes before the first collective of " + run;
  auto number = int32_t((device.at - 1) / 2);
  if (number >= world.table.num_collectives)
    return run;
  return std::string(device.at % 2 ? "" : "what follows ") +
         world.table.collectives[number].source + ", collective " +
         std::to_string(number + 1) + " of " +
         std::to_string(world.table.num_collectives) + " of the program, " +
         run;
}

std::string World::Watch::placeOf(const Status &mine) const {
  bool device =
      mine.device.works() && (mine.what.empty() || mine.device.inCollective());
  return device ? placeOf(mine.device) : mine.what;
}

void World::Watch::ask() {
  if (!introduced)
    return;
  std::vector<bool> asked(others.size());
  for (size_t i = 0; i < others.size(); ++i) {
    others[i].answered = false;
    asked[i] = int64_t(i) != self && addresses[i].sin_port &&
               world.stateOf(int64_t(i)).empty();
  }
  Clock::time_point start = Clock::now(), next = start;
  while (socket >= 0 && !notice && Clock::now() - start < kAnswerTime) {
    bool again = Clock::now() >= next, left = false;
    for (size_t i = 0; i < others.size(); ++i) {
      if (!asked[i] || others[i].answered)
        continue;
      left = true;
      if (again)
        send(addresses[i], Question, "", 0);
    }
    if (!left)
      return;
    if (again)
      next += std::chrono::milliseconds(200);
    receive(20);
  }
}

std::string World::Watch::whyLate(const Status &mine) {
  ask();
  std::string names, where = placeOf(mine);
  auto add = [&](int64_t peer, const std::string &how) {
    names += (names.empty() ? "" : ", ") + world.nameOf(peer) + " " + how;
  };
  for (int64_t peer = 0; peer < known(); ++peer) {
    if (peer == self)
      continue;
    std::string state = world.stateOf(peer);
    if (!state.empty())
      add(peer, state);
    else if (addresses[size_t(peer)].sin_port && socket >= 0 &&
             !others[size_t(peer)].answered)
      add(peer, "did not answer");
  }
  if (!names.empty())
    return names + " in " + where;
  std::vector<Status> all;
  if (introduced && socket >= 0) {
    all = others;
    all[size_t(self)] = mine;
  }
  // First what the devices have done, then the hosts.
  auto device = [](const Status &s) {
    return std::pair(s.device.began, s.device.at);
  };
  auto byDevice = [&](const Status &a, const Status &b) {
    return device(a) < device(b);
  };
  auto byHost = [](const Status &a, const Status &b) {
    return a.waits < b.waits;
  };
  auto findBehind = [&](auto &&less, auto &&placeOfMost) {
    if (all.empty() || !names.empty())
      return;
    auto [least, most] = std::minmax_element(all.begin(), all.end(), less);
    if (!less(*least, *most))
      return;
    for (size_t i = 0; i < all.size(); ++i)
      if (!less(*least, all[i]))
        add(int64_t(i), "has not arrived");
    where = placeOfMost(*most);
    if (device(*least) != device(*most))
      where += "; its device is in " + placeOf(least->device);
  };
  findBehind(byDevice,
             [&](const Status &most) { return placeOf(most.device); });
  findBehind(byHost, [&](const Status &most) {
    return byHost(mine, most) ? "what comes after " + where : where;
  });
  if (names.empty() && world.missing >= 0)
    add(world.missing, "did not answer");
  if (names.empty())
    return "all ranks are in " + where + ", and none of them has gone on";
  return names + " in " + where;
}
