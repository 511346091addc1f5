//===- Session.cpp - A program with its arena -----------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blurt/Session.h"
#include "blurt/Convert.h"
#include "blurt/Error.h"
#include "blurt/File.h"
#include "blurt/FiniteCheck.h"
#include "blurt/World.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <limits>
#include <thread>

using namespace blurt;

static const blurt_program &verified(const blurt_program &program) {
  verifyProgram(program);
  return program;
}

static std::unique_ptr<CudaDevice> openDevice(const blurt_program &program,
                                              const SessionOptions &options) {
  if (!program.device)
    return nullptr;
  return std::make_unique<CudaDevice>(resolveDevice(options.device),
                                      requiredCudaVersion(program));
}

Session::Session(const blurt_program &program, const SessionOptions &options)
    : table(verified(program)), cuda(openDevice(program, options)),
      backend(cuda ? createCudaBackend(*cuda) : createHostBackend()),
      allocator(*backend), context(options.threads) {
  if (cuda)
    deviceCode = std::make_unique<CudaCode>(*cuda, program);
  context.setCode(deviceCode.get());
  context.world = options.world;
  std::string owner = "the arena";
  auto largest = std::max_element(
      entriesOf(program).begin(), entriesOf(program).end(),
      [](const auto &a, const auto &b) { return a.peak_bytes < b.peak_bytes; });
  if (largest != entriesOf(program).end())
    owner += std::string(" of '") + program.name + "' (the plan of entry '" +
             largest->name + "' needs " + formatBytes(largest->peak_bytes) +
             ", state " + formatBytes(program.state_bytes) + " of it)";
  base =
      static_cast<std::byte *>(allocator.allocate(program.peak_bytes, owner));
  if (cuda)
    startDevice(options);
  context.setShadowMaker([this] {
    auto shadow = std::make_unique<ShadowMemory>(base, table.peak_bytes);
    if (cuda)
      shadow->setPoison([this](void *address, uint64_t bytes) {
        cuda->fill(address, 0xFF, bytes);
      });
    markReadable(*shadow, *running);
    return shadow;
  });
}

void Session::startDevice(const SessionOptions &options) {
  cuda->book("arena");
  if (context.world) {
    context.world->setTransport(
        createNcclTransport(*cuda, deviceCode.get(), *context.world));
    cuda->book("NCCL");
  }
  deviceCode->prepareProducts(base + table.device->workspace_offset,
                              options.tune);
  if (uint64_t counters = table.device->counters_offset)
    cuda->fill(base + counters, 0, kCounterBytes);
  pinnedBackend = createPinnedBackend(*cuda);
  pinned = std::make_unique<CachingAllocator>(*pinnedBackend);
  planTransfers();
  plainRuns.resize(size_t(table.num_entries));
  graphs.resize(size_t(table.num_entries));
  useGraphs = options.graphs && !deviceCode->waits() &&
              !environmentFlag("BLURT_NO_GRAPH");
  for (CudaDevice::Event *events : {began, ended})
    for (uint64_t i = 0; i < kEvents; ++i)
      events[i] = cuda->createEvent();
  cuda->book("events");
}

Session::~Session() {
  if (cuda) {
    // Work in the queue still reads the buffers. If it failed, that has been
    // reported.
    // After an error it may be in collectives that others do not come to.
    // Cutting them short waits for graphs that have them, which wait for them.
    std::thread cutting;
    if (context.world && std::uncaught_exceptions() > 0)
      cutting = std::thread([this] { context.world->abandon(); });
    try {
      cuda->synchronize("the end of the program");
    } catch (const Error &) {
    }
    graphs.clear();
    if (cutting.joinable())
      cutting.join();
    // It uses the device, which goes before the world does, and waits for the
    // graphs that have calls of it.
    if (context.world)
      context.world->setTransport(nullptr);
    for (CudaDevice::Event *events : {began, ended})
      for (uint64_t i = 0; i < kEvents; ++i)
        if (events[i])
          cuda->destroyEvent(events[i]);
    for (std::byte *buffer : buffers)
      pinned->deallocate(buffer);
  }
  deviceCode.reset();
  allocator.deallocate(base);
}

void Session::planTransfers() {
  uint64_t most = 1;
  for (const blurt_entry &entry : entriesOf(table)) {
    Layout &layout = layouts.emplace_back();
    layout.staged.resize(size_t(entry.num_tensors), UINT64_MAX);
    // Counters are at the front of every buffer, whatever entry it is for.
    uint64_t end = table.device->counters_offset ? BLURT_ALIGNMENT : 0;
    // Tensors that follow each other in the arena go in one copy: between them
    // is nothing but the padding of their alignment.
    auto plan = [&](std::vector<Transfer> &transfers, auto &&wanted) {
      std::vector<const blurt_tensor *> tensors;
      for (const blurt_tensor &t : tensorsOf(entry))
        if (wanted(t) && storedBytes(t))
          tensors.push_back(&t);
      std::sort(tensors.begin(), tensors.end(),
                [](auto *a, auto *b) { return a->offset < b->offset; });
      for (const blurt_tensor *t : tensors) {
        uint64_t padded = transfers.empty()
                              ? 0
                              : (transfers.back().offset +
                                 transfers.back().bytes + BLURT_ALIGNMENT - 1) /
                                    BLURT_ALIGNMENT * BLURT_ALIGNMENT;
        if (transfers.empty() || t->offset != padded) {
          end = (end + BLURT_ALIGNMENT - 1) / BLURT_ALIGNMENT * BLURT_ALIGNMENT;
          transfers.push_back({t->offset, end, 0});
        }
        Transfer &last = transfers.back();
        last.bytes = t->offset + storedBytes(*t) - last.offset;
        layout.staged[size_t(t - entry.tensors)] =
            last.staged + (t->offset - last.offset);
        end = last.staged + last.bytes;
      }
    };
    plan(layout.in, [](const blurt_tensor &t) {
      return t.role == BLURT_INPUT || t.role == BLURT_SCALAR;
    });
    plan(layout.out, [](const blurt_tensor &t) {
      return t.role == BLURT_OUTPUT && elementCount(t) == 1 &&
             t.stack_count <= 1;
    });
    if (table.device->counters_offset)
      layout.out.push_back({table.device->counters_offset, 0, kCounterBytes});
    most = std::max(most, end);
  }
  for (std::byte *&buffer : buffers) {
    buffer = static_cast<std::byte *>(
        pinned->allocate(most, "the buffer of inputs and results"));
    std::memset(buffer, 0, most);
  }
}

std::byte *Session::staged(uint64_t call, const blurt_tensor &tensor) {
  for (size_t i = 0; i < layouts.size(); ++i) {
    std::span<const blurt_tensor> tensors = tensorsOf(table.entries[i]);
    if (&tensor < tensors.data() || &tensor >= tensors.data() + tensors.size())
      continue;
    uint64_t offset = layouts[i].staged[size_t(&tensor - tensors.data())];
    if (offset != UINT64_MAX)
      return buffers[call % kBuffers] + offset;
  }
  throw failure(std::string("tensor '") + tensor.name +
                "': expected an input, a scalar or an output of one number");
}

std::byte *Session::stage(const blurt_tensor &tensor) {
  if (!cuda)
    return base + tensor.offset;
  // The buffer is free once the call that used it is done.
  if (calls >= kBuffers)
    finish(calls - kBuffers);
  return staged(calls, tensor);
}

DeviceMemory Session::deviceMemory() const {
  MemoryInfo info = cuda->memoryInfo();
  return {table.peak_bytes,         allocator.stats().reserved,
          pinned->stats().reserved, info.total - info.free,
          cuda->usedAtStart(),      info.total};
}

const ShadowMemory *Session::shadow() {
  return context.hasShadow() ? &context.shadow() : nullptr;
}

void Session::markReadable(ShadowMemory &shadow, const blurt_entry &entry) {
  shadow.define(base, table.state_bytes, "state");
  for (const blurt_tensor &t : tensorsOf(entry))
    if (t.role == BLURT_INPUT || t.role == BLURT_SCALAR)
      shadow.define(base + t.offset,
                    uint64_t(elementCount(t)) * dtypeSize(t.dtype), t.name);
}

void Session::runEntry(const blurt_entry &entry) {
  auto plain = [&] { entry.run(&context, base); };
  if (!cuda)
    return plain();
  size_t index = size_t(&entry - table.entries);
  TransferCounts before =
      context.world ? context.world->counts() : TransferCounts();
  std::unique_ptr<CudaGraph> &graph = graphs[index];
  // Reports of a debug build are not the queue's, and times are by launch.
  if (useGraphs && !context.hasShadow() && !context.finiteCheck &&
      !deviceCode->times()) {
    if (!graph && plainRuns[index].count > 0)
      graph =
          std::make_unique<CudaGraph>(*cuda, *deviceCode, entry.name, plain);
    if (graph) {
      // What a capture counted was not done.
      if (context.world)
        context.world->setCounts(before + plainRuns[index].sent);
      return graph->launch();
    }
  }
  plain();
  deviceCode->rethrow();
  ++plainRuns[index].count;
  if (context.world)
    plainRuns[index].sent = context.world->counts() - before;
}

uint64_t Session::queue(const blurt_entry &entry) {
  running = &entry;
  if (context.hasShadow()) {
    // What another entry left in scratch is not this one's to read.
    context.shadow().forget(table.state_bytes);
    markReadable(context.shadow(), entry);
  }
  uint64_t call = calls;
  const Layout *layout = nullptr;
  if (cuda) {
    layout = &layouts[size_t(&entry - table.entries)];
    std::byte *buffer = buffers[call % kBuffers];
    if (context.world)
      context.world->transport()->beginCall();
    cuda->record(began[call % kEvents]);
    for (const Transfer &t : layout->in)
      cuda->upload(base + t.offset, buffer + t.staged, t.bytes);
    if (!layout->in.empty())
      deviceCode->copied(/*in=*/true);
  }
  TransferCounts before;
  if (context.world)
    before = context.world->counts();
  runEntry(entry);
  if (cuda) {
    std::byte *buffer = buffers[call % kBuffers];
    for (const Transfer &t : layout->out)
      cuda->download(buffer + t.staged, base + t.offset, t.bytes);
    if (!layout->out.empty())
      deviceCode->copied(/*in=*/false);
    if (context.world)
      context.world->transport()->endCall();
    cuda->record(ended[call % kEvents]);
  }
  if (context.world)
    transferred[call % kEvents] = context.world->counts() - before;
  ++calls;
  if (!context.hasShadow())
    return call;
  for (const blurt_tensor &t : tensorsOf(entry))
    if (t.role == BLURT_OUTPUT || t.role == BLURT_GRADIENT)
      for (const TensorInstance &i : instances({&t, 1}, t.role))
        context.shadow().use(base + i.offset, i.arenaBytes(), i.name.c_str());
  return call;
}

void Session::finish(uint64_t call) {
  if (!cuda || call < finished)
    return;
  cuda->wait(ended[call % kEvents]);
  if (context.world)
    context.world->requireWhole();
  finished = call + 1;
}

double Session::milliseconds(uint64_t call, bool fromPrevious) const {
  return fromPrevious
             ? cuda->elapsed(ended[(call - 1) % kEvents], ended[call % kEvents])
             : cuda->elapsed(began[call % kEvents], ended[call % kEvents]);
}

template <typename T>
static void writeAs(std::byte *to, double value, const char *name) {
  constexpr double least = double(std::numeric_limits<T>::min());
  constexpr double most = double(std::numeric_limits<T>::max());
  // The largest 64-bit integer rounds up to 2^63, which is out of range.
  if (!(value >= least && (sizeof(T) == 8 ? value < most : value <= most)) ||
      double(static_cast<T>(value)) != value)
    throw failure(std::string("scalar '") + name +
                  "': " + std::to_string(value) + " does not fit its dtype");
  T narrow = static_cast<T>(value);
  std::memcpy(to, &narrow, sizeof(T));
}

void Session::writeScalar(const blurt_tensor &tensor, double value) {
  std::byte *to = stage(tensor);
  switch (tensor.dtype) {
  case BLURT_F64:
    std::memcpy(to, &value, 8);
    return;
  case BLURT_F32: {
    float narrow = static_cast<float>(value);
    std::memcpy(to, &narrow, 4);
    return;
  }
  case BLURT_BF16: {
    uint16_t narrow = toBf16(value);
    std::memcpy(to, &narrow, 2);
    return;
  }
  case BLURT_I64:
    return writeAs<int64_t>(to, value, tensor.name);
  case BLURT_I32:
    return writeAs<int32_t>(to, value, tensor.name);
  default:
    return writeAs<uint8_t>(to, value, tensor.name);
  }
}

void Session::writeScalar(const blurt_tensor &tensor, int64_t value) {
  // A double does not hold every integer.
  if (tensor.dtype == BLURT_I64)
    std::memcpy(stage(tensor), &value, 8);
  else
    writeScalar(tensor, static_cast<double>(value));
}

static double loadElement(int32_t dtype, const std::byte *from) {
  auto as = [from]<typename T>(T value) {
    std::memcpy(&value, from, sizeof(T));
    return value;
  };
  switch (dtype) {
  case BLURT_F64:
    return as(double());
  case BLURT_F32:
    return as(float());
  case BLURT_BF16:
    return fromBf16(as(uint16_t()));
  case BLURT_I64:
    return static_cast<double>(as(int64_t()));
  case BLURT_I32:
    return as(int32_t());
  default:
    return as(uint8_t());
  }
}

double Session::number(uint64_t call, const blurt_tensor &tensor) {
  return loadElement(tensor.dtype,
                     cuda ? staged(call, tensor) : base + tensor.offset);
}

std::vector<uint64_t> Session::counters(uint64_t call) {
  if (!cuda || !table.device->counters_offset)
    return {};
  std::vector<uint64_t> counts(BLURT_NUM_COUNTERS);
  std::memcpy(counts.data(), buffers[call % kBuffers], kCounterBytes);
  return counts;
}

std::vector<double> Session::readElements(const blurt_tensor &tensor,
                                          int64_t first, int64_t count) {
  uint64_t size = dtypeSize(tensor.dtype);
  uint64_t begin = tensor.offset + uint64_t(first) * size;
  const std::byte *from = base + begin;
  std::vector<std::byte> copy;
  if (cuda) {
    copy.resize(uint64_t(count) * size);
    arena().read(begin, copy.data(), copy.size());
    from = copy.data();
  }
  std::vector<double> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    values[size_t(i)] = loadElement(tensor.dtype, from + uint64_t(i) * size);
  return values;
}

std::string Session::findNonfinite(const blurt_entry &entry) {
  FiniteCheck check([this](const void *from, void *to, uint64_t bytes) {
    arena().read(uint64_t(static_cast<const std::byte *>(from) - base), to,
                 bytes);
  });
  context.finiteCheck = &check;
  try {
    run(entry);
  } catch (...) {
    context.finiteCheck = nullptr;
    throw;
  }
  context.finiteCheck = nullptr;
  return check.found();
}

void Session::clearCaches(const blurt_entry &entry) {
  auto clear = [&](std::span<const blurt_tensor> tensors) {
    for (const TensorInstance &t : instances(tensors, BLURT_CACHE))
      arena().zero(t.offset, t.arenaBytes());
  };
  clear(stateOf(table));
  clear(tensorsOf(entry));
}

const blurt_entry &blurt::requireEntry(const blurt_program &program,
                                       std::string_view name,
                                       std::string_view command) {
  if (const blurt_entry *entry = findEntry(program, name))
    return *entry;
  std::string have;
  for (const blurt_entry &entry : entriesOf(program))
    have += (have.empty() ? "'" : ", '") + std::string(entry.name) + "'";
  throw badInput(std::string(command) + ": expected a program with an entry '" +
                 std::string(name) + "', got '" + program.name + "' with " +
                 (have.empty() ? "none" : have));
}
