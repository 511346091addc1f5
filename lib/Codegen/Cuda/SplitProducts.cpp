//===- SplitProducts.cpp - products of operands in pieces -----*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "CudaHost.h"
#include "GemmProblem.h"
#include "SplitKernels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::blurt;

static SplitSource getSource(CudaHost &host, const StoredMatrix &matrix,
                             Value value, bool along, int64_t batch,
                             int64_t rows, int64_t depth) {
  SplitSource source;
  source.ld = matrix.ld;
  source.stride = matrix.stride;
  source.operand = {along, matrix.stride == 0 ? 1 : batch, rows, depth};
  source.chunked = matrix.ld % 4 == 0 && matrix.stride % 4 == 0 &&
                   host.getAlignment(value) % 16 == 0;
  return source;
}

LogicalResult blurt::emitSplitGemm(GemmOp op, CudaHost &host) {
  Value out = op.getOuts()[0];
  if (!host.getArchs().hopper || host.getArchs().others)
    return op.emitOpError("is split, for which there are kernels for sm_90a "
                          "alone");
  GemmProblem p = GemmProblem::get(op);
  if (op.getBias() && p.c.transposed)
    return op.emitOpError("has a bias along rows of the stored output, which "
                          "the product does not add");
  OpBuilder builder(op);
  Location loc = op.getLoc();
  SplitShape shape;
  shape.a = getSource(host, p.a, p.aValue, !p.transA, p.batch, p.m, p.k);
  shape.b = getSource(host, p.b, p.bValue, p.transB, p.batch, p.n, p.k);
  shape.ldc = p.c.ld;
  shape.strideC = p.c.stride;
  shape.hasBias = bool(op.getBias());
  shape.accumulates = bool(op.getC());
  shape.alignmentC = host.getAlignment(out);
  blutrain::SplitProduct &product = shape.product;
  product.batch = p.batch;
  product.m = p.m, product.n = p.n, product.k = p.k;
  product.a = shape.a.operand;
  product.b = shape.b.operand;
  product.layOut();
  if (product.bytes > host.getWorkspaceBytes())
    return op.emitOpError("needs a workspace of ")
           << product.bytes << " bytes, the plan has "
           << host.getWorkspaceBytes();
  Value counters = host.getCounters(builder, loc);
  if (!counters)
    return op.emitOpError("is split, for which the plan has no counters");
  auto at = [&](int64_t offset) {
    return host.getWorkspace(builder, loc, offset);
  };
  Value flag = at(product.flag);
  Value maximaA = at(product.maximaA), maximaB = at(product.maximaB);
  Value scalesA = at(product.scalesA), scalesB = at(product.scalesB);
  Value planesA = at(product.planesA), planesB = at(product.planesB);
  Value partials = at(product.partials);

  std::string key = getStructureKey(op);
  for (bool chunked : {shape.a.chunked, shape.b.chunked})
    key += chunked ? " chunked" : " single";
  key += " " + std::to_string(shape.alignmentC);
  auto launch =
      [&](StringRef name, ArrayRef<Value> operands,
          llvm::function_ref<DeviceLaunch(const SplitEmission &)> emit) {
        auto emitTo = [&](StringRef symbol) {
          return emit({host.getHopperKernels(), loc, symbol, shape});
        };
        int32_t kernel = host.getKernel(key + name.str(), name, op,
                                        unsigned(operands.size()), {}, emitTo);
        host.launch(builder, loc, kernel, operands);
      };
  if (!shape.a.operand.along || !shape.b.operand.along)
    launch("split_maxima", {p.aValue, p.bValue, maximaA, maximaB},
           emitSplitMaxima);
  launch("split_scales", {maximaA, maximaB, scalesA, scalesB, flag},
         emitSplitScales);
  SmallVector<SplitFormat> formats{SplitFormat::Half, SplitFormat::Bfloat};
  if (product.alwaysBfloat())
    formats = {SplitFormat::Bfloat};
  for (SplitFormat format : formats)
    launch(format == SplitFormat::Half ? "split_f16" : "split_bf16",
           {p.aValue, p.bValue, scalesA, scalesB, planesA, planesB, flag},
           [&](const SplitEmission &emission) {
             return emitSplitPlanes(emission, format);
           });
  bool hasParts = product.parts > 1;
  SmallVector<Value> operands{planesA,  planesB,  p.aValue,
                              p.bValue, scalesA,  scalesB,
                              flag,     counters, hasParts ? partials : out};
  if (op.getBias() && !hasParts)
    operands.push_back(op.getBias());
  for (SplitFormat format : formats)
    launch(format == SplitFormat::Half ? "product_f16" : "product_bf16",
           operands, [&](const SplitEmission &emission) {
             return emitSplitProduct(emission, format);
           });
  if (!hasParts)
    return success();
  operands = {partials, out, scalesA, scalesB};
  if (op.getBias())
    operands.push_back(op.getBias());
  launch("split_sum", operands, emitSplitSum);
  return success();
}
