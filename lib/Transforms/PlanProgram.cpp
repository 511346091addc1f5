//===- PlanProgram.cpp - one arena for all entries of a program -----------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "PlanDetail.h"

#include "Blurt/Collective.h"
#include "blurt/blurt.h"
#include "blutrain/Analysis/CollectiveWindow.h"
#include "blutrain/Analysis/SplitProducts.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/SHA256.h"
#include <map>

using namespace blutrain;
using namespace mlir;

static constexpr int64_t kAlignment = BLURT_ALIGNMENT;
/// Of a collective in the report, while planning.
static constexpr StringLiteral kNumberAttr = "blurt.number";

static int64_t alignUp(int64_t bytes) {
  return static_cast<int64_t>(
      llvm::alignTo(static_cast<uint64_t>(bytes), kAlignment));
}

namespace {

/// Plans the functions of one module. The state area comes first and is shared;
/// each entry's scratch begins after it.
class ProgramPlanner {
public:
  ProgramPlanner(ModuleOp module, const PlanOptions &options)
      : module(module), options(options), builder(module.getContext()) {}

  FailureOr<PlanReport> run();

private:
  struct StateTensor {
    DictionaryAttr tensor;
    RankedTensorType type;
    Location loc;
    int64_t offset = 0;
  };
  using StateKey = std::pair<std::string, std::string>; // role, name

  LogicalResult collectState();
  void layOutState();
  void layOutWorkspace();
  LogicalResult plan(func::FuncOp func);
  LogicalResult checkLimit();
  DictionaryAttr describeTensor(DictionaryAttr tensor, RankedTensorType type,
                                int64_t offset);
  DictionaryAttr describeEntry(const PlannedFunction &planned);
  void addStateOwners();
  void addCollective(blurt::CollectiveOp op, const Timeline &timeline);
  void countKernels(func::FuncOp func, const Timeline &timeline);
  /// Places the waits of a function and adds them to the report.
  void addWaits(func::FuncOp func);
  void setPlanHash();

  ModuleOp module;
  const PlanOptions &options;
  Builder builder;
  std::vector<PlannedFunction> functions;
  std::map<StateKey, StateTensor> states;
  /// Keys of `states` in the order of the area.
  std::vector<StateKey> stateOrder;
  PlanReport report;
};

} // namespace

static DictionaryAttr getTensor(func::FuncOp func, unsigned argument) {
  return func.getArgAttrOfType<DictionaryAttr>(argument, "blu.tensor");
}

static std::pair<std::string, std::string> getStateKey(DictionaryAttr tensor) {
  auto name = tensor.getAs<StringAttr>("name");
  return {tensor.getAs<StringAttr>("role").str(),
          name ? name.str() : std::string()};
}

//===----------------------------------------------------------------------===//
// State
//===----------------------------------------------------------------------===//

LogicalResult ProgramPlanner::collectState() {
  for (func::FuncOp func : module.getOps<func::FuncOp>()) {
    if (func.isDeclaration())
      continue;
    if (!func.getBody().hasOneBlock())
      return func.emitError("has several blocks, expected one");
    for (Type type : llvm::concat<const Type>(func.getArgumentTypes(),
                                              func.getResultTypes())) {
      auto tensor = dyn_cast<RankedTensorType>(type);
      if (!tensor || !tensor.hasStaticShape())
        return func.emitError("has type ")
               << type << " in its signature, expected tensors of static shape";
    }
    llvm::SmallDenseSet<unsigned> donated;
    for (unsigned i = 0, e = func.getNumResults(); i < e; ++i) {
      auto argument = getDonatedArgument(func, i);
      if (!argument)
        continue;
      if (*argument >= func.getNumArguments() ||
          func.getArgument(*argument).getType() != func.getResultTypes()[i])
        return func.emitError("result ")
               << i << " takes the place of argument " << *argument
               << ", which is not of its type";
      if (!donated.insert(*argument).second)
        return func.emitError("argument ")
               << *argument << " is donated to two results";
    }
    for (BlockArgument argument : func.getArguments()) {
      if (!isStateArgument(func, argument.getArgNumber()))
        continue;
      DictionaryAttr tensor = getTensor(func, argument.getArgNumber());
      auto type = cast<RankedTensorType>(argument.getType());
      StateKey key = getStateKey(tensor);
      auto [found, isNew] =
          states.try_emplace(key, StateTensor{tensor, type, argument.getLoc()});
      if (isNew) {
        stateOrder.push_back(key);
      } else if (found->second.type != type) {
        InFlightDiagnostic diag = emitError(argument.getLoc());
        diag << "state tensor '" << key.second << "' (" << key.first << ") is "
             << type << " in @" << func.getName() << ", expected "
             << found->second.type << " as in another entry";
        diag.attachNote(found->second.loc) << "the other is here";
        return diag;
      }
    }
  }
  return success();
}

void ProgramPlanner::layOutState() {
  // All parameters, then all first moments, and so on: each area is one run
  // for optimizer and norm kernels.
  auto rank = [](const StateKey &key) {
    StringRef roles[] = {"param", "moment1", "moment2", "cache"};
    return llvm::find(roles, key.first) - roles;
  };
  std::vector<StateKey> appearance;
  std::swap(appearance, stateOrder);
  for (int64_t area = 0; area < 4; ++area)
    llvm::copy_if(appearance, std::back_inserter(stateOrder),
                  [&](const StateKey &key) { return rank(key) == area; });
  int64_t offset = 0;
  for (const StateKey &key : stateOrder) {
    StateTensor &state = states.at(key);
    state.offset = offset;
    offset += alignUp(getTensorBytes(state.type));
  }
  report.stateBytes = offset;
}

/// What is between state and scratch: enough for the most that one operation
/// asks for.
void ProgramPlanner::layOutWorkspace() {
  report.workspaceOffset = report.stateBytes;
  if (options.workspaceBytes == 0)
    return;
  // BLAS libraries want theirs on a multiple of 256.
  constexpr int64_t alignment = 256;
  report.workspaceOffset = llvm::alignTo(report.stateBytes, alignment);
  int64_t bytes = options.workspaceBytes;
  module.walk([&](blurt::AttentionGradOp grad) {
    // The rows' sums of output times cotangent.
    auto lse = cast<ShapedType>(grad.getLse().getType());
    bytes = std::max(bytes, getTensorBytes(cast<RankedTensorType>(lse)));
  });
  bool isSplit = false;
  module.walk([&](blurt::GemmOp gemm) {
    if (!gemm.getSplit())
      return;
    isSplit = true;
    bytes = std::max(bytes, getSplitWorkspaceBytes(gemm));
  });
  report.workspaceBytes = llvm::alignTo(bytes, alignment);
  PlanOwner owner;
  owner.name = "workspace";
  owner.category = "workspace";
  owner.bytes = report.workspaceBytes;
  owner.offset = report.workspaceOffset;
  report.owners.push_back(std::move(owner));
  module->setAttr("blurt.workspace",
                  builder.getDenseI64ArrayAttr(
                      {report.workspaceOffset, report.workspaceBytes}));
  if (!isSplit)
    return;
  // Behind it what kernels count, for the runtime to read.
  PlanOwner counters;
  counters.name = "counters";
  counters.category = "workspace";
  counters.bytes = alignment;
  counters.offset = report.scratchOffset();
  module->setAttr("blurt.counters", builder.getI64IntegerAttr(counters.offset));
  report.counterBytes = counters.bytes;
  report.owners.push_back(std::move(counters));
}

//===----------------------------------------------------------------------===//
// One function
//===----------------------------------------------------------------------===//

LogicalResult ProgramPlanner::plan(func::FuncOp func) {
  PlannedFunction planned;
  planned.func = func;
  normalizeForPlan(func);
  planned.lifetimes = std::make_unique<Lifetimes>(func);
  auto placement =
      Placement::compute(func, *planned.lifetimes, options.rowPadding);
  if (failed(placement))
    return failure();
  planned.placement = std::move(*placement);

  SmallVector<PackingRequest> requests;
  for (const Storage &storage : planned.placement->getStorages())
    if (!storage.isState)
      requests.push_back({storage.bytes, storage.begin, storage.end});
  PackingOptions packing = options.packing;
  packing.alignment = kAlignment;
  PackingResult packed = packBuffers(requests, packing);
  planned.peakBytes = report.scratchOffset() + packed.peak;
  planned.lowerBound = report.scratchOffset() + packed.lowerBound;

  size_t next = 0;
  for (const Storage &storage : planned.placement->getStorages()) {
    if (!storage.isState) {
      planned.offsets.push_back(report.scratchOffset() +
                                packed.offsets[next++]);
      continue;
    }
    unsigned argument = (*planned.lifetimes)[storage.owner].index;
    planned.offsets.push_back(
        states.at(getStateKey(getTensor(func, argument))).offset);
  }
  report.entries.push_back(
      {func.getName().str(), planned.peakBytes, planned.lowerBound});
  report.peakBytes = std::max(report.peakBytes, planned.peakBytes);
  report.lowerBound = std::max(report.lowerBound, planned.lowerBound);
  addOwners(planned, report);
  countKernels(func, planned.lifetimes->getTimeline());
  functions.push_back(std::move(planned));
  return success();
}

void ProgramPlanner::addCollective(blurt::CollectiveOp op,
                                   const Timeline &timeline) {
  PlanCollective collective;
  collective.kind = op.getKind().str();
  collective.location = getLocationString(op->getLoc());
  collective.entry = op->getParentOfType<func::FuncOp>().getName().str();
  collective.axis = op.getAxis().str();
  collective.size = static_cast<int64_t>(op.getSize());
  collective.values = static_cast<int64_t>(op.getInputs().size());
  collective.position = timeline.at(op);
  for (Operation *parent = op->getParentOp();
       auto loop = dyn_cast<blurt::LoopOp>(parent);
       parent = parent->getParentOp())
    collective.count *= static_cast<int64_t>(loop.getCount());
  if (collective.kind != "local_shard")
    collective.bytes = op.getPieceBytes() * (collective.size - 1);
  collective.isAsync = op.getAsync();
  collective.isAhead = op->hasAttr(kAheadAttr);
  // What a loop starts ahead of its iterations is two operations of the plan.
  op->setAttr(kNumberAttr, builder.getI64IntegerAttr(static_cast<int64_t>(
                               report.collectives.size())));
  report.collectives.push_back(std::move(collective));
}

void ProgramPlanner::countKernels(func::FuncOp func, const Timeline &timeline) {
  llvm::MapVector<StringRef, int64_t> counts;
  auto add = [&](Operation *op, StringRef name, int64_t iterations) {
    PlanStep step;
    step.name = name.str();
    step.location = getLocationString(op->getLoc());
    step.entry = func.getName().str();
    step.position = timeline.at(op);
    for (Operation *loop = op->getParentOp(); isa<blurt::LoopOp>(loop);
         loop = loop->getParentOp())
      ++step.depth;
    step.count = iterations;
    report.schedule.push_back(std::move(step));
  };
  func.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (auto loop = dyn_cast<blurt::LoopOp>(op))
      return add(op, ("loop " + loop.getName()).str(),
                 static_cast<int64_t>(loop.getCount()));
    StringRef name;
    if (auto group = dyn_cast<blurt::GroupOp>(op))
      name = group.getKernel();
    else if (auto collective = dyn_cast<blurt::CollectiveOp>(op))
      name = collective.getKind(), addCollective(collective, timeline);
    else if (isa<blurt::GemmOp, blurt::AttentionOp, blurt::AttentionGradOp,
                 blurt::ScatterAddOp, blurt::CacheUpdateOp>(op))
      name = op->getName().stripDialect();
    else
      return;
    ++counts[name];
    add(op, name, 1);
  });
  for (auto [name, count] : counts)
    report.kernels.push_back({name.str(), func.getName().str(), count});
}

//===----------------------------------------------------------------------===//
// blurt.program
//===----------------------------------------------------------------------===//

DictionaryAttr ProgramPlanner::describeTensor(DictionaryAttr tensor,
                                              RankedTensorType type,
                                              int64_t offset) {
  NamedAttrList attrs(tensor);
  auto stack = tensor ? tensor.getAs<IntegerAttr>("stack_count") : nullptr;
  if (stack && stack.getInt() > 0) {
    type = RankedTensorType::get(type.getShape().drop_front(),
                                 type.getElementType());
    attrs.set("stack_stride", builder.getI64IntegerAttr(getTensorBytes(type)));
  }
  attrs.set("type", TypeAttr::get(type));
  attrs.set("offset", builder.getI64IntegerAttr(offset));
  return attrs.getDictionary(module.getContext());
}

DictionaryAttr ProgramPlanner::describeEntry(const PlannedFunction &planned) {
  func::FuncOp func = planned.func;
  const Placement &placement = *planned.placement;
  NamedAttrList attrs;
  attrs.set("name", builder.getStringAttr(func.getName()));
  attrs.set("symbol", FlatSymbolRefAttr::get(func));
  attrs.set("peak_bytes", builder.getI64IntegerAttr(planned.peakBytes));
  auto entry = func->getAttrOfType<DictionaryAttr>("blurt.entry");
  for (auto [key, fallback] : {std::pair<StringRef, int64_t>{"batch", 1},
                               {"seq", 0},
                               {"microbatches", 1}}) {
    auto value = entry ? entry.getAs<IntegerAttr>(key) : IntegerAttr();
    attrs.set(key,
              builder.getI64IntegerAttr(value ? value.getInt() : fallback));
  }
  auto getOffset = [&](const ArenaView &view) {
    return planned.offsets[view.getStorage()] + view.getOffset();
  };
  SmallVector<Attribute> tensors;
  for (BlockArgument argument : func.getArguments()) {
    DictionaryAttr tensor = getTensor(func, argument.getArgNumber());
    // Parameters and moments are listed once for the program.
    if (tensor && isStateArgument(func, argument.getArgNumber()) &&
        tensor.getAs<StringAttr>("role") != "cache")
      continue;
    tensors.push_back(describeTensor(tensor,
                                     cast<RankedTensorType>(argument.getType()),
                                     getOffset(placement.getView(argument))));
  }
  for (unsigned i = 0, e = func.getNumResults(); i < e; ++i)
    if (auto output = planned.lifetimes->getOutput(i))
      tensors.push_back(describeTensor(
          func.getResultAttrOfType<DictionaryAttr>(i, "blu.tensor"),
          cast<RankedTensorType>(func.getResultTypes()[i]),
          getOffset(placement.getContentView(*output))));
  attrs.set("tensors", builder.getArrayAttr(tensors));
  return attrs.getDictionary(module.getContext());
}

void ProgramPlanner::addStateOwners() {
  for (const StateKey &key : stateOrder) {
    const StateTensor &state = states.at(key);
    PlanOwner owner;
    owner.name = key.second;
    owner.category = key.first;
    owner.location = getLocationString(state.loc);
    owner.bytes = getTensorBytes(state.type);
    owner.offset = state.offset;
    report.owners.push_back(std::move(owner));
  }
}

LogicalResult ProgramPlanner::checkLimit() {
  if (options.memoryLimit == 0 || report.peakBytes <= options.memoryLimit)
    return success();
  const PlanEntry &worst =
      *std::max_element(report.entries.begin(), report.entries.end(),
                        [](const PlanEntry &a, const PlanEntry &b) {
                          return a.peakBytes < b.peakBytes;
                        });
  InFlightDiagnostic diag = module.emitError();
  diag << "entry '" << worst.name << "' needs " << worst.peakBytes
       << " bytes, the memory limit is " << options.memoryLimit;
  std::vector<const PlanOwner *> owners;
  for (const PlanOwner &owner : report.owners)
    if (owner.entry.empty() || owner.entry == worst.name)
      owners.push_back(&owner);
  llvm::sort(owners, [](const PlanOwner *a, const PlanOwner *b) {
    return a->bytes != b->bytes ? a->bytes > b->bytes : a->offset < b->offset;
  });
  owners.resize(std::min<size_t>(owners.size(), 5));
  for (const PlanOwner *owner : owners)
    diag.attachNote() << owner->bytes << " bytes: " << owner->category << " '"
                      << owner->name << "'"
                      << (owner->location.empty() ? "" : " at ")
                      << owner->location;
  return diag;
}

void ProgramPlanner::addWaits(func::FuncOp func) {
  SmallVector<PlacedWait> waits = placeWaits(func);
  func.walk([&](blurt::CollectiveOp op) {
    auto number = cast<IntegerAttr>(op->removeAttr(kNumberAttr));
    PlanCollective &collective = report.collectives[number.getInt()];
    for (const PlacedWait &wait : waits)
      if (wait.collective == op)
        collective.waits.push_back(describeOperation(wait.before));
  });
}

/// What a checkpoint is checked against: a digest of the module in plan form,
/// without locations.
void ProgramPlanner::setPlanHash() {
  std::string text;
  llvm::raw_string_ostream os(text);
  module->print(os, OpPrintingFlags().enableDebugInfo(false));
  auto digest = llvm::SHA256::hash(llvm::arrayRefFromStringRef(text));
  NamedAttrList program(module->getAttrOfType<DictionaryAttr>("blurt.program"));
  program.set("plan_hash",
              builder.getStringAttr(llvm::toHex(digest, /*LowerCase=*/true)));
  module->setAttr("blurt.program", program.getDictionary(module.getContext()));
}

FailureOr<PlanReport> ProgramPlanner::run() {
  if (failed(collectState()))
    return failure();
  layOutState();
  addStateOwners();
  layOutWorkspace();
  report.peakBytes = report.lowerBound = report.scratchOffset();
  SmallVector<func::FuncOp> sources;
  for (func::FuncOp func : module.getOps<func::FuncOp>())
    if (!func.isDeclaration())
      sources.push_back(func);
  bool ok = true;
  for (func::FuncOp func : sources)
    ok &= succeeded(plan(func));
  if (!ok || failed(checkLimit()))
    return failure();

  report.cost = computeCost(module, options.link, report);
  NamedAttrList program(module->getAttrOfType<DictionaryAttr>("blurt.program"));
  program.set("state_bytes", builder.getI64IntegerAttr(report.stateBytes));
  program.set("peak_bytes", builder.getI64IntegerAttr(report.peakBytes));
  SmallVector<Attribute> state, entries;
  for (const StateKey &key : stateOrder)
    if (key.first != "cache")
      state.push_back(describeTensor(states.at(key).tensor, states.at(key).type,
                                     states.at(key).offset));
  for (const PlannedFunction &planned : functions)
    entries.push_back(describeEntry(planned));
  program.set("state", builder.getArrayAttr(state));
  program.set("entries", builder.getArrayAttr(entries));
  module->setAttr("blurt.program", program.getDictionary(module.getContext()));
  for (PlannedFunction &planned : functions) {
    report.copies += rewriteToPlan(planned, options);
    addWaits(planned.func);
  }
  setPlanHash();
  return std::move(report);
}

FailureOr<PlanReport> blutrain::planModule(ModuleOp module,
                                           const PlanOptions &options) {
  return ProgramPlanner(module, options).run();
}
