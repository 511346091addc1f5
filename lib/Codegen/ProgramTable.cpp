//===- ProgramTable.cpp - the table that the runtime reads ----*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blutrain/Codegen/Passes.h"

#include "Blurt/BlurtDialect.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

#include "llvm/ADT/StringSwitch.h"

namespace mlir::blurt {
#define GEN_PASS_DEF_BLURTEMITPROGRAMTABLE
#include "blutrain/Codegen/Passes.h.inc"
} // namespace mlir::blurt

using namespace mlir;
using namespace mlir::blurt;

/// BLURT_ABI_VERSION of blurt/blurt.h.
static constexpr int32_t kAbiVersion = 7;
/// BLURT_MAP_RANK of blurt/blurt.h.
static constexpr int64_t kMapRank = 5;

namespace {
/// Builds constant globals of the structs of blurt.h. Errors are collected
/// and reported once, at the module.
class TableBuilder {
public:
  explicit TableBuilder(ModuleOp module)
      : module(module), b(OpBuilder::atBlockEnd(module.getBody())),
        ptr(LLVM::LLVMPointerType::get(module.getContext())) {}

  LogicalResult build(DictionaryAttr program);

private:
  /// One field of a struct: a number, or the address of a global (null if
  /// empty).
  struct Field {
    Type type;
    TypedAttr number;
    std::string symbol;
  };
  Field i32(int64_t value) {
    return {b.getI32Type(), b.getI32IntegerAttr(value), {}};
  }
  Field i64(int64_t value) {
    return {b.getI64Type(), b.getI64IntegerAttr(value), {}};
  }
  Field f64(double value) {
    return {b.getF64Type(), b.getF64FloatAttr(value), {}};
  }
  Field address(StringRef symbol) { return {ptr, {}, symbol.str()}; }
  Field string(StringRef text);
  Field shape(ArrayRef<int64_t> extents);
  Field i32s(ArrayRef<int32_t> numbers);
  Field i64s(ArrayRef<int64_t> numbers);
  /// blurt_device_kernel of each dictionary of `list`.
  Field kernelTable(ArrayAttr list);
  /// blurt_collective of each dictionary of `blurt.collectives`.
  Field collectiveTable(ArrayAttr list);
  /// blurt_device_code of the attribute `blurt.device`, null without one.
  Field deviceCode();

  using Struct = SmallVector<Field>;
  Type structType(const Struct &fields);
  /// A constant array of structs; null if there are none.
  Field array(StringRef name, ArrayRef<Struct> elements);
  void global(StringRef name, LLVM::Linkage linkage, Type type,
              ArrayRef<Struct> elements, bool isArray);

  FailureOr<Struct> tensor(DictionaryAttr tensor);
  FailureOr<SmallVector<Struct>> tensors(Attribute list, StringRef owner);

  InFlightDiagnostic error() {
    return module.emitError("attribute 'blurt.program' ");
  }

  ModuleOp module;
  OpBuilder b;
  Type ptr;
  llvm::StringMap<std::string> strings;
  unsigned counter = 0;
};
} // namespace

static StringRef getString(DictionaryAttr dict, StringRef name,
                           StringRef otherwise = "") {
  auto attr = dict.getAs<StringAttr>(name);
  return attr ? attr.getValue() : otherwise;
}

static int64_t getInt(DictionaryAttr dict, StringRef name,
                      int64_t otherwise = 0) {
  auto attr = dict.getAs<IntegerAttr>(name);
  return attr ? attr.getInt() : otherwise;
}

static double getFloat(DictionaryAttr dict, StringRef name) {
  auto attr = dict.getAs<FloatAttr>(name);
  return attr ? attr.getValueAsDouble() : 0.0;
}

TableBuilder::Field TableBuilder::string(StringRef text) {
  std::string &symbol = strings[text];
  if (symbol.empty()) {
    symbol = "blurt_string_" + std::to_string(counter++);
    std::string terminated = text.str() + '\0';
    auto type = LLVM::LLVMArrayType::get(b.getI8Type(), terminated.size());
    LLVM::GlobalOp::create(b, module.getLoc(), type, /*isConstant=*/true,
                           LLVM::Linkage::Private, symbol,
                           b.getStringAttr(terminated));
  }
  return address(symbol);
}

TableBuilder::Field TableBuilder::shape(ArrayRef<int64_t> extents) {
  if (extents.empty())
    return address("");
  std::string symbol = "blurt_shape_" + std::to_string(counter++);
  auto type = LLVM::LLVMArrayType::get(b.getI64Type(), extents.size());
  LLVM::GlobalOp::create(b, module.getLoc(), type, /*isConstant=*/true,
                         LLVM::Linkage::Private, symbol,
                         b.getI64TensorAttr(extents));
  return address(symbol);
}

TableBuilder::Field TableBuilder::i32s(ArrayRef<int32_t> numbers) {
  return {LLVM::LLVMArrayType::get(b.getI32Type(), numbers.size()),
          b.getI32TensorAttr(numbers),
          {}};
}

TableBuilder::Field TableBuilder::i64s(ArrayRef<int64_t> numbers) {
  return {LLVM::LLVMArrayType::get(b.getI64Type(), numbers.size()),
          b.getI64TensorAttr(numbers),
          {}};
}

Type TableBuilder::structType(const Struct &fields) {
  SmallVector<Type> types;
  for (const Field &field : fields)
    types.push_back(field.type);
  return LLVM::LLVMStructType::getLiteral(b.getContext(), types);
}

void TableBuilder::global(StringRef name, LLVM::Linkage linkage, Type type,
                          ArrayRef<Struct> elements, bool isArray) {
  Location loc = module.getLoc();
  auto global = LLVM::GlobalOp::create(b, loc, type, /*isConstant=*/true,
                                       linkage, name, Attribute());
  OpBuilder::InsertionGuard guard(b);
  b.createBlock(&global.getInitializerRegion());
  Value value = LLVM::UndefOp::create(b, loc, type);
  for (auto [i, fields] : llvm::enumerate(elements))
    for (auto [j, field] : llvm::enumerate(fields)) {
      Value piece;
      if (field.number)
        piece = LLVM::ConstantOp::create(b, loc, field.type, field.number);
      else if (field.symbol.empty())
        piece = LLVM::ZeroOp::create(b, loc, ptr);
      else
        piece = LLVM::AddressOfOp::create(b, loc, ptr, field.symbol);
      SmallVector<int64_t> position;
      if (isArray)
        position.push_back(i);
      position.push_back(j);
      value = LLVM::InsertValueOp::create(b, loc, value, piece, position);
    }
  LLVM::ReturnOp::create(b, loc, value);
}

TableBuilder::Field TableBuilder::array(StringRef name,
                                        ArrayRef<Struct> elements) {
  if (elements.empty())
    return address("");
  std::string symbol = name.str() + "_" + std::to_string(counter++);
  Type type =
      LLVM::LLVMArrayType::get(structType(elements.front()), elements.size());
  global(symbol, LLVM::Linkage::Private, type, elements, /*isArray=*/true);
  return address(symbol);
}

TableBuilder::Field TableBuilder::kernelTable(ArrayAttr list) {
  SmallVector<Struct> kernels;
  for (DictionaryAttr kernel : list.getAsRange<DictionaryAttr>()) {
    auto extents = [&](StringRef key) {
      return i32s(kernel.getAs<DenseI32ArrayAttr>(key).asArrayRef());
    };
    SmallVector<Struct> maps;
    if (auto list = kernel.getAs<ArrayAttr>("maps"))
      for (DictionaryAttr map : list.getAsRange<DictionaryAttr>()) {
        auto padded = [&](StringRef key) {
          auto numbers =
              llvm::to_vector(map.getAs<DenseI64ArrayAttr>(key).asArrayRef());
          numbers.resize(kMapRank);
          return numbers;
        };
        int64_t rank = map.getAs<DenseI64ArrayAttr>("extents").size();
        SmallVector<int64_t> box = padded("box");
        maps.push_back({i32(getInt(map, "operand")), i32(getInt(map, "dtype")),
                        i32(rank), i32(getInt(map, "swizzle")),
                        i64s(padded("extents")), i64s(padded("strides")),
                        i32s(SmallVector<int32_t>(box.begin(), box.end())),
                        i32(0)});
      }
    kernels.push_back(
        {string(getString(kernel, "symbol")),
         string(getString(kernel, "source")), extents("grid"), extents("block"),
         i32(getInt(kernel, "shared_bytes")), i32(getInt(kernel, "num_args")),
         i32(maps.size()), i32(0), array("blurt_maps", maps),
         i64(getInt(kernel, "bytes")), i64(getInt(kernel, "flops"))});
  }
  return array("blurt_kernels", kernels);
}

TableBuilder::Field TableBuilder::collectiveTable(ArrayAttr list) {
  SmallVector<Struct> collectives;
  for (DictionaryAttr collective : list.getAsRange<DictionaryAttr>()) {
    SmallVector<Struct> values;
    for (auto value :
         collective.getAs<ArrayAttr>("values").getAsRange<DenseI64ArrayAttr>())
      values.push_back(
          {i64(value[0]), i64(value[1]), i64(value[2]), i32(value[3]), i32(0)});
    auto kind = llvm::StringSwitch<int32_t>(getString(collective, "kind"))
                    .Case("reduce_scatter", 0)
                    .Case("all_gather", 1)
                    .Default(2);
    collectives.push_back({i32(kind), i32(values.size()),
                           i64(getInt(collective, "size")),
                           string(getString(collective, "axis")),
                           string(getString(collective, "source")),
                           array("blurt_values", values)});
  }
  return array("blurt_collectives", collectives);
}

TableBuilder::Field TableBuilder::deviceCode() {
  auto device = module->getAttrOfType<DictionaryAttr>("blurt.device");
  if (!device)
    return address("");
  auto listOf = [&](StringRef key) {
    auto list = device.getAs<ArrayAttr>(key);
    return list ? list : ArrayAttr::get(b.getContext(), {});
  };
  llvm::StringMap<Field> tables; // by key
  SmallVector<Struct> images, gemms;
  for (auto image : listOf("images").getAsRange<DictionaryAttr>()) {
    StringRef key = getString(image, "kernels", "kernels");
    auto [table, isNew] = tables.try_emplace(key);
    if (isNew)
      table->second = kernelTable(listOf(key));
    images.push_back({i32(getInt(image, "kind")), i32(getInt(image, "arch")),
                      i32(getInt(image, "specific")), i32(0),
                      i64(getInt(image, "size")),
                      address(getString(image, "symbol")), table->second});
  }
  for (auto gemm : listOf("gemms").getAsRange<DictionaryAttr>()) {
    Struct fields{string(getString(gemm, "source"))};
    for (StringRef key : {"compute", "epilogue", "dtype_ab", "dtype_c",
                          "dtype_extra", "trans_a", "trans_b", "accumulate"})
      fields.push_back(i32(getInt(gemm, key)));
    for (StringRef key : {"batch", "m", "n", "k", "lda", "ldb", "ldc",
                          "stride_a", "stride_b", "stride_c"})
      fields.push_back(i64(getInt(gemm, key)));
    for (StringRef key : {"align_a", "align_b", "align_c"})
      fields.push_back(i32(getInt(gemm, key)));
    fields.push_back(i32(0));
    gemms.push_back(std::move(fields));
  }
  Struct fields{i32(images.size()),
                i32(listOf("kernels").size()),
                i32(gemms.size()),
                i32(0),
                array("blurt_images", images),
                array("blurt_gemms", gemms),
                i64(getInt(device, "workspace_offset")),
                i64(getInt(device, "workspace_bytes")),
                i64(getInt(device, "counters_offset"))};
  return array("blurt_device", {fields});
}

static std::optional<int32_t> getDtype(Type type) {
  if (type.isF64())
    return 0;
  if (type.isF32())
    return 1;
  if (type.isBF16())
    return 2;
  if (type.isInteger(64))
    return 3;
  if (type.isInteger(32))
    return 4;
  if (type.isInteger(1))
    return 5;
  return std::nullopt;
}

/// The struct blurt_tensor of one tensor dict.
FailureOr<TableBuilder::Struct> TableBuilder::tensor(DictionaryAttr tensor) {
  StringRef name = getString(tensor, "name");
  auto type = tensor.getAs<TypeAttr>("type");
  auto shaped =
      type ? dyn_cast<RankedTensorType>(type.getValue()) : RankedTensorType();
  if (!shaped || !shaped.hasStaticShape())
    return error() << "gives tensor '" << name << "' no static tensor type";
  std::optional<int32_t> dtype = getDtype(shaped.getElementType());
  if (!dtype)
    return error() << "gives tensor '" << name << "' the element type "
                   << shaped.getElementType() << ", which the ABI lacks";
  int32_t role = llvm::StringSwitch<int32_t>(getString(tensor, "role"))
                     .Case("param", 0)
                     .Case("moment1", 1)
                     .Case("moment2", 2)
                     .Case("cache", 3)
                     .Case("input", 4)
                     .Case("output", 5)
                     .Case("scalar", 6)
                     .Case("gradient", 7)
                     .Default(-1);
  if (role < 0)
    return error() << "gives tensor '" << name << "' the role '"
                   << getString(tensor, "role") << "', which the ABI lacks";
  int32_t init = llvm::StringSwitch<int32_t>(getString(tensor, "init", "zeros"))
                     .Case("zeros", 0)
                     .Case("ones", 1)
                     .Case("constant", 2)
                     .Case("normal", 3)
                     .Case("uniform", 4)
                     .Default(-1);
  if (init < 0)
    return error() << "gives tensor '" << name << "' the initialiser '"
                   << getString(tensor, "init") << "', which the ABI lacks";
  auto shardOf = tensor.getAs<DenseI64ArrayAttr>("shard_of");
  ArrayRef<int64_t> logical =
      shardOf ? shardOf.asArrayRef() : ArrayRef<int64_t>();
  return Struct{string(name),
                string(getString(tensor, "export", name)),
                i32(role),
                i32(*dtype),
                i32(shaped.getRank()),
                i32(tensor.contains("transpose")),
                shape(shaped.getShape()),
                i64(getInt(tensor, "offset")),
                i64(getInt(tensor, "stack_count")),
                i64(getInt(tensor, "stack_first")),
                i64(getInt(tensor, "stack_stride")),
                i32(init),
                i32(tensor.contains("decay")),
                f64(getFloat(tensor, "init_a")),
                f64(getFloat(tensor, "init_b")),
                i64(getInt(tensor, "shards")),
                i64(logical.size()),
                shape(logical)};
}

FailureOr<SmallVector<TableBuilder::Struct>>
TableBuilder::tensors(Attribute list, StringRef owner) {
  auto array = dyn_cast_or_null<ArrayAttr>(list);
  if (!array)
    return error() << "has no list of tensors for " << owner;
  SmallVector<Struct> structs;
  for (Attribute attr : array) {
    auto dict = dyn_cast<DictionaryAttr>(attr);
    if (!dict)
      return error() << "has a tensor that is not a dictionary in " << owner;
    FailureOr<Struct> fields = tensor(dict);
    if (failed(fields))
      return failure();
    structs.push_back(std::move(*fields));
  }
  return structs;
}

LogicalResult TableBuilder::build(DictionaryAttr program) {
  auto entries = program.getAs<ArrayAttr>("entries");
  if (!entries)
    return error() << "has no entries";
  SmallVector<Struct> entryStructs;
  for (Attribute attr : entries) {
    auto entry = dyn_cast<DictionaryAttr>(attr);
    if (!entry)
      return error() << "has an entry that is not a dictionary";
    StringRef name = getString(entry, "name");
    StringRef symbol = getString(entry, "symbol", name);
    if (auto reference = entry.getAs<FlatSymbolRefAttr>("symbol"))
      symbol = reference.getValue();
    auto function = module.lookupSymbol<LLVM::LLVMFuncOp>(symbol);
    if (!function)
      return error() << "entry '" << name << "' names the function '" << symbol
                     << "', which does not exist";
    // The table is the object's only public symbol.
    function.setLinkage(LLVM::Linkage::Internal);
    FailureOr<SmallVector<Struct>> list =
        tensors(entry.get("tensors"), ("entry '" + name + "'").str());
    if (failed(list))
      return failure();
    entryStructs.push_back(
        {string(name), address(symbol), i64(getInt(entry, "peak_bytes")),
         i64(getInt(entry, "batch")), i64(getInt(entry, "seq")),
         i64(getInt(entry, "microbatches", 1)), i32(list->size()),
         array("blurt_tensors", *list)});
  }
  FailureOr<SmallVector<Struct>> state =
      tensors(program.get("state"), "the state");
  if (failed(state))
    return failure();
  SmallVector<Struct> metadata;
  if (auto dict = program.getAs<DictionaryAttr>("metadata"))
    for (NamedAttribute entry : dict) {
      std::string text;
      llvm::raw_string_ostream os(text);
      if (auto value = dyn_cast<StringAttr>(entry.getValue()))
        os << value.getValue();
      else if (auto value = dyn_cast<IntegerAttr>(entry.getValue()))
        os << value.getInt();
      else
        os << entry.getValue();
      metadata.push_back({string(entry.getName().getValue()), string(text)});
    }

  auto list = module->getAttrOfType<ArrayAttr>("blurt.collectives");
  ArrayAttr collectives = list ? list : ArrayAttr::get(b.getContext(), {});
  int64_t devices = 1;
  if (auto mesh = module->getAttrOfType<DictionaryAttr>("blu.mesh"))
    for (NamedAttribute axis : mesh)
      devices *= cast<IntegerAttr>(axis.getValue()).getInt();
  StringRef hash = getString(program, "plan_hash");
  if (auto attr = module->getAttrOfType<StringAttr>("blurt.plan_hash"))
    hash = attr.getValue();
  Struct fields{i32(kAbiVersion),
                i32(entryStructs.size()),
                string(getString(program, "name")),
                string(getString(program, "target", "cpu")),
                string(getString(program, "precision")),
                string(getString(program, "optimizer")),
                string(hash),
                array("blurt_entries", entryStructs),
                array("blurt_state", *state),
                i32(state->size()),
                i32(metadata.size()),
                array("blurt_metadata", metadata),
                i64(getInt(program, "state_bytes")),
                i64(getInt(program, "peak_bytes")),
                deviceCode(),
                i32(collectives.size()),
                i32(0),
                i64(devices),
                collectiveTable(collectives)};
  global("blurt_program_main", LLVM::Linkage::External, structType(fields),
         {fields}, /*isArray=*/false);
  return success();
}

namespace {
struct EmitProgramTable
    : blurt::impl::BlurtEmitProgramTableBase<EmitProgramTable> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto program = module->getAttrOfType<DictionaryAttr>("blurt.program");
    if (program && failed(TableBuilder(module).build(program)))
      signalPassFailure();
  }
};
} // namespace
