//===- PlanRandomProgram.cpp - random blurt programs ----------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "PlanRandomProgram.h"

#include "Blurt/BlurtDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <random>

using namespace blutrain::test;
using namespace mlir;

namespace {

using Shape = SmallVector<int64_t>;

class ProgramMaker {
public:
  ProgramMaker(MLIRContext *context, unsigned seed)
      : builder(context), loc(builder.getUnknownLoc()), random(seed) {}

  OwningOpRef<ModuleOp> make();

private:
  int64_t below(int64_t bound) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(bound));
  }
  bool chance(int64_t percent) { return below(100) < percent; }
  int64_t extent() { return 2 + below(3); }

  Value pick() { return pool[below(static_cast<int64_t>(pool.size()))]; }
  /// A value of the pool, the later the likelier.
  Value pickRecent() {
    return pool[pool.size() - 1 -
                std::min(below(static_cast<int64_t>(pool.size())),
                         below(static_cast<int64_t>(pool.size())))];
  }
  Value pickWhere(llvm::function_ref<bool(Value)> wanted) {
    // One call per value: `wanted` may throw dice.
    SmallVector<Value> found;
    for (Value value : pool)
      if (wanted(value))
        found.push_back(value);
    return found.empty() ? Value()
                         : found[below(static_cast<int64_t>(found.size()))];
  }
  static ArrayRef<int64_t> shapeOf(Value value) {
    return cast<RankedTensorType>(value.getType()).getShape();
  }
  static bool isFloat(Value value) {
    return getElementTypeOrSelf(value.getType()).isF32();
  }
  RankedTensorType typeFor(ArrayRef<int64_t> shape) {
    return RankedTensorType::get(shape, builder.getF32Type());
  }

  /// A function of all inputs, different for each.
  Value combine(OpBuilder &body, ArrayRef<Value> scalars);

  void makeStatements(int64_t count, int depth);
  void makeElementwise();
  Value makeElementwise(ArrayRef<Value> inputs, ArrayRef<AffineMap> maps,
                        AffineMap outputMap, ArrayRef<int64_t> domain);
  void makeRowReduction();
  void makeTableLoad();
  void makeGemm();
  void makeView();
  void makeConcat();
  void makeScatter();
  void makeCacheUpdate();
  void makeLoop(int depth);
  /// A fresh value with the bytes of none but itself.
  Value makeFresh(ArrayRef<int64_t> shape);
  void makeUpdate(unsigned argument);

  OpBuilder builder;
  Location loc;
  std::mt19937_64 random;
  SmallVector<Value> pool;
  func::FuncOp func;
  SmallVector<Value> results;
  SmallVector<Attribute> resultAttrs;
  Value ids, position, cache;
};

} // namespace

Value ProgramMaker::combine(OpBuilder &body, ArrayRef<Value> scalars) {
  Value total;
  double factor = 0.5;
  for (Value scalar : scalars) {
    Value weight =
        arith::ConstantOp::create(body, loc, body.getF32FloatAttr(factor));
    Value term = arith::MulFOp::create(body, loc, scalar, weight);
    total = total ? arith::AddFOp::create(body, loc, total, term).getResult()
                  : term;
    factor *= -0.75;
  }
  if (!total)
    total = arith::ConstantOp::create(body, loc, body.getF32FloatAttr(0.25));
  return total;
}

Value ProgramMaker::makeElementwise(ArrayRef<Value> inputs,
                                    ArrayRef<AffineMap> maps,
                                    AffineMap outputMap,
                                    ArrayRef<int64_t> domain) {
  unsigned numOutputs = chance(25) ? 2 : 1;
  SmallVector<int64_t> shape;
  for (AffineExpr expr : outputMap.getResults())
    shape.push_back(domain[cast<AffineDimExpr>(expr).getPosition()]);
  SmallVector<Type> types(numOutputs, typeFor(shape));
  SmallVector<AffineMap> outputMaps(numOutputs, outputMap);
  auto group = blurt::GroupOp::create(
      builder, loc, "elementwise", domain, {}, inputs, maps, {}, {}, types,
      outputMaps, [&](OpBuilder &body, Location, ValueRange scalars) {
        SmallVector<Value> values(scalars), yielded;
        yielded.push_back(combine(body, values));
        if (numOutputs == 2) {
          std::reverse(values.begin(), values.end());
          yielded.push_back(combine(body, values));
        }
        return yielded;
      });
  llvm::append_range(pool, group.getResults());
  return group.getResult(0);
}

void ProgramMaker::makeElementwise() {
  Value first = pickRecent();
  if (!isFloat(first))
    return;
  Shape domain(shapeOf(first));
  auto rank = static_cast<unsigned>(domain.size());
  AffineMap identity = builder.getMultiDimIdentityMap(rank);
  SmallVector<Value> inputs{first};
  SmallVector<AffineMap> maps{identity};
  for (int64_t i = below(3); i > 0; --i) {
    if (Value same = pickWhere([&](Value value) {
          return isFloat(value) && shapeOf(value).equals(domain);
        })) {
      inputs.push_back(same);
      maps.push_back(identity);
    }
  }
  if (rank > 1 && chance(30))
    if (Value row = pickWhere([&](Value value) {
          return isFloat(value) && shapeOf(value).equals({domain.back()});
        })) {
      inputs.push_back(row);
      maps.push_back(AffineMap::get(rank, 0, builder.getAffineDimExpr(rank - 1),
                                    builder.getContext()));
    }
  AffineMap output = identity;
  if (rank == 2 && chance(20))
    output = AffineMap::getPermutationMap(ArrayRef<unsigned>{1, 0},
                                          builder.getContext());
  makeElementwise(inputs, maps, output, domain);
}

Value ProgramMaker::makeFresh(ArrayRef<int64_t> shape) {
  auto rank = static_cast<unsigned>(shape.size());
  AffineMap identity = builder.getMultiDimIdentityMap(rank);
  Value source = pickWhere([&](Value value) {
    return isFloat(value) && shapeOf(value).equals(shape);
  });
  SmallVector<Value> inputs;
  SmallVector<AffineMap> maps;
  if (source) {
    inputs.push_back(source);
    maps.push_back(identity);
  }
  return makeElementwise(inputs, maps, identity, shape);
}

void ProgramMaker::makeRowReduction() {
  Value input = pickRecent();
  if (!isFloat(input) || shapeOf(input).empty())
    return;
  Shape domain(shapeOf(input));
  auto rank = static_cast<unsigned>(domain.size());
  auto reduced = static_cast<int64_t>(chance(70) ? rank - 1 : 0);
  AffineMap identity = builder.getMultiDimIdentityMap(rank);
  AffineMap rows = identity.dropResult(reduced);
  Shape rowShape(domain);
  rowShape.erase(rowShape.begin() + reduced);
  SmallVector<Value> inputs{input};
  SmallVector<AffineMap> maps{identity};
  if (Value stat = pickWhere([&](Value value) {
        return isFloat(value) && shapeOf(value).equals(rowShape);
      })) {
    inputs.push_back(stat);
    maps.push_back(rows);
  }
  auto group = blurt::GroupOp::create(
      builder, loc, "reduction", domain, reduced, inputs, maps, {}, {},
      TypeRange{typeFor(domain), typeFor(rowShape)}, {identity, rows},
      [&](OpBuilder &body, Location, ValueRange scalars) {
        Value sum = blurt::ReduceOp::create(body, loc, body.getF32Type(),
                                            blurt::ReduceKind::Sum, scalars[0]);
        Value scaled = combine(body, {scalars[0], sum});
        Value max = blurt::ReduceOp::create(body, loc, body.getF32Type(),
                                            blurt::ReduceKind::Max, scaled);
        SmallVector<Value> perRow{sum, max};
        if (scalars.size() > 1)
          perRow.push_back(scalars[1]);
        return SmallVector<Value>{combine(body, {scalars[0], max}),
                                  combine(body, perRow)};
      });
  llvm::append_range(pool, group.getResults());
}

void ProgramMaker::makeTableLoad() {
  // Rows of a table of 4 or more by ids below 4.
  Value table = pickWhere([&](Value value) {
    return isFloat(value) && shapeOf(value).size() == 2 &&
           shapeOf(value)[0] >= 4 && (isa<BlockArgument>(value) || chance(50));
  });
  if (!table)
    return;
  Shape domain{shapeOf(ids)[0], shapeOf(table)[1]};
  AffineMap identity = builder.getMultiDimIdentityMap(2);
  auto group = blurt::GroupOp::create(
      builder, loc, "gather", domain, {}, ids, identity.getSubMap({0}), table,
      {}, TypeRange{typeFor(domain)}, identity,
      [&](OpBuilder &body, Location, ValueRange arguments) {
        Value column = blurt::IndexOp::create(body, loc, body.getI64Type(), 1);
        Value row = arguments[0];
        Value loaded =
            blurt::LoadOp::create(body, loc, body.getF32Type(), arguments[1],
                                  ValueRange{row, column});
        return SmallVector<Value>{loaded};
      });
  pool.push_back(group.getResult(0));
}

void ProgramMaker::makeGemm() {
  auto isMatrix = [](Value value) {
    return isFloat(value) && shapeOf(value).size() == 2;
  };
  Value a = pickWhere(isMatrix);
  if (!a)
    return;
  bool transA = chance(40), transB = chance(40);
  int64_t m = shapeOf(a)[transA ? 1 : 0], k = shapeOf(a)[transA ? 0 : 1];
  Value b = pickWhere([&](Value value) {
    return isMatrix(value) && shapeOf(value)[transB ? 1 : 0] == k;
  });
  if (!b)
    return;
  int64_t n = shapeOf(b)[transB ? 0 : 1];
  Value c = chance(50) ? pickWhere([&](Value value) {
    return isMatrix(value) && shapeOf(value).equals({m, n});
  })
                       : Value();
  auto gemm =
      blurt::GemmOp::create(builder, loc, TypeRange{typeFor({m, n})}, a, b, c,
                            Value(), ValueRange(), transA, transB);
  // Keep magnitudes in bounds.
  AffineMap identity = builder.getMultiDimIdentityMap(2);
  if (chance(50))
    pool.push_back(gemm.getResult(0));
  else
    makeElementwise({gemm.getResult(0)}, {identity}, identity, {m, n});
}

void ProgramMaker::makeView() {
  Value source = pickRecent();
  if (!isFloat(source))
    return;
  Shape shape(shapeOf(source));
  auto rank = static_cast<int64_t>(shape.size());
  int64_t kind = below(3);
  if (kind == 0 && rank > 1) {
    Shape permutation = llvm::to_vector(llvm::seq<int64_t>(0, rank)), result;
    std::shuffle(permutation.begin(), permutation.end(), random);
    for (int64_t dim : permutation)
      result.push_back(shape[dim]);
    pool.push_back(blurt::TransposeOp::create(builder, loc, typeFor(result),
                                              source, permutation));
  } else if (kind == 1 && rank > 0) {
    Shape offsets, sizes;
    for (int64_t extent : shape) {
      sizes.push_back(chance(50) ? extent : 1 + below(extent));
      offsets.push_back(below(extent - sizes.back() + 1));
    }
    pool.push_back(
        blurt::SliceOp::create(builder, loc, typeFor(sizes), source, offsets));
  } else {
    // Merge all, or split off a factor, or insert a dim of extent 1.
    int64_t total = 1;
    for (int64_t extent : shape)
      total *= extent;
    Shape result{total};
    if (chance(60))
      for (int64_t factor : {2, 3, 4})
        if (total % factor == 0 && total > factor && chance(60)) {
          result = {total / factor, factor};
          if (chance(50))
            std::swap(result[0], result[1]);
        }
    if (chance(20))
      result.insert(result.begin() + below(2), 1);
    if (result != shape)
      pool.push_back(
          blurt::ReshapeOp::create(builder, loc, typeFor(result), source));
  }
}

void ProgramMaker::makeConcat() {
  Value first = pickRecent();
  if (!isFloat(first) || shapeOf(first).empty())
    return;
  int64_t dim = below(static_cast<int64_t>(shapeOf(first).size()));
  SmallVector<Value> parts{first};
  Shape result(shapeOf(first));
  for (int64_t i = 1 + below(2); i > 0; --i) {
    Value part = pickWhere([&](Value value) {
      if (!isFloat(value) || shapeOf(value).size() != result.size())
        return false;
      for (auto [d, extent] : llvm::enumerate(shapeOf(value)))
        if (static_cast<int64_t>(d) != dim && extent != result[d])
          return false;
      return true;
    });
    parts.push_back(part);
    result[dim] += shapeOf(part)[dim];
  }
  if (result[dim] > 12)
    return;
  pool.push_back(
      blurt::ConcatOp::create(builder, loc, typeFor(result), dim, parts));
}

void ProgramMaker::makeScatter() {
  Value updates = pickWhere([&](Value value) {
    return isFloat(value) && shapeOf(value).size() == 2 &&
           shapeOf(value)[0] == shapeOf(ids)[0];
  });
  if (!updates)
    return;
  auto scatter = blurt::ScatterAddOp::create(
      builder, loc, TypeRange{typeFor({4, shapeOf(updates)[1]})}, ids, updates,
      ValueRange());
  pool.push_back(scatter.getResult(0));
}

void ProgramMaker::makeCacheUpdate() {
  Value target = pickWhere([](Value value) {
    return isFloat(value) && shapeOf(value).size() == 3 &&
           shapeOf(value)[1] >= 3;
  });
  if (!target)
    return;
  // The position is below 2: rows of extent 1 fit.
  Shape rowShape(shapeOf(target));
  rowShape[1] = 1;
  Value rows = makeFresh(rowShape);
  auto update =
      blurt::CacheUpdateOp::create(builder, loc, TypeRange{target.getType()},
                                   target, rows, position, ValueRange());
  pool.push_back(update.getResult(0));
}

void ProgramMaker::makeLoop(int depth) {
  int64_t count = 2 + below(2);
  SmallVector<Value> carries, slices;
  for (int64_t i = 1 + below(3); i > 0; --i)
    if (Value init = pick(); isFloat(init))
      carries.push_back(init);
  for (int64_t i = below(3); i > 0; --i)
    if (Value operand = pickWhere([&](Value value) {
          return isFloat(value) && !shapeOf(value).empty() &&
                 shapeOf(value)[0] == count;
        }))
      slices.push_back(operand);
  if (carries.empty() && slices.empty())
    return;
  SmallVector<Value> outer = pool;
  auto loop = blurt::LoopOp::create(
      builder, loc, "loop", count, chance(50), carries, slices,
      [&](OpBuilder &body, Location, Value iteration, ValueRange carried,
          ValueRange sliced) {
        OpBuilder::InsertionGuard guard(builder);
        builder.restoreInsertionPoint(body.saveInsertionPoint());
        llvm::append_range(pool, carried);
        llvm::append_range(pool, sliced);
        if (chance(30)) {
          // Use the iteration as a number.
          AffineMap none = AffineMap::get(0, 0, {}, builder.getContext());
          auto group = blurt::GroupOp::create(
              builder, loc, "number", {}, {}, iteration, none, {}, {},
              TypeRange{typeFor({})}, none,
              [&](OpBuilder &inner, Location, ValueRange scalars) {
                return SmallVector<Value>{arith::SIToFPOp::create(
                    inner, loc, inner.getF32Type(), scalars[0])};
              });
          pool.push_back(group.getResult(0));
        }
        makeStatements(2 + below(5), depth + 1);
        SmallVector<Value> next, collected;
        for (Value value : carried) {
          // Often new, now and then another carry or a captured value.
          Value chosen = pickWhere([&](Value other) {
            return other.getType() == value.getType() && other != value &&
                   (chance(70) || isa<BlockArgument>(other));
          });
          if (!chosen || chance(30))
            chosen = chance(10) ? value : makeFresh(shapeOf(value));
          next.push_back(chosen);
        }
        for (int64_t i = below(3); i > 0; --i) {
          Value chosen =
              chance(40) && !carried.empty()
                  ? carried[below(static_cast<int64_t>(carried.size()))]
              : chance(20) && !next.empty() ? next.front()
                                            : pickRecent();
          // Something from outside, the same in all iterations.
          if (chance(15))
            chosen = outer[below(static_cast<int64_t>(outer.size()))];
          if (!isFloat(chosen) || shapeOf(chosen).size() > 2)
            continue;
          if (chance(20) && shapeOf(chosen).size() == 2)
            chosen = blurt::ReshapeOp::create(
                builder, loc,
                typeFor({shapeOf(chosen)[0] * shapeOf(chosen)[1]}), chosen);
          collected.push_back(chosen);
        }
        return std::make_pair(next, collected);
      });
  pool = outer;
  llvm::append_range(pool, loop.getResults());
}

void ProgramMaker::makeStatements(int64_t count, int depth) {
  for (int64_t i = 0; i < count; ++i) {
    int64_t kind = below(100);
    if (kind < 25)
      makeElementwise();
    else if (kind < 35)
      makeRowReduction();
    else if (kind < 50)
      makeGemm();
    else if (kind < 68)
      makeView();
    else if (kind < 78)
      makeConcat();
    else if (kind < 82)
      makeScatter();
    else if (kind < 86)
      makeTableLoad();
    else if (kind < 90)
      makeCacheUpdate();
    else if (depth < 2)
      makeLoop(depth);
  }
}

/// Donates `argument` to an update of it, in one of the ways that a step does.
void ProgramMaker::makeUpdate(unsigned argument) {
  Value old = func.getArgument(argument);
  Shape shape(shapeOf(old));
  Value updated;
  int64_t kind = below(3);
  if (kind == 0 && shape.size() == 3) {
    // Slices in, collection out.
    auto loop = blurt::LoopOp::create(
        builder, loc, "update", shape[0], chance(50), ValueRange(), old,
        [&](OpBuilder &body, Location, Value, ValueRange, ValueRange sliced) {
          AffineMap identity = body.getMultiDimIdentityMap(2);
          auto group = blurt::GroupOp::create(
              body, loc, "update", shapeOf(sliced[0]), {}, sliced, identity, {},
              {}, TypeRange{sliced[0].getType()}, identity,
              [&](OpBuilder &inner, Location, ValueRange scalars) {
                return SmallVector<Value>{
                    combine(inner, SmallVector<Value>(scalars))};
              });
          return std::make_pair(SmallVector<Value>(),
                                SmallVector<Value>(group.getResults()));
        });
    updated = loop.getResult(0);
  } else if (kind == 1 && shape.size() == 2) {
    Value a = makeFresh({shape[0], 3}), b = makeFresh({3, shape[1]});
    updated = blurt::GemmOp::create(builder, loc, TypeRange{old.getType()}, a,
                                    b, old, Value(), ValueRange(), false, false)
                  .getResult(0);
  } else {
    AffineMap identity =
        builder.getMultiDimIdentityMap(static_cast<unsigned>(shape.size()));
    Value gradient = makeFresh(shape);
    updated =
        makeElementwise({old, gradient}, {identity, identity}, identity, shape);
  }
  results.push_back(updated);
  resultAttrs.push_back(builder.getDictionaryAttr(builder.getNamedAttr(
      "blu.donates", builder.getI64IntegerAttr(argument))));
}

OwningOpRef<ModuleOp> ProgramMaker::make() {
  OwningOpRef<ModuleOp> module = ModuleOp::create(builder, loc);
  builder.setInsertionPointToEnd(module->getBody());
  SmallVector<Type> argumentTypes;
  SmallVector<Attribute> argumentAttrs;
  auto addArgument = [&](RankedTensorType type, StringRef role) {
    argumentTypes.push_back(type);
    argumentAttrs.push_back(builder.getDictionaryAttr(builder.getNamedAttr(
        "blu.tensor",
        builder.getDictionaryAttr(
            {builder.getNamedAttr(
                 "name", builder.getStringAttr(
                             "t" + std::to_string(argumentTypes.size()))),
             builder.getNamedAttr("role", builder.getStringAttr(role))}))));
  };
  unsigned numDonated = 1 + static_cast<unsigned>(below(3));
  for (unsigned i = 0; i < numDonated; ++i)
    addArgument(chance(40) ? typeFor({extent(), extent(), extent()})
                           : typeFor({extent(), extent()}),
                "param");
  addArgument(typeFor({extent(), extent()}), "param");
  addArgument(typeFor({extent()}), "moment1");
  for (int64_t i = 1 + below(3); i > 0; --i)
    addArgument(chance(50) ? typeFor({extent(), extent(), extent()})
                           : typeFor({extent(), extent()}),
                "input");
  unsigned numFloats = static_cast<unsigned>(argumentTypes.size());
  addArgument(RankedTensorType::get({extent()}, builder.getI64Type()), "input");
  addArgument(RankedTensorType::get({}, builder.getI64Type()), "scalar");

  func = func::FuncOp::create(builder, loc, "train",
                              builder.getFunctionType(argumentTypes, {}));
  func.setAllArgAttrs(argumentAttrs);
  Block *entry = func.addEntryBlock();
  builder.setInsertionPointToStart(entry);
  llvm::append_range(pool, entry->getArguments().take_front(numFloats));
  ids = entry->getArgument(numFloats);
  position = entry->getArgument(numFloats + 1);

  makeStatements(6 + below(15), 0);
  for (int64_t i = 1 + below(3); i > 0; --i)
    if (Value value = pickRecent(); isFloat(value)) {
      results.push_back(value);
      auto text = [&](StringRef key, const std::string &value) {
        return builder.getNamedAttr(key, builder.getStringAttr(value));
      };
      resultAttrs.push_back(builder.getDictionaryAttr(builder.getNamedAttr(
          "blu.tensor", builder.getDictionaryAttr(
                            {text("name", "r" + std::to_string(results.size())),
                             text("role", "output")}))));
    }
  // What is returned must not be a view of state that the updates change.
  for (Value &value : results)
    if (chance(70) || isa<BlockArgument>(value))
      value = makeFresh(shapeOf(value));
  for (Value &value : results) {
    // Views of arguments: see through them.
    Value root = value;
    while (Operation *op = root.getDefiningOp()) {
      if (!isa<blurt::ReshapeOp, blurt::TransposeOp, blurt::SliceOp>(op))
        break;
      root = op->getOperand(0);
    }
    if (isa<BlockArgument>(root))
      value = makeFresh(shapeOf(value));
  }
  for (unsigned i = 0; i < numDonated; ++i) {
    makeUpdate(i);
    // The old value is gone from here on.
    llvm::erase_if(pool, [&](Value value) {
      while (Operation *op = value.getDefiningOp()) {
        if (!isa<blurt::ReshapeOp, blurt::TransposeOp, blurt::SliceOp>(op))
          break;
        value = op->getOperand(0);
      }
      return value == func.getArgument(i);
    });
  }
  func::ReturnOp::create(builder, loc, results);
  SmallVector<Type> resultTypes;
  for (Value value : results)
    resultTypes.push_back(value.getType());
  func.setFunctionType(builder.getFunctionType(argumentTypes, resultTypes));
  func.setAllResultAttrs(resultAttrs);
  return module;
}

OwningOpRef<ModuleOp> blutrain::test::makeRandomProgram(MLIRContext *context,
                                                        unsigned seed) {
  return ProgramMaker(context, seed).make();
}
