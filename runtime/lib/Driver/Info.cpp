//===- Info.cpp - The command `info` --------------------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "blurt/File.h"

#include <algorithm>
#include <cstdio>

using namespace blurt;

namespace {

void row(const char *key, const std::string &value) {
  std::printf("%-14s%s\n", key, value.c_str());
}

std::string exact(uint64_t bytes) {
  return std::to_string(bytes) + " bytes (" + formatBytes(bytes) + ")";
}

uint64_t bytesOf(std::span<const blurt_tensor> tensors, int32_t role) {
  uint64_t bytes = 0;
  for (const TensorInstance &t : instances(tensors, role))
    bytes += t.arenaBytes();
  return bytes;
}

void printCode(const blurt_device_code &code) {
  std::string images;
  for (int32_t i = 0; i < code.num_images; ++i)
    images += (i ? ", " : "") + imageName(code.images[i]);
  row("device code", images + "; " + std::to_string(code.num_kernels) +
                         " kernels, " + std::to_string(code.num_gemms) +
                         " products");
}

void printAllocator(const char *label, const CachingAllocator &allocator) {
  AllocatorStats stats = allocator.stats();
  std::printf(
      "  %s: %s live in %llu block%s, %s reserved in %llu "
      "segment%s, peak %s\n",
      label, formatBytes(stats.allocated).c_str(),
      static_cast<unsigned long long>(stats.liveBlocks),
      stats.liveBlocks == 1 ? "" : "s", formatBytes(stats.reserved).c_str(),
      static_cast<unsigned long long>(stats.segments),
      stats.segments == 1 ? "" : "s", formatBytes(stats.peakReserved).c_str());
}

void printMemory(const blurt_program &program, const InfoOptions &options) {
  Session session(program, options.session());
  std::printf("\nmemory\n");
  row("  arena", exact(program.peak_bytes));
  row("  state", exact(program.state_bytes));
  const std::pair<const char *, int32_t> owners[] = {
      {"    parameters", BLURT_PARAM},
      {"    moment1", BLURT_MOMENT1},
      {"    moment2", BLURT_MOMENT2},
      {"    caches", BLURT_CACHE}};
  uint64_t owned = 0;
  for (auto [label, role] : owners) {
    uint64_t bytes = bytesOf(stateOf(program), role);
    owned += bytes;
    if (bytes)
      std::printf("%-14s  %s\n", label, exact(bytes).c_str());
  }
  if (program.state_bytes > owned)
    std::printf("    other         %s\n",
                exact(program.state_bytes - owned).c_str());
  for (const blurt_entry &entry : entriesOf(program)) {
    std::printf("  entry '%s': peak %s\n", entry.name,
                exact(entry.peak_bytes).c_str());
    const std::pair<const char *, int32_t> scratch[] = {
        {"inputs", BLURT_INPUT},
        {"outputs", BLURT_OUTPUT},
        {"gradients", BLURT_GRADIENT}};
    for (auto [label, role] : scratch)
      if (uint64_t bytes = bytesOf(tensorsOf(entry), role))
        std::printf("    %-10s  %s\n", label, exact(bytes).c_str());
  }
  std::vector<TensorInstance> largest;
  for (int32_t role : {BLURT_PARAM, BLURT_MOMENT1, BLURT_MOMENT2, BLURT_CACHE})
    for (TensorInstance &t : instances(stateOf(program), role))
      largest.push_back(std::move(t));
  std::sort(largest.begin(), largest.end(), [](const auto &a, const auto &b) {
    return a.arenaBytes() != b.arenaBytes() ? a.arenaBytes() > b.arenaBytes()
                                            : a.offset < b.offset;
  });
  const char *const roles[] = {"parameter", "moment1", "moment2", "cache"};
  std::printf("  largest state tensors\n");
  for (size_t i = 0; i < std::min<size_t>(largest.size(), 8); ++i)
    std::printf("    %-10s  %s  %s  %s\n", roles[largest[i].tensor->role],
                formatBytes(largest[i].arenaBytes()).c_str(),
                typeString(*largest[i].tensor).c_str(),
                largest[i].name.c_str());
  if (const CudaDevice *device = session.device()) {
    const blurt_device_code &code = *program.device;
    row("  workspace", exact(code.workspace_bytes) + " of the arena");
    std::printf("  outside the arena, on %s\n", device->description().c_str());
    for (const DeviceReserve &reserve : device->reserves())
      if (reserve.name != "arena")
        std::printf("    %-28s%s\n", reserve.name.c_str(),
                    exact(reserve.bytes).c_str());
    DeviceMemory memory = session.deviceMemory();
    std::printf("  in use on the device: %s of %s\n",
                exact(memory.used).c_str(), exact(memory.total).c_str());
  }
  printAllocator("allocator", session.memory());
  if (session.pinnedMemory())
    printAllocator("pinned memory", *session.pinnedMemory());
  if (options.snapshot.empty())
    return;
  std::string text = "{\"allocators\": [" + session.memory().snapshot();
  if (session.pinnedMemory())
    text += ", " + session.pinnedMemory()->snapshot();
  AtomicFile file(options.snapshot);
  file.write(text + "]}\n");
  file.commit();
}

} // namespace

void blurt::runInfo(const blurt_program &program, const InfoOptions &options) {
  verifyProgram(program);
  row("model", program.name);
  row("target", program.target);
  row("precision", program.precision);
  row("optimizer", program.optimizer);
  row("parameters", std::to_string(parameterCount(program)));
  row("plan hash", program.plan_hash);
  for (const blurt_entry &entry : entriesOf(program)) {
    std::string shape = "batch " + std::to_string(entry.batch);
    if (entry.seq > 0)
      shape += ", seq " + std::to_string(entry.seq);
    if (entry.microbatches > 1)
      shape += ", " + std::to_string(entry.microbatches) + " microbatches";
    row("entry", std::string(entry.name) + ": " + shape + ", " +
                     formatBytes(entry.peak_bytes));
  }
  for (int32_t i = 0; i < program.num_metadata; ++i)
    row(i == 0 ? "metadata" : "", std::string(program.metadata[i].key) + " = " +
                                      program.metadata[i].value);
  if (program.device)
    printCode(*program.device);
  if (options.memory || !options.snapshot.empty())
    printMemory(program, options);
}
