//===- CostSheet.cpp - what a plan for several devices costs --------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blutrain/Transforms/CostSheet.h"

#include "PlanDetail.h"

#include "Blu/Sharding.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSwitch.h"

#include <cmath>

using namespace blutrain;
using namespace mlir;

LinkModel LinkModel::getDefault(StringRef target) {
  // Of the 450 GB/s that NVLink of an H200 has in one direction, what a library
  // comes near to; a copy through the memory of a host.
  return target == "cuda" ? LinkModel{10e-6, 350e9} : LinkModel{20e-6, 4e9};
}

llvm::Expected<LinkModel> LinkModel::parse(StringRef text, LinkModel defaults) {
  LinkModel link = defaults;
  SmallVector<StringRef> parts;
  text.split(parts, ',');
  for (StringRef part : parts) {
    auto [key, number] = part.split('=');
    double value = 0;
    bool isLatency = key == "latency_us";
    if (!isLatency && key != "gb_per_s")
      return llvm::createStringError("expected latency_us=N or gb_per_s=N, "
                                     "got '" +
                                     part + "'");
    if (number.getAsDouble(value) || !std::isfinite(value) ||
        (isLatency ? value < 0 : value <= 0))
      return llvm::createStringError(
          Twine("expected a ") + (isLatency ? "number" : "positive number") +
          " for " + key + ", got '" + number + "'");
    (isLatency ? link.latency : link.bandwidth) =
        value * (isLatency ? 1e-6 : 1e9);
  }
  return link;
}

/// The parameters of all entries, whole and in pieces.
namespace {
struct Parameters {
  int64_t wholeBytes = 0, pieceBytes = 0;
  int64_t moments = 0;     ///< tensors of state beside each
  int64_t numberBytes = 0; ///< of state that is a number
};
} // namespace

static Parameters countParameters(func::FuncOp func, int64_t devices) {
  Parameters all;
  int64_t params = 0, moments = 0;
  for (unsigned i = 0, e = func.getNumArguments(); i < e; ++i) {
    auto info = func.getArgAttrOfType<DictionaryAttr>(i, "blu.tensor");
    auto role = info ? info.getAs<StringAttr>("role") : StringAttr();
    auto type = cast<RankedTensorType>(func.getArgumentTypes()[i]);
    if (!role)
      continue;
    if (role.getValue().starts_with("moment")) {
      if (type.getRank() == 0)
        all.numberBytes += getTensorBytes(type);
      else
        ++moments;
    }
    if (role != "param")
      continue;
    ++params;
    auto count = info.getAs<IntegerAttr>("stack_count");
    int64_t rows = count && count.getInt() > 0 ? count.getInt() : 1;
    int64_t elements = type.getNumElements() / rows;
    if (auto shape = info.getAs<DenseI64ArrayAttr>("shard_of")) {
      elements = 1;
      for (int64_t extent : shape.asArrayRef())
        elements *= extent;
    }
    int64_t width = type.getElementTypeBitWidth() / 8;
    all.wholeBytes += rows * elements * width;
    all.pieceBytes += rows * blu::getPieceSize(elements, devices) * width;
  }
  all.moments = params ? moments / params : 0;
  return all;
}

/// The most bytes of each class that are kept at one time.
static void addMemory(StringRef entry, const PlanReport &report,
                      CostSheet &sheet) {
  llvm::MapVector<StringRef, std::vector<std::pair<int64_t, int64_t>>> changes;
  for (StringRef name : {"parameters", "gradients", "moments", "activations",
                         "workspace", "other"})
    changes[name];
  for (const PlanOwner &owner : report.owners) {
    if (!owner.entry.empty() && owner.entry != entry)
      continue;
    StringRef name = llvm::StringSwitch<StringRef>(owner.category)
                         .Case("param", "parameters")
                         .Case("gradient", "gradients")
                         .Cases({"moment1", "moment2"}, "moments")
                         .Case("activation", "activations")
                         .Case("workspace", "workspace")
                         .Default("other");
    bool isAlways = owner.entry.empty();
    changes[name].emplace_back(isAlways ? 0 : owner.begin, owner.bytes);
    if (!isAlways)
      changes[name].emplace_back(owner.end + 1, -owner.bytes);
  }
  for (auto &[name, list] : changes) {
    // What ends at a position does so before what begins there.
    llvm::sort(list);
    int64_t now = 0, most = 0;
    for (auto [position, bytes] : list) {
      now += bytes;
      most = std::max(most, now);
    }
    sheet.memory.push_back({name.str(), most, -1});
  }
}

CostSheet blutrain::computeCost(ModuleOp module, LinkModel link,
                                PlanReport &report) {
  CostSheet sheet;
  sheet.link = link;
  sheet.devices = blu::Mesh::get(module).getNumDevices();
  llvm::MapVector<StringRef, EntryCost> entries;
  for (PlanCollective &collective : report.collectives) {
    EntryCost &cost = entries[collective.entry];
    cost.entry = collective.entry;
    if (collective.kind == "local_shard")
      continue;
    collective.seconds = link.getSeconds(collective.bytes);
    cost.calls += collective.count;
    cost.bytes += collective.count * collective.bytes;
    cost.seconds += double(collective.count) * collective.seconds;
  }
  for (auto &[name, cost] : entries)
    sheet.entries.push_back(std::move(cost));
  auto train = module.lookupSymbol<func::FuncOp>("train");
  if (sheet.devices == 1 || !train)
    return sheet;
  addMemory("train", report, sheet);

  auto program = module->getAttrOfType<DictionaryAttr>("blurt.program");
  auto metadata =
      program ? program.getAs<DictionaryAttr>("metadata") : DictionaryAttr();
  if (auto zero = metadata ? metadata.getAs<StringAttr>("zero") : StringAttr())
    zero.getValue().getAsInteger(10, sheet.zero);
  auto entry = train->getAttrOfType<DictionaryAttr>("blurt.entry");
  auto count = entry ? entry.getAs<IntegerAttr>("microbatches") : IntegerAttr();
  int64_t microbatches = count ? count.getInt() : 1;
  Parameters all = countParameters(train, sheet.devices);
  // Rounded parameters are gathered for their use as in stage 3, in bf16.
  auto precision =
      program ? program.getAs<StringAttr>("precision") : StringAttr();
  bool isRounded = precision && precision.getValue() == "bf16";
  auto cutFrom = [&](int64_t stage) {
    return sheet.zero >= stage ? all.pieceBytes : all.wholeBytes;
  };
  for (MemoryCost &memory : sheet.memory) {
    if (memory.name == "parameters")
      memory.formula = cutFrom(isRounded ? 1 : 3);
    else if (memory.name == "gradients")
      memory.formula = cutFrom(2);
    else if (memory.name == "moments")
      memory.formula = all.moments * cutFrom(1) + all.numberBytes;
  }
  int64_t scatters = sheet.zero >= 2 ? microbatches : 1;
  int64_t gathers = sheet.zero >= 3 ? 2 * microbatches : 1;
  int64_t gathered = all.pieceBytes / (isRounded && sheet.zero >= 1 ? 2 : 1);
  sheet.sentFormula =
      (sheet.devices - 1) * (scatters * all.pieceBytes + gathers * gathered);
  return sheet;
}
