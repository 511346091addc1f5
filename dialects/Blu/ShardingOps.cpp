//===- ShardingOps.cpp - meshes, shardings, collectives -------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Blu/Sharding.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mlir::blu;

#define GET_OP_CLASSES
#include "Blu/BluShardingOps.cpp.inc"

//===----------------------------------------------------------------------===//
// Meshes
//===----------------------------------------------------------------------===//

const llvm::StringLiteral blu::kMeshAxes[4] = {"dp", "pp", "cp", "tp"};

int64_t Mesh::getSize(StringRef axis) const {
  for (const auto &[name, size] : axes)
    if (name == axis)
      return size;
  return 1;
}

int64_t Mesh::getNumDevices() const {
  int64_t count = 1;
  for (const auto &[name, size] : axes)
    count *= size;
  return count;
}

FailureOr<Mesh> Mesh::parse(StringRef text,
                            function_ref<InFlightDiagnostic()> emitError) {
  llvm::StringMap<int64_t> sizes;
  SmallVector<StringRef> parts;
  text.split(parts, ',');
  for (StringRef part : parts) {
    auto [name, number] = part.split('=');
    int64_t size = 0;
    if (!llvm::is_contained(kMeshAxes, name))
      return emitError() << "mesh '" << text << "': expected axes dp, tp, pp "
                         << "or cp, got '" << name << "'";
    if (number.getAsInteger(10, size) || size < 1 || size > (1 << 20))
      return emitError() << "mesh '" << text << "': expected a size from 1 to "
                         << (1 << 20) << " for " << name << ", got '" << number
                         << "'";
    if (!sizes.try_emplace(name, size).second)
      return emitError() << "mesh '" << text << "': repeats " << name;
  }
  Mesh mesh;
  for (StringRef axis : kMeshAxes)
    if (auto it = sizes.find(axis); it != sizes.end() && it->second > 1)
      mesh.axes.emplace_back(axis.str(), it->second);
  return mesh;
}

Mesh Mesh::get(ModuleOp module) {
  Mesh mesh;
  auto dict = module->getAttrOfType<DictionaryAttr>("blu.mesh");
  for (StringRef axis : kMeshAxes)
    if (auto size = dict ? dict.getAs<IntegerAttr>(axis) : IntegerAttr())
      mesh.axes.emplace_back(axis.str(), size.getInt());
  return mesh;
}

void Mesh::set(ModuleOp module) const {
  Builder b(module.getContext());
  NamedAttrList attrs;
  for (const auto &[name, size] : axes)
    attrs.set(name, b.getI64IntegerAttr(size));
  if (!axes.empty())
    module->setAttr("blu.mesh", attrs.getDictionary(module.getContext()));
}

//===----------------------------------------------------------------------===//
// Shardings
//===----------------------------------------------------------------------===//

Sharding Sharding::whole(Type type) {
  Sharding sharding;
  sharding.dims.resize(cast<RankedTensorType>(type).getRank());
  return sharding;
}

bool Sharding::isCut() const {
  return llvm::any_of(dims, [](const Axes &axes) { return !axes.empty(); });
}

bool Sharding::isWhole() const { return !isCut() && partial.empty(); }

DictionaryAttr Sharding::getAttr(MLIRContext *context) const {
  Builder b(context);
  auto list = [&](const Axes &axes) -> Attribute {
    return b.getArrayAttr(SmallVector<Attribute>(axes.begin(), axes.end()));
  };
  NamedAttrList attrs;
  attrs.set("dims", b.getArrayAttr(llvm::map_to_vector(dims, list)));
  if (!partial.empty())
    attrs.set("partial", list(partial));
  return attrs.getDictionary(context);
}

static bool readAxes(Attribute attr, Sharding::Axes &axes) {
  auto list = dyn_cast_or_null<ArrayAttr>(attr);
  if (!list)
    return false;
  for (Attribute axis : list)
    if (auto name = dyn_cast<StringAttr>(axis))
      axes.push_back(name);
    else
      return false;
  return true;
}

FailureOr<Sharding> Sharding::get(Attribute attr) {
  Sharding sharding;
  auto dict = dyn_cast_or_null<DictionaryAttr>(attr);
  auto dims = dict ? dict.getAs<ArrayAttr>("dims") : ArrayAttr();
  if (!dims)
    return failure();
  for (Attribute dim : dims)
    if (!readAxes(dim, sharding.dims.emplace_back()))
      return failure();
  if (dict.contains("partial") &&
      !readAxes(dict.get("partial"), sharding.partial))
    return failure();
  return sharding;
}

RankedTensorType Sharding::getLocalType(RankedTensorType type,
                                        const Mesh &mesh) const {
  SmallVector<int64_t> shape(type.getShape());
  for (auto [extent, axes] : llvm::zip_equal(shape, dims))
    for (StringAttr axis : axes)
      extent /= mesh.getSize(axis);
  return RankedTensorType::get(shape, type.getElementType());
}

LogicalResult
Sharding::verify(RankedTensorType type, const Mesh &mesh,
                 function_ref<InFlightDiagnostic()> emitError) const {
  if (int64_t(dims.size()) != type.getRank())
    return emitError() << "sharding has " << dims.size() << " dims, expected "
                       << type.getRank();
  llvm::StringSet<> used;
  auto use = [&](StringAttr axis) -> LogicalResult {
    if (mesh.getSize(axis) == 1)
      return emitError() << "sharding uses axis '" << axis.getValue()
                         << "', which the mesh lacks";
    if (!used.insert(axis).second)
      return emitError() << "sharding uses axis '" << axis.getValue()
                         << "' twice in one tensor";
    return success();
  };
  for (auto [i, axes] : llvm::enumerate(dims)) {
    int64_t extent = type.getDimSize(i);
    for (StringAttr axis : axes) {
      if (failed(use(axis)))
        return failure();
      int64_t size = mesh.getSize(axis);
      if (extent % size != 0)
        return emitError() << "dim " << i << " of " << extent
                           << " does not divide by axis '" << axis.getValue()
                           << "' of " << size;
      extent /= size;
    }
  }
  for (StringAttr axis : partial)
    if (failed(use(axis)))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

RankedTensorType blu::getPieceType(RankedTensorType type, int64_t size,
                                   bool batched) {
  SmallVector<int64_t> shape;
  int64_t count = type.getNumElements();
  if (batched) {
    shape.push_back(type.getDimSize(0));
    count /= std::max<int64_t>(shape[0], 1);
  }
  shape.push_back(getPieceSize(count, size));
  return RankedTensorType::get(shape, type.getElementType());
}

template <typename OpTy> static LogicalResult verifyCounts(OpTy op) {
  if (op.getInputs().empty() || op.getSize() < 2 ||
      op.getInputs().size() != op.getResults().size()) // C1
    return op.emitOpError("has ")
           << op.getInputs().size() << " inputs, " << op.getResults().size()
           << " results and size " << op.getSize()
           << ", expected as many results as inputs and a size of at least 2";
  return success();
}

/// Whether each of `pieces` is of the value beside it.
template <typename OpTy>
static LogicalResult verifyPieces(OpTy op, TypeRange wholes, TypeRange pieces,
                                  StringRef what) {
  if (failed(verifyCounts(op)))
    return failure();
  for (auto [i, types] : llvm::enumerate(llvm::zip_equal(wholes, pieces))) {
    auto [whole, piece] = types;
    auto type = cast<RankedTensorType>(whole);
    bool batched =
        cast<RankedTensorType>(piece).getRank() == 2 && type.getRank() > 0;
    auto expected = getPieceType(type, op.getSize(), batched);
    if (piece != expected) // C2
      return op.emitOpError() << what << " " << i << " is " << piece
                              << ", expected " << expected;
  }
  return success();
}

LogicalResult AllReduceOp::verify() {
  if (failed(verifyCounts(*this)))
    return failure();
  for (auto [i, types] :
       llvm::enumerate(llvm::zip_equal(getOperandTypes(), getResultTypes())))
    if (std::get<0>(types) != std::get<1>(types)) // C2
      return emitOpError("result ") << i << " is " << std::get<1>(types)
                                    << ", expected " << std::get<0>(types);
  return success();
}

LogicalResult ReduceScatterOp::verify() {
  return verifyPieces(*this, getOperandTypes(), getResultTypes(), "result");
}

LogicalResult AllGatherOp::verify() {
  return verifyPieces(*this, getResultTypes(), getOperandTypes(), "input");
}

LogicalResult LocalShardOp::verify() {
  return verifyPieces(*this, getOperandTypes(), getResultTypes(), "result");
}
