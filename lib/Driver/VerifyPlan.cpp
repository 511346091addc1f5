//===- VerifyPlan.cpp - a sharded program against the whole one -----------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blutrain/Driver/VerifyPlan.h"

#include "blutrain/Autodiff/StepUtils.h"
#include "blutrain/Interpreter/Interpreter.h"

#include "Blu/Sharding.h"

#include <cmath>
#include <condition_variable>
#include <mutex>
#include <random>
#include <thread>

using namespace mlir;
using namespace blutrain;
using blu::StepOp;

namespace {

class ThreadMeeting : public Meeting {
public:
  explicit ThreadMeeting(int64_t count)
      : count(count), brought(count), ops(size_t(count)) {}

  int64_t size() const override { return count; }

  FailureOr<std::vector<std::vector<Tensor>>>
  exchange(int64_t device, Operation *op, std::vector<Tensor> mine) override {
    std::unique_lock lock(mutex);
    brought[size_t(device)] = std::move(mine);
    ops[size_t(device)] = op;
    if (++arrived == count) {
      result = std::exchange(brought,
                             std::vector<std::vector<Tensor>>(size_t(count)));
      for (Operation *other : ops)
        areSame &= doSame(other, ops[0]);
      arrived = 0;
      ++round;
      changed.notify_all();
      if (!areSame)
        return failure();
      return result;
    }
    int64_t mineRound = round;
    changed.wait(lock, [&] { return round != mineRound || left > 0; });
    if (round == mineRound || !areSame)
      return failure();
    return result;
  }

  /// A device runs no more; others that wait for it fail.
  void leave() {
    std::lock_guard lock(mutex);
    ++left;
    changed.notify_all();
  }

private:
  /// Whether both are one step of the schedule.
  static bool doSame(Operation *a, Operation *b) {
    return a->getName() == b->getName() &&
           a->getAttrDictionary() == b->getAttrDictionary() &&
           a->getOperandTypes() == b->getOperandTypes() &&
           a->getResultTypes() == b->getResultTypes();
  }

  int64_t count, arrived = 0, round = 0, left = 0;
  bool areSame = true;
  std::vector<std::vector<Tensor>> brought, result;
  std::vector<Operation *> ops;
  std::mutex mutex;
  std::condition_variable changed;
};

/// Numbers by name, the same for both programs.
Tensor makeTensor(StringRef role, StringRef name, RankedTensorType type,
                  int64_t limit) {
  Tensor tensor(type.getShape(), type.getElementType());
  std::mt19937_64 bits(std::hash<std::string>()((role + "/" + name).str()));
  auto uniform = [&] { return double(bits() >> 11) * 0x1p-53; };
  for (double &x : tensor.floats)
    x = role == "moment2" ? 1e-3 * uniform() : 0.2 * (uniform() - 0.5);
  for (int64_t &x : tensor.ints)
    x = int64_t(bits() % uint64_t(limit));
  static const std::pair<StringRef, double> scalars[] = {
      {"lr", 1e-2},      {"beta1", 0.9},        {"beta2", 0.95},
      {"eps", 1e-8},     {"clip", 0.05},        {"weight_decay", 0.1},
      {"momentum", 0.9}, {"loss_limit", 1e300}, {"norm_limit", 1e300}};
  if (role == "scalar") {
    for (auto [known, value] : scalars)
      if (known == name && tensor.isFloat())
        tensor.floats[0] = value;
    if (name == "step")
      tensor.ints[0] = 3;
    // A chunk of a prompt has to end within the context.
    if (name == "position")
      tensor.ints[0] = 0;
  }
  return tensor;
}

/// The part of `whole` that a device has as a value of `type`: a block of the
/// dims that are shorter, or a piece of what is cut into pieces.
Tensor partOf(const Tensor &whole, RankedTensorType type, DictionaryAttr info,
              int64_t device) {
  Tensor part(type.getShape(), type.getElementType());
  if (info.contains("shards")) {
    auto count = info.getAs<IntegerAttr>("stack_count");
    int64_t rows = count && count.getInt() ? count.getInt() : 1;
    int64_t all = whole.size() / rows, size = part.size() / rows;
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t k = 0; k < size && device * size + k < all; ++k)
        part.copyElement(row * size + k, whole, row * all + device * size + k);
    return part;
  }
  forEachIndex(type.getShape(), [&](ArrayRef<int64_t> index) {
    SmallVector<int64_t> from(index);
    for (int64_t d = 0; d < whole.rank(); ++d)
      if (type.getDimSize(d) != whole.shape[d])
        from[d] += device * type.getDimSize(d);
    part.copyElement(part.offset(index), whole, whole.offset(from));
  });
  return part;
}

DictionaryAttr infoOf(StepOp step, unsigned argument) {
  return step.getArgAttrOfType<DictionaryAttr>(argument, "blu.tensor");
}

bool takesPieces(StepOp step) {
  return llvm::any_of(step.getArguments(), [&](BlockArgument argument) {
    return infoOf(step, argument.getArgNumber()).contains("shards");
  });
}

/// A name and a description for each result.
std::pair<std::string, DictionaryAttr> nameOf(StepOp step, unsigned result) {
  DictionaryAttr info;
  if (auto donated = dyn_cast_or_null<IntegerAttr>(
          step.getResultAttr(result, "blu.donates")))
    info = infoOf(step, unsigned(donated.getInt()));
  else
    info = step.getResultAttrOfType<DictionaryAttr>(result, "blu.tensor");
  return {(info.getAs<StringAttr>("role").getValue() + " '" +
           info.getAs<StringAttr>("name").getValue() + "'")
              .str(),
          info};
}

/// `steps`: that of each device.
LogicalResult compareStep(StepOp whole, ArrayRef<StepOp> steps) {
  auto devices = int64_t(steps.size());
  auto vocabulary = whole->getAttrOfType<IntegerAttr>("blu.vocab_size");
  int64_t limit = vocabulary ? vocabulary.getInt() : 2;
  llvm::StringMap<Tensor> tensors;
  SmallVector<Tensor> arguments;
  for (unsigned i = 0, e = whole.getNumArguments(); i < e; ++i) {
    StringRef role = argumentRole(whole, i), name = argumentName(whole, i);
    auto type = cast<RankedTensorType>(whole.getArgument(i).getType());
    arguments.push_back(makeTensor(role, name, type, limit));
    tensors[(role + "/" + name).str()] = arguments.back();
  }
  FailureOr<SmallVector<Tensor>> expected = interpret(whole, arguments);
  if (failed(expected))
    return failure();
  llvm::StringMap<Tensor> byName;
  for (auto [i, tensor] : llvm::enumerate(*expected))
    byName[nameOf(whole, i).first] = tensor;

  ThreadMeeting meeting(devices);
  std::vector<FailureOr<SmallVector<Tensor>>> found(size_t(devices), failure());
  std::vector<std::thread> threads;
  for (int64_t device = 0; device < devices; ++device)
    threads.emplace_back([&, device] {
      StepOp sharded = steps[size_t(device)];
      SmallVector<Tensor> own;
      for (unsigned i = 0, e = sharded.getNumArguments(); i < e; ++i) {
        StringRef role = argumentRole(sharded, i);
        StringRef name = argumentName(sharded, i);
        auto type = cast<RankedTensorType>(sharded.getArgument(i).getType());
        if (role == "scalar" && name == "dp_index")
          own.push_back(Tensor::scalar(type.getElementType(), device));
        else
          own.push_back(partOf(tensors[(role + "/" + name).str()], type,
                               infoOf(sharded, i), device));
      }
      InterpreterOptions options;
      options.meeting = &meeting;
      options.device = device;
      found[size_t(device)] = interpret(sharded, own, {}, options);
      meeting.leave();
    });
  for (std::thread &thread : threads)
    thread.join();

  for (int64_t device = 0; device < devices; ++device) {
    StepOp sharded = steps[size_t(device)];
    if (failed(found[size_t(device)]))
      return sharded.emitOpError("does not run on device ")
             << device << ": devices do not meet in the same collectives";
    for (auto [i, tensor] : llvm::enumerate(*found[size_t(device)])) {
      auto [name, info] = nameOf(sharded, i);
      auto it = byName.find(name);
      if (it == byName.end())
        return sharded.emitOpError("has a result ")
               << name << " that the whole program lacks";
      Tensor part = partOf(it->second, tensor.type(), info, device);
      for (int64_t k = 0; k < tensor.size(); ++k) {
        double a = tensor.isFloat() ? tensor.floats[k] : double(tensor.ints[k]);
        double b = part.isFloat() ? part.floats[k] : double(part.ints[k]);
        if (std::abs(a - b) <= 1e-9 * (1e-3 + std::abs(b)))
          continue;
        return sharded.emitOpError("gives ")
               << a << " on device " << device << " as element " << k << " of "
               << name << ", expected " << b << " as on one device";
      }
    }
  }
  return success();
}

} // namespace

LogicalResult blutrain::verifyPlan(ModuleOp whole, ModuleOp sharded) {
  SmallVector<ModuleOp> all(size_t(blu::Mesh::get(sharded).getNumDevices()),
                            sharded);
  return verifyPlan(whole, all);
}

LogicalResult blutrain::verifyPlan(ModuleOp whole, ArrayRef<ModuleOp> sharded) {
  if (sharded.size() == 1)
    return success();
  for (StepOp step : ModuleOp(sharded.front()).getOps<StepOp>()) {
    // Of the others those differ that gather parameters.
    if (step.getProgram() != blu::Program::Train &&
        step.getProgram() != blu::Program::Eval && !takesPieces(step))
      continue;
    auto before = whole.lookupSymbol<StepOp>(step.getSymName());
    if (!before)
      return step.emitOpError("has no program to compare with");
    SmallVector<StepOp> steps;
    for (ModuleOp module : sharded) {
      steps.push_back(module.lookupSymbol<StepOp>(step.getSymName()));
      if (!steps.back())
        return step.emitOpError("is lacking on a device");
    }
    if (failed(compareStep(before, steps)))
      return failure();
  }
  return success();
}
