//===- Session.cpp - A program with its arena -----------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blurt/Session.h"
#include "blurt/Convert.h"
#include "blurt/Error.h"
#include "blurt/File.h"

#include <algorithm>
#include <cstring>
#include <limits>

using namespace blurt;

Session::Session(const blurt_program &program, unsigned threads)
    : table(program), backend(createHostBackend()), allocator(*backend),
      context(threads) {
  verifyProgram(program);
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
  context.setShadowMaker([this] {
    auto shadow = std::make_unique<ShadowMemory>(base, table.peak_bytes);
    markReadable(*shadow, *running);
    return shadow;
  });
}

Session::~Session() { allocator.deallocate(base); }

const ShadowMemory *Session::shadow() {
  return context.hasShadow() ? &context.shadow() : nullptr;
}

void Session::markReadable(ShadowMemory &shadow, const blurt_entry &entry) {
  shadow.define(base, table.state_bytes, "state");
  for (const blurt_tensor &t : tensorsOf(entry))
    if (t.role == BLURT_INPUT || t.role == BLURT_SCALAR)
      shadow.define(address(t), uint64_t(elementCount(t)) * dtypeSize(t.dtype),
                    t.name);
}

void Session::run(const blurt_entry &entry) {
  running = &entry;
  if (context.hasShadow()) {
    // What another entry left in scratch is not this one's to read.
    context.shadow().forget(table.state_bytes);
    markReadable(context.shadow(), entry);
  }
  entry.run(&context, base);
  if (!context.hasShadow())
    return;
  for (const blurt_tensor &t : tensorsOf(entry))
    if (t.role == BLURT_OUTPUT || t.role == BLURT_GRADIENT)
      for (const TensorInstance &i : instances({&t, 1}, t.role))
        context.shadow().use(base + i.offset, i.bytes(), i.name.c_str());
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
  std::byte *to = address(tensor);
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
    std::memcpy(address(tensor), &value, 8);
  else
    writeScalar(tensor, static_cast<double>(value));
}

double Session::readElement(const blurt_tensor &tensor, int64_t index) {
  const std::byte *from =
      address(tensor) + uint64_t(index) * dtypeSize(tensor.dtype);
  auto as = [from]<typename T>(T value) {
    std::memcpy(&value, from, sizeof(T));
    return value;
  };
  switch (tensor.dtype) {
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

void Session::clearCaches(const blurt_entry &entry) {
  auto clear = [&](std::span<const blurt_tensor> tensors) {
    for (const TensorInstance &t : instances(tensors, BLURT_CACHE))
      backend->zero(base + t.offset, t.bytes());
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
