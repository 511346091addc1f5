//===- TcpChannel.cpp - Messages by sockets -------------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// Every pair of ranks has a connection. Rank 0 listens where the launcher said;
// the others tell it where they listen, and it tells all of them.
//
//===----------------------------------------------------------------------===//

#include "blurt/Error.h"
#include "blurt/World.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

using namespace blurt;

namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void failFrom(const std::string &what) {
  throw failure(what + ": " + std::strerror(errno));
}

/// A socket, closed with the object.
class Socket {
public:
  explicit Socket(int descriptor = -1) : descriptor(descriptor) {}
  Socket(Socket &&other) noexcept : descriptor(other.descriptor) {
    other.descriptor = -1;
  }
  Socket &operator=(Socket &&other) noexcept {
    std::swap(descriptor, other.descriptor);
    return *this;
  }
  ~Socket() {
    if (descriptor >= 0)
      ::close(descriptor);
  }
  int get() const { return descriptor; }

private:
  int descriptor;
};

void sendAll(int socket, const void *data, size_t bytes) {
  const auto *from = static_cast<const char *>(data);
  while (bytes > 0) {
    ssize_t sent = ::send(socket, from, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR)
      continue;
    if (sent <= 0)
      failFrom("cannot send to another rank at the start");
    from += sent;
    bytes -= size_t(sent);
  }
}

void receiveAll(int socket, void *data, size_t bytes, const std::string &who) {
  auto *to = static_cast<char *>(data);
  while (bytes > 0) {
    ssize_t got = ::recv(socket, to, bytes, 0);
    if (got < 0 && errno == EINTR)
      continue;
    if (got == 0)
      errno = ECONNRESET;
    if (got < 0 && errno == EAGAIN)
      errno = ETIMEDOUT;
    if (got <= 0)
      failFrom("cannot receive from " + who + " at the start");
    to += got;
    bytes -= size_t(got);
  }
}

void limitReceiving(const Socket &socket, Clock::time_point deadline) {
  auto left = std::max<int64_t>(
      1000, std::chrono::duration_cast<std::chrono::microseconds>(deadline -
                                                                  Clock::now())
                .count());
  timeval wait = {time_t(left / 1000000), suseconds_t(left % 1000000)};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
}

/// Listens at `port` of all addresses, or at one of the system's choice.
Socket listenAt(int port, bool local, int &chosen) {
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (socket.get() < 0)
    failFrom("cannot make a socket");
  int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(local ? INADDR_LOOPBACK : INADDR_ANY);
  address.sin_port = htons(uint16_t(port));
  if (::bind(socket.get(), reinterpret_cast<sockaddr *>(&address),
             sizeof(address)) != 0 ||
      ::listen(socket.get(), 1024) != 0)
    failFrom("cannot listen at port " + std::to_string(port));
  socklen_t length = sizeof(address);
  ::getsockname(socket.get(), reinterpret_cast<sockaddr *>(&address), &length);
  chosen = ntohs(address.sin_port);
  return socket;
}

Socket connectTo(const std::string &host, int port,
                 Clock::time_point deadline) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  if (int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(),
                                &hints, &found))
    throw badInput("cannot find host '" + host + "': " + ::gai_strerror(error));
  while (true) {
    Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (socket.get() >= 0 &&
        ::connect(socket.get(), found->ai_addr, found->ai_addrlen) == 0) {
      ::freeaddrinfo(found);
      return socket;
    }
    if (Clock::now() > deadline) {
      ::freeaddrinfo(found);
      failFrom("cannot reach rank 0 at " + host + ":" + std::to_string(port));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

/// No socket if nobody came in time.
Socket acceptFrom(const Socket &listener, Clock::time_point deadline) {
  while (true) {
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
                    deadline - Clock::now())
                    .count();
    if (left < 0)
      return Socket();
    fd_set set;
    FD_ZERO(&set);
    FD_SET(listener.get(), &set);
    timeval wait = {time_t(left / 1000), suseconds_t(left % 1000 * 1000)};
    if (::select(listener.get() + 1, &set, nullptr, nullptr, &wait) <= 0)
      continue;
    Socket socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (socket.get() >= 0)
      return socket;
  }
}

/// What a rank says of itself when it connects.
struct Hello {
  char magic[8];
  int64_t rank, size;
  int64_t port;
  char host[64];
};
constexpr char kMagic[8] = {'b', 'l', 'u', 'r', 't', 'w', '0', '1'};

class TcpChannel : public Channel {
public:
  TcpChannel(int64_t rank, int64_t size, const std::string &host, int port,
             double timeout)
      : number(rank), count(size), peers(size_t(size)) {
    Clock::time_point deadline =
        Clock::now() + std::chrono::milliseconds(int64_t(timeout * 1e3));
    bool local = host == "127.0.0.1" || host == "localhost";
    int own = 0;
    Socket listener = listenAt(rank == 0 ? port : 0, local, own);
    Hello mine = {};
    std::memcpy(mine.magic, kMagic, sizeof(kMagic));
    mine.rank = rank;
    mine.size = size;
    mine.port = own;
    std::vector<Hello> all(static_cast<size_t>(size));
    if (rank == 0) {
      all[0] = mine;
      for (int64_t i = 1; i < size; ++i)
        welcome(listener, deadline, all);
      for (int64_t i = 1; i < size; ++i)
        sendAll(peers[size_t(i)].socket.get(), all.data(),
                all.size() * sizeof(Hello));
    } else {
      Socket leader = connectTo(host, port, deadline);
      sendAll(leader.get(), &mine, sizeof(mine));
      // It answers when all are there, and says who is not when its time is up.
      limitReceiving(leader, deadline + std::chrono::seconds(1));
      receiveAll(leader.get(), all.data(), all.size() * sizeof(Hello),
                 "rank 0");
      peers[0].socket = std::move(leader);
      for (int64_t i = 1; i < rank; ++i) {
        Socket socket =
            connectTo(all[size_t(i)].host, int(all[size_t(i)].port), deadline);
        sendAll(socket.get(), &mine, sizeof(mine));
        peers[size_t(i)].socket = std::move(socket);
      }
      for (int64_t i = rank + 1; i < size; ++i)
        welcome(listener, deadline, all);
    }
    for (Peer &peer : peers)
      if (peer.socket.get() >= 0) {
        int on = 1;
        ::setsockopt(peer.socket.get(), IPPROTO_TCP, TCP_NODELAY, &on,
                     sizeof(on));
        ::fcntl(peer.socket.get(), F_SETFL,
                ::fcntl(peer.socket.get(), F_GETFL) | O_NONBLOCK);
      }
  }

  int64_t rank() const override { return number; }
  int64_t size() const override { return count; }
  std::string name() const override { return "TCP"; }

  void begin(const std::vector<Message> &messages) override {
    for (const Message &m : messages) {
      Peer &peer = peers[size_t(m.peer)];
      peer.sendFrom = static_cast<const char *>(m.send);
      peer.sendLeft = m.sendBytes;
      peer.receiveTo = static_cast<char *>(m.receive);
      peer.receiveLeft = m.receiveBytes;
    }
  }

  size_t poll(int64_t &missing) override {
    size_t open = 0;
    missing = -1;
    for (int64_t i = 0; i < count; ++i) {
      Peer &peer = peers[size_t(i)];
      while (peer.sendLeft > 0) {
        ssize_t sent = ::send(peer.socket.get(), peer.sendFrom, peer.sendLeft,
                              MSG_NOSIGNAL);
        if (!moved(sent, peer))
          break;
        peer.sendFrom += sent;
        peer.sendLeft -= size_t(sent);
      }
      while (peer.receiveLeft > 0) {
        ssize_t got =
            ::recv(peer.socket.get(), peer.receiveTo, peer.receiveLeft, 0);
        if (got == 0)
          peer.gone = true;
        if (!moved(got, peer))
          break;
        peer.receiveTo += got;
        peer.receiveLeft -= size_t(got);
      }
      open += (peer.sendLeft > 0) + (peer.receiveLeft > 0);
      if (missing < 0 && (peer.receiveLeft > 0 || peer.sendLeft > 0))
        missing = i;
    }
    return open;
  }

  void leave() override {
    for (Peer &peer : peers)
      peer.socket = Socket();
  }

private:
  struct Peer {
    Socket socket;
    const char *sendFrom = nullptr;
    char *receiveTo = nullptr;
    uint64_t sendLeft = 0, receiveLeft = 0;
    bool gone = false;
  };

  /// A connection that broke stays open here: the wait for it then ends as one
  /// for a rank that does not answer, and finds out what became of it.
  static bool moved(ssize_t bytes, Peer &peer) {
    if (bytes > 0)
      return true;
    if (bytes < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
      peer.gone = true;
    return bytes < 0 && errno == EINTR;
  }

  /// Ranks that have not come: those below this one are reached, not awaited.
  [[noreturn]] void failAsMissing() const {
    std::string names;
    for (int64_t i = number + 1; i < count; ++i)
      if (peers[size_t(i)].socket.get() < 0)
        names += (names.empty() ? "rank " : ", rank ") + std::to_string(i);
    throw failure(names + " has not started in time (--timeout)");
  }

  void welcome(const Socket &listener, Clock::time_point deadline,
               std::vector<Hello> &all) {
    while (true) {
      Socket socket = acceptFrom(listener, deadline);
      if (socket.get() < 0)
        failAsMissing();
      limitReceiving(socket, Clock::now() + std::chrono::seconds(5));
      Hello its = {};
      sockaddr_in address = {};
      socklen_t length = sizeof(address);
      try {
        receiveAll(socket.get(), &its, sizeof(its), "another rank");
      } catch (const Error &) {
        continue; // not one of ours
      }
      if (std::memcmp(its.magic, kMagic, sizeof(kMagic)) != 0)
        continue;
      if (its.size != count || its.rank < 1 || its.rank >= count ||
          peers[size_t(its.rank)].socket.get() >= 0)
        throw badInput("a rank says it is " + std::to_string(its.rank) +
                       " of " + std::to_string(its.size) + ", expected each " +
                       "of " + std::to_string(count) + " ranks once");
      ::getpeername(socket.get(), reinterpret_cast<sockaddr *>(&address),
                    &length);
      ::inet_ntop(AF_INET, &address.sin_addr, its.host, sizeof(its.host));
      all[size_t(its.rank)] = its;
      peers[size_t(its.rank)].socket = std::move(socket);
      return;
    }
  }

  int64_t number, count;
  std::vector<Peer> peers;
};

} // namespace

std::unique_ptr<Channel> blurt::openTcpChannel(int64_t rank, int64_t size,
                                               const std::string &host,
                                               int port, double timeout) {
  return std::make_unique<TcpChannel>(rank, size, host, port, timeout);
}
