//===- SetPrecision.cpp - element types by precision policy ---------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blutrain/Autodiff/Passes.h"

#include "Blu/BluSupport.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/TypeSwitch.h"

namespace blutrain {
#define GEN_PASS_DEF_SETPRECISIONPASS
#include "blutrain/Autodiff/Passes.h.inc"
} // namespace blutrain

using namespace mlir;
using namespace mlir::blu;

//===----------------------------------------------------------------------===//
// bf16
//===----------------------------------------------------------------------===//

/// Erases a concatenation and those constants of it that nothing else reads.
static void eraseUnread(ConcatOp concat) {
  SmallVector<Value> parts(concat.getParts());
  concat.erase();
  for (Value part : parts)
    if (auto constant = part.getDefiningOp<ConstantOp>();
        constant && constant->use_empty())
      constant.erase();
}

namespace {
/// What a value of f32 is in a bf16 program; where several meet, the last
/// decides.
enum class Kind {
  Parameter,  ///< computed from parameters and constants alone, or rows of them
  Input,      ///< an input, or computed elementwise from inputs
  Activation, ///< stored as bf16
  Wide        ///< statistics, probabilities, losses and what they go into
};

/// Rounds the activations of a model to bf16. What computes is in f32, between
/// casts; only products, and elementwise ops of one rounding each, have bf16
/// operands and results.
class Bf16Rewriter {
public:
  explicit Bf16Rewriter(ModelOp model)
      : model(model), f32(Float32Type::get(model.getContext())),
        bf16(BFloat16Type::get(model.getContext())) {}

  void run() {
    analyze();
    rewrite(*model.getBodyBlock());
    for (ConcatOp concat : roundedByPart)
      if (concat->use_empty())
        eraseUnread(concat);
  }

private:
  //===--------------------------------------------------------------------===//
  // What every value is
  //===--------------------------------------------------------------------===//

  Type elementType(Value value) {
    return cast<RankedTensorType>(value.getType()).getElementType();
  }
  Kind kindOf(Value value) {
    if (elementType(value).isBF16())
      return Kind::Activation;
    return kinds.lookup(value);
  }
  void raise(Value value, Kind kind) {
    if (!elementType(value).isF32() || kind <= kindOf(value))
      return;
    kinds[value] = kind;
    changed = true;
  }
  /// What a stack carries as its `i`th value. A residual stream, which every
  /// iteration adds to, stays wide: rounding it each time costs more accuracy
  /// the deeper the stack. Any other value is rounded whatever flows into it,
  /// but for sums.
  Kind carriedKind(StackOp stack, unsigned i, Value value) {
    Kind kind = kindOf(value);
    bool isSum = cast<RankedTensorType>(value.getType()).getRank() < 2;
    if (kind == Kind::Parameter || isSum)
      return kind;
    return isResidual(stack, i) ? Kind::Wide : Kind::Activation;
  }
  /// True if the yielded value is the carried one plus something.
  bool isResidual(StackOp stack, unsigned i);
  void analyze();
  void analyze(Operation *op);
  Kind joinElementwise(ValueRange operands);

  //===--------------------------------------------------------------------===//
  // New types
  //===--------------------------------------------------------------------===//

  Value castTo(OpBuilder &b, Value value, Type element) {
    return GradBuilder(b, value.getLoc()).cast(value, element);
  }
  /// `value` in bf16, rounded once for all its readers.
  Value narrow(Value value);
  /// The same for what is concatenated with parameters.
  Value narrowPart(Value part);
  void narrowOperands(Operation *op, unsigned count);
  void widenOperands(Operation *op, unsigned first = 0);
  void setElement(Value value, Type element) {
    value.setType(cast<RankedTensorType>(value.getType()).clone(element));
  }
  /// The type in which a value of the kind, now of f32, is stored.
  Type stored(Value value, Kind kind) {
    bool isRounded = kind == Kind::Activation && elementType(value).isF32();
    return isRounded ? Type(bf16) : elementType(value);
  }
  /// Rounds a result that the op computes in f32.
  void roundResult(Value result, Kind kind);

  void rewrite(Block &block);
  void rewrite(Operation *op);
  void rewriteProduct(Operation *op);
  void rewriteStack(StackOp stack);

  ModelOp model;
  Type f32, bf16;
  llvm::DenseMap<Value, Kind> kinds;
  llvm::DenseMap<Value, Value> narrowed;
  SmallVector<ConcatOp> roundedByPart;
  bool changed = false;
};
} // namespace

/// Ops that move elements.
static bool movesElements(Operation *op) {
  return isa<ReshapeOp, TransposeOp, BroadcastOp, SliceOp, SplitOp, ConcatOp,
             StopGradientOp>(op);
}

/// Elementwise ops each of whose cotangents is rounded once, too.
static bool roundsOnce(Operation *op) {
  return isa<AddOp, SubOp, MulOp, MaximumOp, MinimumOp, SelectOp, NegOp, AbsOp,
             ReluOp, GeluOp, DropoutOp>(op);
}

static bool isElementwise(Operation *op) {
  return roundsOnce(op) ||
         isa<DivOp, SqrtOp, RsqrtOp, TanhOp, SigmoidOp, SiluOp>(op);
}

/// Whether a product is read as a result of the model alone: then it is not
/// rounded.
static bool isReadWide(Value product) {
  return !product.use_empty() &&
         llvm::all_of(product.getUsers(), [](Operation *user) {
           if (auto reshape = dyn_cast<ReshapeOp>(user))
             return isReadWide(reshape.getResult());
           return isa<ReturnOp>(user);
         });
}

/// An input is in f32 anyway: arithmetic with it (a prediction's error) is not
/// rounded. A parameter (a bias) leaves an activation what it is.
Kind Bf16Rewriter::joinElementwise(ValueRange operands) {
  Kind kind = Kind::Parameter;
  bool hasInput = false;
  for (Value operand : operands) {
    if (!isa<FloatType>(elementType(operand)))
      continue;
    kind = std::max(kind, kindOf(operand));
    hasInput |= kindOf(operand) == Kind::Input;
  }
  return hasInput && kind == Kind::Activation ? Kind::Wide : kind;
}

void Bf16Rewriter::analyze(Operation *op) {
  llvm::TypeSwitch<Operation *>(op)
      .Case<ParamOp, ConstantOp>([](Operation *) {})
      .Case([&](EmbeddingOp gather) {
        raise(gather.getResult(), kindOf(gather.getTable()));
      })
      .Case<LinearOp, MatmulOp>([&](Operation *product) {
        Value result = product->getResult(0);
        raise(result, isReadWide(result) || product->hasAttr("wide")
                          ? Kind::Wide
                          : Kind::Activation);
      })
      .Case([&](AttentionOp attention) {
        raise(attention.getResult(), Kind::Activation);
        raise(attention.getLse(), Kind::Wide);
      })
      .Case(
          [&](LayerNormOp norm) { raise(norm.getResult(), Kind::Activation); })
      .Case([&](CastOp cast) {
        if (isa<FloatType>(elementType(cast.getInput())))
          raise(cast.getResult(), Kind::Wide);
      })
      .Case([&](StackOp stack) {
        auto yielded = stack.getYield().getValues();
        for (unsigned i = 0, e = stack.getNumCarries(); i < e; ++i) {
          for (Value value : {stack.getCarries()[i], yielded[i]})
            raise(stack.getCarryArg(i), carriedKind(stack, i, value));
          raise(stack.getResult(i), kindOf(stack.getCarryArg(i)));
        }
        for (auto [i, slice] : llvm::enumerate(stack.getSlices()))
          raise(stack.getSliceArg(i), kindOf(slice));
        for (unsigned i = stack.getNumCarries(); i < yielded.size(); ++i)
          raise(stack.getResult(i), kindOf(yielded[i]));
      })
      .Case([&](CheckpointOp checkpoint) {
        for (auto [value, result] : llvm::zip(checkpoint.getYield().getValues(),
                                              checkpoint.getResults()))
          raise(result, kindOf(value));
      })
      .Default([&](Operation *other) {
        Kind kind = Kind::Wide;
        if (isElementwise(other))
          kind = joinElementwise(other->getOperands());
        else if (movesElements(other)) {
          kind = Kind::Parameter;
          for (Value operand : other->getOperands())
            kind = std::max(kind, kindOf(operand));
        }
        for (Value result : other->getResults())
          raise(result, kind);
      });
}

bool Bf16Rewriter::isResidual(StackOp stack, unsigned i) {
  SmallVector<Value> worklist{stack.getYield().getValues()[i]};
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    if (value == stack.getCarryArg(i))
      return true;
    if (auto add = value.getDefiningOp<AddOp>())
      llvm::append_range(worklist, add->getOperands());
  }
  return false;
}

void Bf16Rewriter::analyze() {
  for (BlockArgument argument : model.getArguments())
    raise(argument, Kind::Input);
  do {
    changed = false;
    model.getBody().walk([&](Operation *op) { analyze(op); });
  } while (changed);
}

Value Bf16Rewriter::narrow(Value value) {
  if (!elementType(value).isF32())
    return value;
  if (Value copy = narrowed.lookup(value))
    return copy;
  OpBuilder b(value.getContext());
  b.setInsertionPointAfterValue(value);
  Value copy;
  auto concat = value.getDefiningOp<ConcatOp>();
  if (concat && kindOf(value) == Kind::Parameter) {
    // Rounded parts need no f32 copy of the whole.
    SmallVector<Value> parts;
    for (Value part : concat.getParts())
      parts.push_back(narrowPart(part));
    copy = ConcatOp::create(b, concat.getLoc(), concat.getDim(), parts);
    roundedByPart.push_back(concat);
  } else {
    copy = castTo(b, value, bf16);
  }
  return narrowed[value] = copy;
}

Value Bf16Rewriter::narrowPart(Value part) {
  auto constant = part.getDefiningOp<ConstantOp>();
  auto value = constant ? dyn_cast<DenseFPElementsAttr>(constant.getValue())
                        : DenseFPElementsAttr();
  if (!value || !value.getElementType().isF32())
    return narrow(part);
  OpBuilder b(constant);
  return ConstantOp::create(
      b, constant.getLoc(), value.mapValues(bf16, [](const APFloat &number) {
        APFloat rounded = number;
        bool lossy;
        rounded.convert(APFloat::BFloat(), APFloat::rmNearestTiesToEven,
                        &lossy);
        return rounded.bitcastToAPInt();
      }));
}

void Bf16Rewriter::narrowOperands(Operation *op, unsigned count) {
  for (unsigned i = 0; i < count; ++i)
    op->setOperand(i, narrow(op->getOperand(i)));
}

void Bf16Rewriter::widenOperands(Operation *op, unsigned first) {
  OpBuilder b(op);
  for (OpOperand &operand : op->getOpOperands().drop_front(first))
    if (elementType(operand.get()).isBF16())
      operand.set(castTo(b, operand.get(), f32));
}

void Bf16Rewriter::roundResult(Value result, Kind kind) {
  if (stored(result, kind) == elementType(result))
    return;
  OpBuilder b(result.getContext());
  b.setInsertionPointAfterValue(result);
  Value rounded = castTo(b, result, bf16);
  result.replaceAllUsesExcept(rounded, rounded.getDefiningOp());
}

void Bf16Rewriter::rewriteProduct(Operation *op) {
  Value result = op->getResult(0);
  Kind kind = kindOf(result);
  bool isWide = kind == Kind::Wide;
  narrowOperands(op, 2);
  setElement(result, isWide ? f32 : bf16);
  if (isWide)
    op->setAttr("wide", UnitAttr::get(op->getContext()));
  auto linear = dyn_cast<LinearOp>(op);
  if (!linear || !linear.getBias())
    return;
  // The bias is added in f32. To a rounded product it is rounded, too, as a
  // library that adds it on the way out wants it.
  Value narrowBias = isWide ? linear.getBias() : narrow(linear.getBias());
  OpBuilder b(op);
  b.setInsertionPointAfter(op);
  GradBuilder gb(b, op->getLoc());
  Value bias = castTo(b, narrowBias, f32);
  linear.getBiasMutable().clear();
  Value product = gb.cast(result, f32);
  Value sum = gb.add(product, bias);
  Value rounded = gb.cast(sum, isWide ? f32 : bf16);
  result.replaceUsesWithIf(rounded, [&](OpOperand &use) {
    return use.getOwner() != sum.getDefiningOp() &&
           use.getOwner() != product.getDefiningOp();
  });
}

void Bf16Rewriter::rewriteStack(StackOp stack) {
  OpBuilder b(stack);
  // What begins as an input or an embedding becomes an activation here.
  for (unsigned i = 0, e = stack.getNumCarries(); i < e; ++i) {
    Value argument = stack.getCarryArg(i);
    Type element = stored(argument, kindOf(argument));
    Value init = stack.getCarries()[i];
    if (elementType(init) != element && isa<FloatType>(element))
      stack.getCarriesMutable()[i].set(castTo(b, init, element));
    setElement(argument, element);
    setElement(stack.getResult(i), element);
  }
  for (auto [i, slice] : llvm::enumerate(stack.getSlices()))
    setElement(stack.getSliceArg(i), elementType(slice));
  rewrite(*stack.getBodyBlock());
  YieldOp yield = stack.getYield();
  b.setInsertionPoint(yield);
  for (OpOperand &operand : yield->getOpOperands()) {
    unsigned i = operand.getOperandNumber();
    if (i < stack.getNumCarries())
      operand.set(castTo(b, operand.get(), elementType(stack.getCarryArg(i))));
    else
      setElement(stack.getResult(i), elementType(operand.get()));
  }
}

void Bf16Rewriter::rewrite(Operation *op) {
  if (isa<ParamOp, ConstantOp, EmbeddingOp, CastOp, CrossEntropyOp, YieldOp,
          PositionsOp>(op)) {
    // Their operands may be of any type, or are parameters.
    if (auto gather = dyn_cast<EmbeddingOp>(op))
      setElement(gather.getResult(), elementType(gather.getTable()));
    return;
  }
  // Of f64 on purpose.
  if (op->getNumOperands() && elementType(op->getOperand(0)).isF64() &&
      isa<LinearOp, MatmulOp, AttentionOp>(op))
    return;
  if (isa<LinearOp, MatmulOp>(op))
    return rewriteProduct(op);
  if (auto stack = dyn_cast<StackOp>(op))
    return rewriteStack(stack);
  if (auto checkpoint = dyn_cast<CheckpointOp>(op)) {
    rewrite(*checkpoint.getBodyBlock());
    for (auto [value, result] :
         llvm::zip(checkpoint.getYield().getValues(), checkpoint.getResults()))
      result.setType(value.getType());
    return;
  }
  if (auto attention = dyn_cast<AttentionOp>(op)) {
    narrowOperands(op, 3);
    return setElement(attention.getResult(), bf16);
  }
  if (auto result = dyn_cast<ReturnOp>(op)) {
    // Results stay what the model declares.
    OpBuilder b(op);
    for (auto [operand, type] :
         llvm::zip(op->getOpOperands(), model.getResultTypes()))
      operand.set(castTo(b, operand.get(),
                         cast<RankedTensorType>(type).getElementType()));
    return;
  }
  if (movesElements(op) && !isa<ConcatOp>(op)) {
    for (Value result : op->getResults())
      setElement(result, elementType(op->getOperand(0)));
    return;
  }
  bool allRounded = llvm::all_of(op->getOperands(), [&](Value operand) {
    return !isa<FloatType>(elementType(operand)) ||
           elementType(operand).isBF16();
  });
  bool keepsBf16 =
      allRounded && (roundsOnce(op) || isa<CompareOp, ConcatOp>(op));
  if (!keepsBf16)
    widenOperands(op);
  for (Value result : op->getResults()) {
    // A model may have bf16 of its own.
    Kind kind = kindOf(result);
    if (!elementType(result).isF32() && !elementType(result).isBF16())
      continue;
    setElement(result, keepsBf16 ? bf16 : f32);
    roundResult(result, kind);
  }
}

void Bf16Rewriter::rewrite(Block &block) {
  SmallVector<Operation *> ops;
  for (Operation &op : block)
    ops.push_back(&op);
  for (Operation *op : ops)
    rewrite(op);
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {
struct SetPrecision : blutrain::impl::SetPrecisionPassBase<SetPrecision> {
  using SetPrecisionPassBase::SetPrecisionPassBase;

  void runOnOperation() override {
    if (policy == "fp32")
      return;
    if (policy == "tf32") {
      getOperation()->setAttr("blu.tf32", UnitAttr::get(&getContext()));
      return;
    }
    if (policy == "fp32tc") {
      getOperation()->setAttr("blu.split", UnitAttr::get(&getContext()));
      return;
    }
    if (policy == "bf16") {
      for (ModelOp model : getOperation().getOps<ModelOp>())
        Bf16Rewriter(model).run();
      return;
    }
    if (policy != "fp64") {
      getOperation().emitError() << "precision policy is '" << policy
                                 << "', expected fp64, fp32, fp32tc, tf32 "
                                    "or bf16";
      return signalPassFailure();
    }
    AttrTypeReplacer replacer;
    replacer.addReplacement([](Float32Type type) -> Type {
      return Float64Type::get(type.getContext());
    });
    // The generic replacement of element types leaves the numbers of dense
    // constants in their old width, so those are converted first.
    replacer.addReplacement(
        [](DenseFPElementsAttr value)
            -> std::optional<std::pair<Attribute, WalkResult>> {
          if (!value.getElementType().isF32())
            return std::nullopt;
          Type f64 = Float64Type::get(value.getContext());
          return std::pair<Attribute, WalkResult>(
              value.mapValues(f64,
                              [](const APFloat &number) {
                                APFloat wide = number;
                                bool lossy;
                                wide.convert(APFloat::IEEEdouble(),
                                             APFloat::rmNearestTiesToEven,
                                             &lossy);
                                return wide.bitcastToAPInt();
                              }),
              WalkResult::skip());
        });
    for (Operation &op : *getOperation().getBody())
      replacer.recursivelyReplaceElementsIn(&op, /*replaceAttrs=*/true,
                                            /*replaceLocs=*/false,
                                            /*replaceTypes=*/true);
  }
};
} // namespace
