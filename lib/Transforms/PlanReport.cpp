//===- PlanReport.cpp - an owner for every byte ---------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "PlanDetail.h"

#include "Blurt/Collective.h"

#include "llvm/Support/JSON.h"

using namespace blutrain;
using namespace mlir;

std::string blutrain::getLocationString(Location loc) {
  std::string text;
  loc->walk([&](Location inner) {
    auto file = dyn_cast<FileLineColLoc>(inner);
    if (!file)
      return WalkResult::advance();
    llvm::raw_string_ostream(text) << file.getFilename().getValue() << ':'
                                   << file.getLine() << ':' << file.getColumn();
    return WalkResult::interrupt();
  });
  return text;
}

static std::string getAttr(DictionaryAttr tensor, StringRef key) {
  auto value = tensor ? tensor.getAs<StringAttr>(key) : StringAttr();
  return value ? value.getValue().str() : std::string();
}

/// Whether it is on its way to a reduce-scatter, or what one gave.
static bool isGradient(const Content &content) {
  auto isScatter = [](Operation *op) {
    auto collective = dyn_cast_or_null<blurt::CollectiveOp>(op);
    return collective && collective.getKind() == "reduce_scatter";
  };
  if (isScatter(content.def) ||
      (content.yielded && isScatter(content.yielded.getDefiningOp())))
    return true;
  return llvm::any_of(content.values, [&](Value value) {
    return llvm::any_of(value.getUsers(), isScatter);
  });
}

std::pair<std::string, std::string>
blutrain::describeContent(func::FuncOp func, const Content &content) {
  using Kind = Content::Kind;
  if (content.kind == Kind::Argument || content.kind == Kind::Output) {
    DictionaryAttr tensor =
        content.kind == Kind::Argument
            ? func.getArgAttrOfType<DictionaryAttr>(content.index, "blu.tensor")
            : func.getResultAttrOfType<DictionaryAttr>(content.index,
                                                       "blu.tensor");
    std::string name = getAttr(tensor, "name"), role = getAttr(tensor, "role");
    if (name.empty())
      name = (content.kind == Kind::Argument ? "argument " : "result ") +
             std::to_string(content.index);
    if (role.empty())
      role = content.kind == Kind::Argument ? "input" : "output";
    return {name, role};
  }
  std::string name = content.def->getName().stripDialect().str();
  if (auto group = dyn_cast<blurt::GroupOp>(content.def))
    name = group.getKernel().str();
  else if (auto loop = dyn_cast<blurt::LoopOp>(content.def))
    name = loop.getName().str() +
           (content.kind == Kind::Iteration ? " counter"
            : content.kind == Kind::Carry   ? " carry "
            : content.kind == Kind::Saved   ? " saved carry "
                                            : " collection ") +
           (content.kind == Kind::Iteration ? std::string()
                                            : std::to_string(content.index));
  if (isGradient(content))
    return {name, "gradient"};
  // What lives within one iteration is scratch of its kernels; the rest is
  // what training keeps.
  bool withinIteration = content.kind == Kind::Iteration ||
                         (isa<blurt::LoopOp>(content.def->getParentOp()) &&
                          !isa<blurt::LoopOp>(content.def));
  return {name, withinIteration ? "workspace" : "activation"};
}

void blutrain::addOwners(const PlannedFunction &planned, PlanReport &report) {
  const Lifetimes &lifetimes = *planned.lifetimes;
  func::FuncOp func = planned.func;
  for (auto [storage, offset] :
       llvm::zip_equal(planned.placement->getStorages(), planned.offsets)) {
    if (storage.isState)
      continue;
    const Content &content = lifetimes[storage.owner];
    PlanOwner owner;
    std::tie(owner.name, owner.category) = describeContent(func, content);
    owner.location = getLocationString(content.def ? content.def->getLoc()
                                       : content.kind == Content::Kind::Argument
                                           ? content.values.front().getLoc()
                                           : content.yielded.getLoc());
    owner.entry = func.getName().str();
    owner.bytes = storage.bytes;
    owner.offset = offset;
    owner.begin = storage.begin;
    owner.end = storage.end;
    report.owners.push_back(std::move(owner));
  }
}

static void writeCost(const CostSheet &cost, llvm::json::OStream &json) {
  json.attribute("devices", cost.devices);
  json.attribute("zero", cost.zero);
  json.attributeObject("link", [&] {
    json.attribute("latency_us", cost.link.latency * 1e6);
    json.attribute("gb_per_s", cost.link.bandwidth * 1e-9);
  });
  json.attributeArray("entries", [&] {
    for (const EntryCost &entry : cost.entries)
      json.object([&] {
        json.attribute("name", entry.entry);
        json.attribute("calls", entry.calls);
        json.attribute("bytes", entry.bytes);
        json.attribute("seconds", entry.seconds);
      });
  });
  json.attribute("formula_bytes", cost.sentFormula);
  json.attributeArray("memory", [&] {
    for (const MemoryCost &memory : cost.memory)
      json.object([&] {
        json.attribute("class", memory.name);
        json.attribute("bytes", memory.bytes);
        if (memory.formula >= 0)
          json.attribute("formula_bytes", memory.formula);
        else
          json.attribute("formula_bytes", nullptr);
      });
  });
}

void blutrain::writePlanReportJson(const PlanReport &report,
                                   llvm::raw_ostream &os) {
  llvm::json::OStream json(os, /*IndentSize=*/2);
  json.object([&] {
    json.attribute("peak_bytes", report.peakBytes);
    json.attribute("lower_bound", report.lowerBound);
    json.attribute("state_bytes", report.stateBytes);
    json.attribute("copies", report.copies);
    json.attributeArray("entries", [&] {
      for (const PlanEntry &entry : report.entries)
        json.object([&] {
          json.attribute("name", entry.name);
          json.attribute("peak_bytes", entry.peakBytes);
          json.attribute("lower_bound", entry.lowerBound);
        });
    });
    json.attributeArray("owners", [&] {
      for (const PlanOwner &owner : report.owners)
        json.object([&] {
          json.attribute("name", owner.name);
          json.attribute("category", owner.category);
          json.attribute("entry", owner.entry);
          json.attribute("location", owner.location);
          json.attribute("bytes", owner.bytes);
          json.attribute("offset", owner.offset);
          json.attribute("begin", owner.begin);
          json.attribute("end", owner.end);
        });
    });
    json.attributeArray("reserves", [&] {
      for (const PlanReserve &reserve : report.reserves)
        json.object([&] {
          json.attribute("name", reserve.name);
          if (reserve.bytes)
            json.attribute("bytes", *reserve.bytes);
          else
            json.attribute("bytes", nullptr);
          json.attribute("note", reserve.note);
        });
    });
    json.attributeArray("kernels", [&] {
      for (const PlanKernel &kernel : report.kernels)
        json.object([&] {
          json.attribute("name", kernel.name);
          json.attribute("entry", kernel.entry);
          json.attribute("count", kernel.count);
        });
    });
    json.attributeArray("schedule", [&] {
      for (const PlanStep &step : report.schedule)
        json.object([&] {
          json.attribute("name", step.name);
          json.attribute("entry", step.entry);
          json.attribute("location", step.location);
          json.attribute("position", step.position);
          json.attribute("depth", step.depth);
          json.attribute("count", step.count);
        });
    });
    json.attributeArray("collectives", [&] {
      for (const PlanCollective &collective : report.collectives)
        json.object([&] {
          json.attribute("kind", collective.kind);
          json.attribute("entry", collective.entry);
          json.attribute("location", collective.location);
          json.attribute("axis", collective.axis);
          json.attribute("size", collective.size);
          json.attribute("values", collective.values);
          json.attribute("position", collective.position);
          json.attribute("count", collective.count);
          json.attribute("bytes", collective.bytes);
          json.attribute("seconds", collective.seconds);
          json.attribute("async", collective.isAsync);
          json.attribute("ahead", collective.isAhead);
          json.attributeArray("waits", [&] {
            for (const std::string &wait : collective.waits)
              json.value(wait);
          });
        });
    });
    if (report.cost.devices > 1)
      json.attributeObject("cost", [&] { writeCost(report.cost, json); });
  });
  os << '\n';
}
