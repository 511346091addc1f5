//===- PlanInterpreter.cpp - runs blurt programs, naively -----------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "PlanInterpreter.h"

#include "Blurt/BlurtDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include <cmath>
#include <cstring>
#include <functional>

using namespace blutrain::test;
using namespace mlir;

namespace {

/// An operand, wherever its elements are.
struct Place {
  Type elementType;
  SmallVector<int64_t> shape;
  std::function<double(ArrayRef<int64_t>)> read;
  std::function<void(ArrayRef<int64_t>, double)> write;
};

} // namespace

static double roundTo(Type type, double value) {
  return type.isF32() ? static_cast<double>(static_cast<float>(value)) : value;
}

static void storeElement(Type type, char *bytes, double value) {
  auto put = [&](auto typed) { std::memcpy(bytes, &typed, sizeof(typed)); };
  if (type.isF64())
    put(value);
  else if (type.isF32())
    put(static_cast<float>(value));
  else if (type.isInteger(64))
    put(static_cast<int64_t>(value));
  else if (type.isInteger(32))
    put(static_cast<int32_t>(value));
  else
    llvm_unreachable("element type not interpreted");
}

static double loadElement(Type type, const char *bytes) {
  auto get = [&](auto typed) {
    std::memcpy(&typed, bytes, sizeof(typed));
    return static_cast<double>(typed);
  };
  if (type.isF64())
    return get(double());
  if (type.isF32())
    return get(float());
  if (type.isInteger(64))
    return get(int64_t());
  if (type.isInteger(32))
    return get(int32_t());
  llvm_unreachable("element type not interpreted");
}

void blutrain::test::storeTensor(const Tensor &tensor, ShapedType type,
                                 char *bytes) {
  int64_t size = blurt::getElementBytes(type.getElementType());
  for (auto [i, value] : llvm::enumerate(tensor))
    storeElement(type.getElementType(), bytes + i * size, value);
}

Tensor blutrain::test::loadTensor(ShapedType type, const char *bytes) {
  int64_t size = blurt::getElementBytes(type.getElementType());
  Tensor tensor(type.getNumElements());
  for (auto [i, value] : llvm::enumerate(tensor))
    value = loadElement(type.getElementType(), bytes + i * size);
  return tensor;
}

/// Calls `visit` for each index of a box, in row-major order.
static void forEachIndex(ArrayRef<int64_t> shape,
                         function_ref<void(ArrayRef<int64_t>)> visit) {
  SmallVector<int64_t> index(shape.size(), 0);
  if (llvm::is_contained(shape, 0))
    return;
  while (true) {
    visit(index);
    size_t dim = shape.size();
    while (dim > 0 && ++index[dim - 1] == shape[dim - 1])
      index[--dim] = 0;
    if (dim == 0)
      return;
  }
}

static size_t linearize(ArrayRef<int64_t> shape, ArrayRef<int64_t> index) {
  int64_t linear = 0;
  for (auto [extent, i] : llvm::zip_equal(shape, index))
    linear = linear * extent + i;
  return static_cast<size_t>(linear);
}

static Place makePlace(Tensor &tensor, ShapedType type) {
  Place place{type.getElementType(), llvm::to_vector(type.getShape()), {}, {}};
  SmallVector<int64_t> shape = place.shape;
  place.read = [&tensor, shape](ArrayRef<int64_t> index) {
    return tensor[linearize(shape, index)];
  };
  place.write = [&tensor, shape](ArrayRef<int64_t> index, double value) {
    tensor[linearize(shape, index)] = value;
  };
  return place;
}

static Place makePlace(char *base, MemRefType type) {
  Place place{type.getElementType(), llvm::to_vector(type.getShape()), {}, {}};
  SmallVector<int64_t> strides;
  int64_t offset;
  if (failed(type.getStridesAndOffset(strides, offset)))
    llvm_unreachable("slots are strided");
  Type elementType = type.getElementType();
  int64_t size = blurt::getElementBytes(elementType);
  auto address = [base, strides, size](ArrayRef<int64_t> index) {
    char *element = base;
    for (auto [i, stride] : llvm::zip_equal(index, strides))
      element += i * stride * size;
    return element;
  };
  place.read = [address, elementType](ArrayRef<int64_t> index) {
    return loadElement(elementType, address(index));
  };
  place.write = [address, elementType](ArrayRef<int64_t> index, double value) {
    storeElement(elementType, address(index), value);
  };
  return place;
}

//===----------------------------------------------------------------------===//
// Operations, the same for both forms
//===----------------------------------------------------------------------===//

namespace {

/// Evaluates a group's body. Rows are points that differ in reduced dims only;
/// each reduction is a phase that reads the inputs of the row anew, and outputs
/// are written in the last phase, point by point.
class GroupInterpreter {
public:
  GroupInterpreter(blurt::GroupOp group, ArrayRef<Place> inputs,
                   ArrayRef<Place> tables, ArrayRef<Place> outs)
      : group(group), inputs(inputs), tables(tables), outs(outs) {}

  void run() {
    SmallVector<int64_t> rows(group.getDomain()), within(group.getDomain());
    for (auto [dim, extent] : llvm::enumerate(group.getDomain()))
      (group.isReduced(dim) ? rows : within)[dim] = 1;
    forEachIndex(rows, [&](ArrayRef<int64_t> row) { runRow(row, within); });
  }

private:
  void runRow(ArrayRef<int64_t> row, ArrayRef<int64_t> within) {
    reduced.clear();
    auto points = [&](function_ref<void(ArrayRef<int64_t>)> visit) {
      forEachIndex(within, [&](ArrayRef<int64_t> inner) {
        SmallVector<int64_t> point;
        for (auto [a, b] : llvm::zip_equal(row, inner))
          point.push_back(a + b);
        visit(point);
      });
    };
    for (auto reduce : group.getBodyBlock()->getOps<blurt::ReduceOp>()) {
      bool isSum = reduce.getKind() == blurt::ReduceKind::Sum;
      double total = isSum ? 0.0 : -INFINITY;
      points([&](ArrayRef<int64_t> point) {
        double value = evaluate(point, reduce.getValue());
        total = isSum ? roundTo(reduce.getType(), total + value)
                      : std::max(total, value);
      });
      reduced[reduce.getResult()] = total;
    }
    // Outputs without the reduced dims are written once, after the others.
    Operation *yield = group.getBodyBlock()->getTerminator();
    auto isPerRow = [&](unsigned i) {
      uint64_t dims = group.getMentionedDims(group.getOutputMap(i));
      return llvm::any_of(group.getReduce(), [&](int64_t dim) {
        return group.getDomain()[dim] != 1 && !(dims >> dim & 1);
      });
    };
    points([&](ArrayRef<int64_t> point) {
      SmallVector<double> values;
      for (Value value : yield->getOperands())
        values.push_back(evaluate(point, value));
      for (auto [i, value] : llvm::enumerate(values))
        if (!isPerRow(i))
          outs[i].write(mapped(group.getOutputMap(i), point), value);
    });
    for (unsigned i = 0, e = yield->getNumOperands(); i < e; ++i)
      if (isPerRow(i)) {
        double value = evaluate(row, yield->getOperand(i));
        outs[i].write(mapped(group.getOutputMap(i), row), value);
      }
  }

  static SmallVector<int64_t> mapped(AffineMap map, ArrayRef<int64_t> point) {
    SmallVector<int64_t> index;
    for (AffineExpr expr : map.getResults()) {
      auto dim = dyn_cast<AffineDimExpr>(expr);
      index.push_back(dim ? point[dim.getPosition()] : 0);
    }
    return index;
  }

  double evaluate(ArrayRef<int64_t> point, Value value) {
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      unsigned i = argument.getArgNumber();
      return inputs[i].read(mapped(group.getInputMap(i), point));
    }
    if (auto found = reduced.find(value); found != reduced.end())
      return found->second;
    Operation *op = value.getDefiningOp();
    auto operand = [&](unsigned i) {
      return evaluate(point, op->getOperand(i));
    };
    if (isa<arith::AddFOp>(op))
      return roundTo(value.getType(), operand(0) + operand(1));
    if (isa<arith::SubFOp>(op))
      return roundTo(value.getType(), operand(0) - operand(1));
    if (isa<arith::MulFOp>(op))
      return roundTo(value.getType(), operand(0) * operand(1));
    if (isa<arith::SIToFPOp>(op))
      return roundTo(value.getType(), operand(0));
    if (auto index = dyn_cast<blurt::IndexOp>(op))
      return static_cast<double>(point[index.getDim()]);
    if (auto load = dyn_cast<blurt::LoadOp>(op)) {
      SmallVector<int64_t> at;
      for (Value i : load.getIndices())
        at.push_back(static_cast<int64_t>(evaluate(point, i)));
      unsigned table = cast<BlockArgument>(load.getTable()).getArgNumber() -
                       static_cast<unsigned>(inputs.size());
      return tables[table].read(at);
    }
    FloatAttr constant;
    if (matchPattern(value, m_Constant(&constant)))
      return constant.getValueAsDouble();
    llvm_unreachable("operation not interpreted");
  }

  blurt::GroupOp group;
  ArrayRef<Place> inputs, tables, outs;
  DenseMap<Value, double> reduced;
};

} // namespace

static void runGemm(blurt::GemmOp gemm, ArrayRef<Place> operands,
                    const Place *addend, const Place &out) {
  auto rank = out.shape.size();
  const Place &a = operands[0], &b = operands[1];
  int64_t k = a.shape[rank - (gemm.getTransA() ? 2 : 1)];
  forEachIndex(out.shape, [&](ArrayRef<int64_t> index) {
    double sum = addend ? addend->read(index) : 0.0;
    for (int64_t i = 0; i < k; ++i) {
      SmallVector<int64_t> left(index), right(index);
      left[rank - 1] = i;
      if (gemm.getTransA())
        std::swap(left[rank - 1], left[rank - 2]);
      right[rank - 2] = i;
      if (gemm.getTransB())
        std::swap(right[rank - 1], right[rank - 2]);
      if (rank == 3 && a.shape[0] == 1)
        left[0] = 0;
      if (rank == 3 && b.shape[0] == 1)
        right[0] = 0;
      sum = roundTo(out.elementType, sum + a.read(left) * b.read(right));
    }
    out.write(index, sum);
  });
}

static void runScatterAdd(const Place &ids, const Place &updates,
                          const Place &out) {
  forEachIndex(out.shape,
               [&](ArrayRef<int64_t> index) { out.write(index, 0.0); });
  forEachIndex(updates.shape, [&](ArrayRef<int64_t> index) {
    SmallVector<int64_t> to(index);
    to[0] = static_cast<int64_t>(ids.read(index.front()));
    out.write(to, roundTo(out.elementType, out.read(to) + updates.read(index)));
  });
}

static void runCacheUpdate(const Place &rows, const Place &position,
                           const Place &out) {
  auto first = static_cast<int64_t>(position.read({}));
  forEachIndex(rows.shape, [&](ArrayRef<int64_t> index) {
    SmallVector<int64_t> to(index);
    to[1] += first;
    out.write(to, rows.read(index));
  });
}

//===----------------------------------------------------------------------===//
// Tensor form
//===----------------------------------------------------------------------===//

namespace {

class TensorInterpreter {
public:
  std::vector<Tensor> run(func::FuncOp func,
                          const std::vector<Tensor> &arguments) {
    for (auto [argument, value] :
         llvm::zip_equal(func.getArguments(), arguments))
      values[argument] = value;
    runBlock(func.getBody().front());
    std::vector<Tensor> results;
    for (Value value : func.getBody().front().getTerminator()->getOperands())
      results.push_back(values.at(value));
    return results;
  }

private:
  static ShapedType typeOf(Value value) {
    return cast<ShapedType>(value.getType());
  }
  Place place(Value value) {
    return makePlace(values.at(value), typeOf(value));
  }

  void runBlock(Block &block) {
    for (Operation &op : block.without_terminator())
      runOp(&op);
  }
  void runOp(Operation *op);
  void runLoop(blurt::LoopOp loop);
  /// Fills the result of `op` with `source` of the index that `from` computes.
  void gather(Operation *op, Value source,
              function_ref<SmallVector<int64_t>(ArrayRef<int64_t>)> from);

  struct Less {
    bool operator()(Value a, Value b) const {
      return a.getAsOpaquePointer() < b.getAsOpaquePointer();
    }
  };
  // Places point into the map: it must not move its values.
  std::map<Value, Tensor, Less> values;
};

} // namespace

void TensorInterpreter::gather(
    Operation *op, Value source,
    function_ref<SmallVector<int64_t>(ArrayRef<int64_t>)> from) {
  Value result = op->getResult(0);
  Tensor tensor;
  Place input = place(source);
  forEachIndex(typeOf(result).getShape(), [&](ArrayRef<int64_t> index) {
    tensor.push_back(input.read(from(index)));
  });
  values[result] = std::move(tensor);
}

void TensorInterpreter::runOp(Operation *op) {
  if (auto loop = dyn_cast<blurt::LoopOp>(op))
    return runLoop(loop);
  if (isa<blurt::ReshapeOp>(op)) {
    values[op->getResult(0)] = values.at(op->getOperand(0));
    return;
  }
  if (auto transpose = dyn_cast<blurt::TransposeOp>(op))
    return gather(op, transpose.getSource(), [&](ArrayRef<int64_t> index) {
      SmallVector<int64_t> from(index.size());
      for (auto [i, dim] : llvm::enumerate(transpose.getPermutation()))
        from[dim] = index[i];
      return from;
    });
  if (auto slice = dyn_cast<blurt::SliceOp>(op))
    return gather(op, slice.getSource(), [&](ArrayRef<int64_t> index) {
      SmallVector<int64_t> from(index);
      for (auto [i, offset] : llvm::zip_equal(from, slice.getOffsets()))
        i += offset;
      return from;
    });
  SmallVector<Place> operands, outs;
  for (Value result : op->getResults())
    values[result] = Tensor(typeOf(result).getNumElements(), 0.0);
  for (Value operand : op->getOperands())
    operands.push_back(place(operand));
  for (Value result : op->getResults())
    outs.push_back(place(result));
  if (auto concat = dyn_cast<blurt::ConcatOp>(op)) {
    int64_t offset = 0;
    for (const Place &part : operands) {
      forEachIndex(part.shape, [&](ArrayRef<int64_t> index) {
        SmallVector<int64_t> to(index);
        to[concat.getDim()] += offset;
        outs[0].write(to, part.read(index));
      });
      offset += part.shape[concat.getDim()];
    }
  } else if (auto group = dyn_cast<blurt::GroupOp>(op)) {
    ArrayRef<Place> all = operands;
    size_t inputs = group.getInputs().size();
    GroupInterpreter(group, all.take_front(inputs), all.drop_front(inputs),
                     outs)
        .run();
  } else if (auto gemm = dyn_cast<blurt::GemmOp>(op)) {
    runGemm(gemm, operands, gemm.getC() ? &operands[2] : nullptr, outs[0]);
  } else if (isa<blurt::ScatterAddOp>(op)) {
    runScatterAdd(operands[0], operands[1], outs[0]);
  } else if (auto update = dyn_cast<blurt::CacheUpdateOp>(op)) {
    values[op->getResult(0)] = values.at(update.getCache());
    runCacheUpdate(operands[1], operands[2], outs[0]);
  } else {
    llvm_unreachable("operation not interpreted");
  }
}

void TensorInterpreter::runLoop(blurt::LoopOp loop) {
  std::vector<Tensor> carried;
  for (Value init : loop.getCarries())
    carried.push_back(values.at(init));
  auto count = static_cast<int64_t>(loop.getCount());
  std::vector<std::vector<Tensor>> collected(loop.getNumCollected(),
                                             std::vector<Tensor>(count));
  Operation *yield = loop.getBodyBlock()->getTerminator();
  for (int64_t step = 0; step < count; ++step) {
    int64_t i = loop.getReverse() ? count - 1 - step : step;
    values[loop.getIteration()] = {static_cast<double>(i)};
    for (auto [j, tensor] : llvm::enumerate(carried))
      values[loop.getCarryArg(j)] = tensor;
    for (auto [j, operand] : llvm::enumerate(loop.getSlices())) {
      const Tensor &all = values.at(operand);
      auto size = static_cast<int64_t>(all.size()) / count;
      values[loop.getSliceArg(j)] =
          Tensor(all.begin() + i * size, all.begin() + (i + 1) * size);
    }
    runBlock(*loop.getBodyBlock());
    for (auto [j, tensor] : llvm::enumerate(carried))
      tensor = values.at(yield->getOperand(j));
    for (auto [j, slots] : llvm::enumerate(collected))
      slots[i] = values.at(yield->getOperand(carried.size() + j));
  }
  for (auto [j, tensor] : llvm::enumerate(carried))
    values[loop.getResult(j)] = tensor;
  for (auto [j, slots] : llvm::enumerate(collected)) {
    Tensor all;
    for (const Tensor &slot : slots)
      all.insert(all.end(), slot.begin(), slot.end());
    values[loop.getResult(carried.size() + j)] = std::move(all);
  }
}

std::vector<Tensor>
blutrain::test::interpretTensors(func::FuncOp func,
                                 const std::vector<Tensor> &arguments) {
  return TensorInterpreter().run(func, arguments);
}

//===----------------------------------------------------------------------===//
// Plan form
//===----------------------------------------------------------------------===//

namespace {

class ArenaInterpreter {
public:
  explicit ArenaInterpreter(std::vector<char> &arena) : arena(arena) {}

  void runBlock(Block &block) {
    for (Operation &op : block.without_terminator())
      runOp(&op);
  }

private:
  void runOp(Operation *op);

  Place place(Value value) {
    return makePlace(bases.lookup(value), cast<MemRefType>(value.getType()));
  }
  SmallVector<Place> places(ValueRange values) {
    return llvm::map_to_vector(values,
                               [&](Value value) { return place(value); });
  }

  std::vector<char> &arena;
  DenseMap<Value, int64_t> integers;
  DenseMap<Value, char *> bases;
};

} // namespace

void ArenaInterpreter::runOp(Operation *op) {
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    integers[constant] = cast<IntegerAttr>(constant.getValue()).getInt();
  } else if (auto sub = dyn_cast<arith::SubIOp>(op)) {
    integers[sub] =
        integers.lookup(sub.getLhs()) - integers.lookup(sub.getRhs());
  } else if (auto cast = dyn_cast<arith::IndexCastOp>(op)) {
    integers[cast] = integers.lookup(cast.getIn());
  } else if (auto slot = dyn_cast<blurt::SlotOp>(op)) {
    auto offset = static_cast<int64_t>(slot.getOffset());
    for (auto [i, step] :
         llvm::zip_equal(slot.getIterations(), slot.getSteps()))
      offset += integers.lookup(i) * step;
    int64_t span = *blurt::getSpanBytes(
        llvm::cast<MemRefType>(slot.getResult().getType()));
    if (offset < 0 || offset + span > static_cast<int64_t>(arena.size()))
      llvm::report_fatal_error("slot outside the arena");
    bases[slot] = arena.data() + offset;
  } else if (auto loop = dyn_cast<scf::ForOp>(op)) {
    for (int64_t i = integers.lookup(loop.getLowerBound()),
                 e = integers.lookup(loop.getUpperBound());
         i < e; i += integers.lookup(loop.getStep())) {
      integers[loop.getInductionVar()] = i;
      runBlock(*loop.getBody());
    }
  } else if (auto store = dyn_cast<memref::StoreOp>(op)) {
    place(store.getMemRef())
        .write({}, static_cast<double>(integers.lookup(store.getValue())));
  } else if (auto group = dyn_cast<blurt::GroupOp>(op)) {
    GroupInterpreter(group, places(group.getInputs()),
                     places(group.getTables()), places(group.getOuts()))
        .run();
  } else if (auto gemm = dyn_cast<blurt::GemmOp>(op)) {
    Place out = place(gemm.getOuts()[0]);
    runGemm(gemm, places({gemm.getA(), gemm.getB()}),
            gemm.getC() ? &out : nullptr, out);
  } else if (auto scatter = dyn_cast<blurt::ScatterAddOp>(op)) {
    runScatterAdd(place(scatter.getIds()), place(scatter.getUpdates()),
                  place(scatter.getOuts()[0]));
  } else if (auto update = dyn_cast<blurt::CacheUpdateOp>(op)) {
    runCacheUpdate(place(update.getRows()), place(update.getPosition()),
                   place(update.getOuts()[0]));
  } else {
    llvm_unreachable("operation not interpreted");
  }
}

void blutrain::test::interpretPlan(func::FuncOp func,
                                   std::vector<char> &arena) {
  ArenaInterpreter(arena).runBlock(func.getBody().front());
}
