//===- Context.h - What compiled code gets as `ctx` -------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// The `ctx` argument of a program's entries, handed back by compiled code in
// every callback of blurt.h. Owns the thread pool, and the shadow map once a
// program built with --debug-memory makes its first report; knows the device
// code of a program that has some.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_CONTEXT_H
#define BLURT_CONTEXT_H

#include "blurt/ShadowMemory.h"
#include "blurt/ThreadPool.h"

#include <functional>
#include <memory>

namespace blurt {

class CudaCode;
class FiniteCheck;
class World;

class Context {
public:
  explicit Context(unsigned threads) : threadPool(threads) {}

  ThreadPool &pool() { return threadPool; }

  /// Null for a program for the CPU.
  CudaCode *code() { return deviceCode; }
  void setCode(CudaCode *code) { deviceCode = code; }

  /// The shadow map, made on first use by the function below.
  ShadowMemory &shadow() {
    if (!shadowMemory)
      shadowMemory = makeShadow();
    return *shadowMemory;
  }
  bool hasShadow() const { return shadowMemory != nullptr; }
  /// How to make a map that knows what the running entry may already read.
  void setShadowMaker(std::function<std::unique_ptr<ShadowMemory>()> maker) {
    makeShadow = std::move(maker);
  }

  /// The ranks of a program for several devices, or null.
  World *world = nullptr;
  /// What looks through the results of the operations that run, or null.
  FiniteCheck *finiteCheck = nullptr;

private:
  ThreadPool threadPool;
  CudaCode *deviceCode = nullptr;
  std::unique_ptr<ShadowMemory> shadowMemory;
  std::function<std::unique_ptr<ShadowMemory>()> makeShadow;
};

} // namespace blurt

#endif // BLURT_CONTEXT_H
