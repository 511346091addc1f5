//===- WorldTest.cpp - ranks, channels, collectives -----------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blurt/World.h"
#include "blurt/Cuda.h"
#include "blurt/Error.h"
#include "blurt/Weights.h"

#include "gtest/gtest.h"

#include <arpa/inet.h>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <functional>
#include <netinet/in.h>
#include <numeric>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

using namespace blurt;

namespace {

int freePort() {
  int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  ::bind(socket, reinterpret_cast<sockaddr *>(&address), length);
  ::getsockname(socket, reinterpret_cast<sockaddr *>(&address), &length);
  ::close(socket);
  return ntohs(address.sin_port);
}

/// Runs `body` as each of `size` ranks, a thread each.
void asRanks(int64_t size, const blurt_program &program,
             const std::function<void(World &)> &body, double timeout = 20) {
  int port = freePort();
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      World world(program,
                  openTcpChannel(rank, size, "127.0.0.1", port, timeout),
                  timeout);
      world.setTransport(createHostTransport(world));
      body(world);
      world.leave();
    });
  for (std::thread &thread : threads)
    thread.join();
}

/// Two rows of 7 elements, and one of 2, of which not every rank has a part.
const blurt_collective_value kValues[] = {{2, 7, 3, BLURT_F32, 0},
                                          {1, 2, 1, BLURT_F64, 0}};
const blurt_collective kCollectives[] = {
    {BLURT_REDUCE_SCATTER, 2, 3, "dp", "reduce_scatter at m.mlir:1:2", kValues},
    {BLURT_ALL_GATHER, 2, 3, "dp", "all_gather at m.mlir:2:2", kValues},
    {BLURT_LOCAL_SHARD, 2, 3, "dp", "local_shard at m.mlir:3:2", kValues}};

void run(World &world, int32_t number, void *const *args) {
  world.start(number, args);
  world.wait(number);
}

blurt_program makeProgram() {
  blurt_program program = {};
  program.abi_version = BLURT_ABI_VERSION;
  program.plan_hash = "00";
  program.num_collectives = 3;
  program.devices = 3;
  program.collectives = kCollectives;
  return program;
}

TEST(World, Gathers) {
  blurt_program program = makeProgram();
  asRanks(4, program, [](World &world) {
    int64_t mine = 10 * world.rank(), all[4] = {};
    world.gather(&mine, sizeof(mine), all, "a test");
    for (int64_t i = 0; i < 4; ++i)
      EXPECT_EQ(all[i], 10 * i);
    EXPECT_EQ(world.most(uint64_t(7 - world.rank()), "a test"), 7u);
    EXPECT_EQ(world.sum(uint64_t(world.rank()), "a test"), 6u);
    EXPECT_EQ(world.fromLeader(world.leads() ? "text" : "", "a test"), "text");
    EXPECT_EQ(world.fromLeader("", "a test"), "");
    world.compareSchedules();
  });
}

TEST(World, CollectivesOfUnevenPieces) {
  blurt_program program = makeProgram();
  asRanks(3, program, [](World &world) {
    float a[14], piece[6];
    double b[2] = {1.0 + double(world.rank()), 5.0}, number[1];
    for (int i = 0; i < 14; ++i)
      a[i] = float(i) * float(world.rank() + 1);
    void *scatter[] = {a, b, piece, number};
    run(world, 0, scatter);
    auto at = [&](int row, int i) {
      int64_t k = world.rank() * 3 + i;
      return k < 7 ? float(row * 7 + k) * 6 : 0.f;
    };
    for (int row = 0; row < 2; ++row)
      for (int i = 0; i < 3; ++i)
        EXPECT_EQ(piece[row * 3 + i], at(row, i));
    EXPECT_EQ(number[0], world.rank() == 0   ? 6.0
                         : world.rank() == 1 ? 15.
                                             : 0.);
    float whole[14] = {};
    double pair[2] = {};
    void *gather[] = {piece, number, whole, pair};
    run(world, 1, gather);
    for (int i = 0; i < 14; ++i)
      EXPECT_EQ(whole[i], float(i) * 6);
    EXPECT_EQ(pair[0], 6.0);
    EXPECT_EQ(pair[1], 15.0);
    float cut[6];
    double own[1];
    void *local[] = {whole, pair, cut, own};
    run(world, 2, local);
    for (int i = 0; i < 6; ++i)
      EXPECT_EQ(cut[i], piece[i]);
    EXPECT_EQ(own[0], number[0]);
    // Cutting sends nothing; what goes out is a piece to each of two others.
    EXPECT_EQ(world.counts().calls, 2u);
    EXPECT_EQ(world.counts().bytes, 2u * 2 * (6 * 4 + 8));
  });
}

TEST(World, SumsInTheOrderOfRanks) {
  blurt_program program = makeProgram();
  asRanks(3, program, [](World &world) {
    // (1 + 2^24) - 2^24 is 0 in floats, 1 + (2^24 - 2^24) is 1.
    const float terms[] = {1.f, 16777216.f, -16777216.f};
    float a[14], piece[6];
    double b[2] = {}, number[1];
    std::fill(a, a + 14, terms[world.rank()]);
    void *scatter[] = {a, b, piece, number};
    for (int round = 0; round < 5; ++round) {
      run(world, 0, scatter);
      EXPECT_EQ(piece[0], 0.f);
    }
  });
}

TEST(World, NamesWhoIsMissing) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        blurt_program program = makeProgram();
        asRanks(
            2, program,
            [](World &world) {
              if (world.rank() == 1) {
                std::this_thread::sleep_for(std::chrono::seconds(5));
                return;
              }
              int64_t mine = 0, all[2];
              world.gather(&mine, sizeof(mine), all, "a test");
            },
            0.5);
      },
      testing::ExitedWithCode(ExitFailure),
      "rank 0: rank 1 \\(process [0-9]+ on .*\\) has not arrived in a test, "
      "for 0.5 s");
}

TEST(World, NamesTheOneThatOthersWaitFor) {
  // Rank 0 waits for rank 2, which waits for rank 1.
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        blurt_program program = makeProgram();
        asRanks(
            3, program,
            [](World &world) {
              int64_t mine = 0, other = 0;
              if (world.rank() == 2)
                world.exchange({{1, nullptr, 0, &other, 8}}, "a first test");
              if (world.rank() == 1)
                std::this_thread::sleep_for(std::chrono::seconds(5));
              if (world.rank() == 0) {
                world.exchange({}, "a first test");
                world.exchange({{2, &mine, 8, &other, 8}}, "a second test");
              }
            },
            0.5);
      },
      testing::ExitedWithCode(ExitFailure),
      "rank [02]: rank 1 \\(process [0-9]+ on .*\\) has not arrived in a "
      "second test, for 0.5 s|rank 2: rank 1 \\(.*\\) has not arrived in what "
      "comes after a first test");
}

TEST(World, EndsWithItsCode) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        blurt_program program = makeProgram();
        asRanks(2, program, [](World &world) {
          if (world.rank() == 1)
            world.fail("the disk is full", ExitBadInput);
          int64_t mine = 0, all[2];
          world.gather(&mine, sizeof(mine), all, "a test");
        });
      },
      testing::ExitedWithCode(ExitBadInput), "rank 1: the disk is full");
}

TEST(World, NamesWhoHasNotStarted) {
  int port = freePort();
  try {
    openTcpChannel(0, 3, "127.0.0.1", port, 0.2);
    FAIL() << "expected an error";
  } catch (const Error &error) {
    EXPECT_STREQ(error.what(),
                 "rank 1, rank 2 has not started in time (--timeout)");
  }
}

TEST(World, NamesWhoDiffers) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        blurt_program program = makeProgram();
        asRanks(2, program, [](World &world) {
          world.requireSame("answer", world.leads() ? "42" : "41");
        });
      },
      testing::ExitedWithCode(ExitFailure),
      "rank 1 has another answer than rank 0: expected 42, got 41");
}

TEST(World, StateIsCollectedAndDistributed) {
  // A stack of two iterations of 5 elements in pieces of 2, and a whole one.
  const int64_t piece[] = {2}, shape[] = {5}, three[] = {3};
  blurt_tensor cut = {}, plain = {};
  cut.name = "s.{i}.w";
  cut.role = BLURT_MOMENT1;
  cut.dtype = BLURT_F32;
  cut.rank = 1;
  cut.shape = piece;
  cut.stack_count = 2;
  cut.stack_stride = 8;
  cut.shards = 3;
  cut.shard_rank = 1;
  cut.shard_shape = shape;
  plain.name = "v";
  plain.role = BLURT_PARAM;
  plain.dtype = BLURT_F32;
  plain.rank = 1;
  plain.shape = three;
  plain.offset = 64;
  const blurt_tensor state[] = {cut, plain};
  blurt_program program = makeProgram();
  program.state = state;
  program.num_state = 2;
  program.state_bytes = 128;
  asRanks(3, program, [&](World &world) {
    std::vector<float> arena(32, 0.f);
    auto rank = int(world.rank());
    for (int row = 0; row < 2; ++row)
      for (int i = 0; i < 2; ++i)
        if (rank * 2 + i < 5)
          arena[size_t(row * 2 + i)] = float(row * 5 + rank * 2 + i);
    for (int i = 0; i < 3; ++i)
      arena[size_t(16 + i)] = float(100 + i);
    Arena own(reinterpret_cast<std::byte *>(arena.data()));
    std::vector<float> again(32, 0.f);
    Arena other(reinterpret_cast<std::byte *>(again.data()));
    for (const TensorInstance &t :
         {instances(stateOf(program), BLURT_MOMENT1)[0],
          instances(stateOf(program), BLURT_MOMENT1)[1],
          instances(stateOf(program), BLURT_PARAM)[0]}) {
      std::vector<float> all;
      readTensor(t, own, &world, [&](const std::byte *data) {
        all.resize(size_t(t.elements));
        std::memcpy(all.data(), data, t.bytes());
      });
      EXPECT_EQ(all.empty(), t.isCut() && !world.leads());
      // Every rank writes what rank 0 has read.
      std::string text = world.fromLeader(
          std::string(reinterpret_cast<char *>(all.data()), 4 * all.size()),
          "a test");
      ASSERT_EQ(text.size(), t.bytes());
      const auto *numbers = reinterpret_cast<const float *>(text.data());
      for (int64_t i = 0; i < t.elements; ++i)
        EXPECT_EQ(numbers[i], !t.isCut()     ? 100.f + float(i)
                              : t.offset > 0 ? 5.f + float(i)
                                             : float(i));
      writeTensor(t, other, &world,
                  reinterpret_cast<const std::byte *>(text.data()));
    }
    EXPECT_EQ(again, arena);
  });
}

/// Calls of NCCL for one collective of two ranks, as rank 0 makes them.
std::string ncclCalls(const blurt_collective &collective,
                      const std::vector<size_t> &addresses) {
  setenv("BLURT_LIBCUDA", BLURT_FAKE_CUDA, 1);
  setenv("BLURT_NCCL", BLURT_FAKE_NCCL, 1);
  void *library = dlopen(BLURT_FAKE_NCCL, RTLD_NOW);
  auto start =
      reinterpret_cast<void (*)(void *)>(dlsym(library, "fake_nccl_start"));
  auto calls =
      reinterpret_cast<const char *(*)()>(dlsym(library, "fake_nccl_calls"));
  blurt_program program = {};
  program.plan_hash = "00";
  program.num_collectives = 1;
  program.collectives = &collective;
  std::string found;
  asRanks(2, program, [&](World &world) {
    if (!world.leads()) {
      world.fromLeader("", "telling NCCL's id");
      return;
    }
    std::vector<std::byte> memory(4096);
    CudaDevice device(0, 13000);
    start(memory.data());
    world.setTransport(createNcclTransport(device, nullptr, world));
    EXPECT_EQ(world.transport()->name(), "NCCL 2.27.3");
    std::vector<void *> args;
    for (size_t address : addresses)
      args.push_back(memory.data() + address);
    run(world, 0, args.data());
    device.synchronize("a test");
    found = calls();
    world.setTransport(nullptr);
  });
  return found;
}

TEST(Nccl, EvenPiecesAreOneGroup) {
  // Two rows of 6, and 4 numbers of bf16.
  const blurt_collective_value values[] = {{2, 6, 3, BLURT_F32, 0},
                                           {1, 4, 2, BLURT_BF16, 0}};
  EXPECT_EQ(ncclCalls({BLURT_REDUCE_SCATTER, 2, 2, "dp", "an op", values},
                      {0, 256, 512, 768}),
            "join 0 of 2 id 7\nstart\nreduce_scatter 0 512 3 type 7\n"
            "reduce_scatter 24 524 3 type 7\nreduce_scatter 256 768 2 type 9\n"
            "end\n");
  EXPECT_EQ(ncclCalls({BLURT_ALL_GATHER, 2, 2, "dp", "an op", values},
                      {512, 768, 0, 256}),
            "join 0 of 2 id 7\nstart\nall_gather 512 0 3 type 7\n"
            "all_gather 524 24 3 type 7\nall_gather 768 256 2 type 9\nend\n");
}

TEST(Nccl, UnevenPiecesGoByRoot) {
  const blurt_collective_value values[] = {{1, 5, 3, BLURT_F64, 0}};
  EXPECT_EQ(
      ncclCalls({BLURT_REDUCE_SCATTER, 1, 2, "dp", "an op", values}, {0, 512}),
      "join 0 of 2 id 7\nstart\nreduce 0 512 3 type 8 root 0\n"
      "reduce 24 512 2 type 8 root 1\nend\n");
  EXPECT_EQ(
      ncclCalls({BLURT_ALL_GATHER, 1, 2, "dp", "an op", values}, {512, 0}),
      "join 0 of 2 id 7\nstart\nbroadcast 512 0 3 type 8 root 0\n"
      "broadcast 512 24 2 type 8 root 1\nend\n");
  // A rank's own piece is a copy.
  EXPECT_EQ(
      ncclCalls({BLURT_LOCAL_SHARD, 1, 2, "dp", "an op", values}, {0, 512}),
      "join 0 of 2 id 7\n");
}

/// A program of two ranks with one collective, as rank 0 sees it: it reads 8
/// floats of the device at `from` and writes 4 at `to`.
struct RankZero {
  World &world;
  CudaDevice &device;
  CudaCode &code;
  float *from, *to;
};

void asRankZero(const std::function<void(RankZero)> &body) {
  setenv("BLURT_LIBCUDA", BLURT_FAKE_CUDA, 1);
  setenv("BLURT_NCCL", BLURT_FAKE_NCCL, 1);
  const blurt_collective_value values[] = {{1, 8, 4, BLURT_F32, 0}};
  const blurt_collective collective = {
      BLURT_REDUCE_SCATTER, 1, 2, "dp", "an op", values};
  blurt_device_code none = {};
  blurt_program program = {};
  program.name = "unit";
  program.plan_hash = "00";
  program.num_collectives = 1;
  program.collectives = &collective;
  program.device = &none;
  asRanks(2, program, [&](World &world) {
    if (!world.leads()) {
      world.fromLeader("", "telling NCCL's id");
      return;
    }
    CudaDevice device(0, 13000);
    CudaCode code(device, program);
    std::unique_ptr<Backend> backend = createCudaBackend(device);
    auto *memory = static_cast<float *>(backend->allocate(64));
    world.setTransport(createNcclTransport(device, &code, world));
    body({world, device, code, memory, memory + 8});
    world.setTransport(nullptr);
    backend->free(memory, 64);
  });
}

/// What is in the first float that the collective writes when all that `queue`
/// queues is done; -1 if a capture of it ends before it does.
float seenOfCollective(const std::function<void(RankZero)> &queue, bool asGraph,
                       bool isEarly) {
  if (isEarly)
    setenv("FAKE_CUDA_EARLY", "1", 1);
  float seen = -1;
  asRankZero([&](RankZero rank) {
    try {
      if (asGraph) {
        CudaGraph graph(rank.device, rank.code, "unit", [&] { queue(rank); });
        graph.launch();
        graph.launch();
        rank.device.read(&seen, rank.to, sizeof(seen));
      } else {
        queue(rank);
        rank.device.read(&seen, rank.to, sizeof(seen));
      }
    } catch (const Error &error) {
      EXPECT_NE(std::string(error.what()).find("UNJOINED"), std::string::npos)
          << error.what();
    }
  });
  unsetenv("FAKE_CUDA_EARLY");
  return seen;
}

TEST(Nccl, WaitsWhereTheProgramSaysSo) {
  // Bytes of 0x40 are a float of 3.0039.
  uint32_t bits = 0x40404040;
  float value;
  std::memcpy(&value, &bits, 4);
  auto queue = [](RankZero rank, bool waits) {
    void *args[] = {rank.from, rank.to};
    rank.device.fill(rank.to, 0, 16);
    rank.device.fill(rank.from, 0x40, 32);
    rank.world.start(0, args);
    if (waits)
      rank.world.wait(0);
    rank.device.fill(rank.from, 0, 32);
  };
  auto waiting = [&](RankZero rank) { queue(rank, true); };
  auto careless = [&](RankZero rank) { queue(rank, false); };
  for (bool asGraph : {false, true}) {
    for (bool isEarly : {false, true})
      EXPECT_EQ(seenOfCollective(waiting, asGraph, isEarly), 2 * value);
    // The stand-in shows a wait that is missing, and a capture that ends early.
    EXPECT_NE(seenOfCollective(careless, asGraph, false), 2 * value);
  }
  // A wait for what has not been started is none.
  auto cautious = [&](RankZero rank) {
    rank.world.wait(0);
    queue(rank, true);
    rank.world.wait(0);
  };
  EXPECT_EQ(seenOfCollective(cautious, true, false), 2 * value);
}

TEST(Nccl, TimesCollectivesBesideTheRest) {
  asRankZero([](RankZero rank) {
    void *args[] = {rank.from, rank.to};
    rank.code.startTimes();
    rank.world.start(0, args);
    rank.world.wait(0);
    rank.code.stopTimes();
    rank.world.start(0, args);
    rank.world.wait(0);
    std::vector<DeviceSpan> spans = rank.code.takeSpans();
    ASSERT_EQ(spans.size(), 2u);
    EXPECT_FALSE(spans[0].isCollective);
    EXPECT_EQ(rank.code.describe(spans[0].item).name, "the wait for an op");
    EXPECT_TRUE(spans[1].isCollective);
    EXPECT_EQ(spans[1].round, 0);
    DeviceWork work = rank.code.describe(spans[1].item);
    EXPECT_EQ(work.name, "collective of 2 devices along dp");
    EXPECT_EQ(work.source, "an op");
    EXPECT_EQ(work.bytes, 16u);
    EXPECT_TRUE(work.isCollective);
  });
}

TEST(World, LateCollectivesRunWhenTheyAreWaitedFor) {
  setenv("BLURT_LATE_COLLECTIVES", "1", 1);
  blurt_program program = makeProgram();
  asRanks(3, program, [](World &world) {
    float a[14], piece[6] = {}, whole[14] = {};
    double b[2] = {1, 1}, number[1] = {}, pair[2] = {};
    std::fill(a, a + 14, 1.f);
    void *scatter[] = {a, b, piece, number};
    void *gather[] = {piece, number, whole, pair};
    world.start(0, scatter);
    world.start(1, gather);
    EXPECT_EQ(piece[0], 0.f);
    // Those that were started before come first.
    world.wait(1);
    EXPECT_EQ(piece[0], 3.f);
    EXPECT_EQ(whole[0], 3.f);
    world.wait(0);
    world.start(0, scatter);
    std::fill(a, a + 14, 2.f);
    world.wait(0);
    EXPECT_EQ(piece[0], 6.f);
  });
  unsetenv("BLURT_LATE_COLLECTIVES");
}

} // namespace
