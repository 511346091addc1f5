//===- Binding.cpp - arguments and results by name ------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blutrain/Interpreter/Binding.h"

#include "Blu/Blu.h"

#include "llvm/ADT/StringMap.h"

#include <cmath>
#include <cstring>

using namespace mlir;
using namespace blutrain;

namespace {

/// How a tensor of a function is called.
struct TensorName {
  std::string name, role;
  int64_t stackCount = 0, stackFirst = 0;
};

} // namespace

static TensorName nameFrom(DictionaryAttr tensor) {
  TensorName name;
  if (auto attr = tensor.getAs<StringAttr>("name"))
    name.name = attr.str();
  if (auto attr = tensor.getAs<StringAttr>("role"))
    name.role = attr.str();
  if (auto attr = tensor.getAs<IntegerAttr>("stack_count"))
    name.stackCount = attr.getInt();
  if (auto attr = tensor.getAs<IntegerAttr>("stack_first"))
    name.stackFirst = attr.getInt();
  return name;
}

static TensorName argumentName(FunctionOpInterface function, unsigned i) {
  if (auto tensor = function.getArgAttrOfType<DictionaryAttr>(i, "blu.tensor"))
    return nameFrom(tensor);
  if (auto name = function.getArgAttrOfType<StringAttr>(i, "blu.name"))
    return {name.str(), "input"};
  return {("arg" + Twine(i)).str(), "input"};
}

static TensorName resultName(FunctionOpInterface function, unsigned i) {
  if (auto tensor =
          function.getResultAttrOfType<DictionaryAttr>(i, "blu.tensor"))
    return nameFrom(tensor);
  if (auto donated =
          function.getResultAttrOfType<IntegerAttr>(i, "blu.donates"))
    return argumentName(function, donated.getInt());
  if (auto name = function.getResultAttrOfType<StringAttr>(i, "blu.name"))
    return {name.str(), "output"};
  return {("result" + Twine(i)).str(), "output"};
}

/// Moments, caches and gradients share their names with parameters and are told
/// apart by their role.
static bool isNamedByRole(const TensorName &name) {
  return name.role == "moment1" || name.role == "moment2" ||
         name.role == "cache" || name.role == "gradient";
}

/// How many of the tensors that go by their name alone have each name.
static llvm::StringMap<unsigned> countNames(ArrayRef<TensorName> names) {
  llvm::StringMap<unsigned> counts;
  for (const TensorName &name : names)
    if (!isNamedByRole(name))
      ++counts[name.name];
  return counts;
}

static bool isNameEnough(const TensorName &name,
                         const llvm::StringMap<unsigned> &counts) {
  return !isNamedByRole(name) && counts.lookup(name.name) == 1;
}

/// `text` with each `{i}` replaced by the number.
static std::string expand(StringRef text, int64_t i) {
  std::string result;
  while (true) {
    auto [before, after] = text.split("{i}");
    result += before;
    if (before.size() == text.size())
      return result;
    result += std::to_string(i);
    text = after;
  }
}

//===----------------------------------------------------------------------===//
// Stored and interpreted tensors
//===----------------------------------------------------------------------===//

template <typename T> static T elementOf(const StoredTensor &stored, size_t i) {
  T element;
  std::memcpy(&element, stored.bytes.data() + i * sizeof(T), sizeof(T));
  return element;
}

/// Element i of a float dtype, or nothing for another dtype.
static std::optional<double> floatOf(const StoredTensor &stored, size_t i) {
  if (stored.dtype == "F64")
    return elementOf<double>(stored, i);
  if (stored.dtype == "F32")
    return elementOf<float>(stored, i);
  if (stored.dtype != "BF16")
    return std::nullopt;
  uint32_t bits = uint32_t(elementOf<uint16_t>(stored, i)) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

static std::optional<int64_t> intOf(const StoredTensor &stored, size_t i) {
  if (stored.dtype == "I64")
    return elementOf<int64_t>(stored, i);
  if (stored.dtype == "I32")
    return elementOf<int32_t>(stored, i);
  if (stored.dtype == "BOOL" || stored.dtype == "U8")
    return elementOf<uint8_t>(stored, i);
  return std::nullopt;
}

static std::string typeString(const StoredTensor &stored) {
  std::string text = stored.dtype + "[";
  for (auto [i, extent] : llvm::enumerate(stored.shape))
    text += (i ? ", " : "") + std::to_string(extent);
  return text + "]";
}

/// The tensor of that name in `tensors`, as a value of `type`.
static FailureOr<Tensor> load(FunctionOpInterface function, StringRef name,
                              const StoredTensor &stored,
                              RankedTensorType type) {
  auto mismatch = [&]() -> InFlightDiagnostic {
    return function.emitError() << "input '" << name << "' is "
                                << typeString(stored) << ", expected " << type;
  };
  bool fits = int64_t(stored.shape.size()) == type.getRank();
  for (int64_t i = 0; fits && i < type.getRank(); ++i)
    fits = type.isDynamicDim(i) || type.getDimSize(i) == stored.shape[i];
  if (!fits)
    return mismatch();
  Tensor tensor(stored.shape, type.getElementType());
  for (int64_t i = 0, e = tensor.size(); i < e; ++i) {
    if (tensor.isFloat()) {
      auto value = floatOf(stored, i);
      if (!value)
        return mismatch();
      tensor.floats[i] = *value;
      continue;
    }
    auto value = intOf(stored, i);
    if (!value)
      return mismatch();
    tensor.ints[i] = wrapTo(tensor.elementType, *value);
    if (tensor.ints[i] != *value)
      return function.emitError()
             << "input '" << name << "' has element " << i << " of " << *value
             << ", which " << tensor.elementType << " does not hold";
  }
  return tensor;
}

template <typename T> static void append(std::vector<char> &bytes, T element) {
  const char *begin = reinterpret_cast<const char *>(&element);
  bytes.insert(bytes.end(), begin, begin + sizeof(T));
}

StoredTensor blutrain::store(const Tensor &tensor, bool isRounded) {
  StoredTensor stored;
  stored.shape.assign(tensor.shape.begin(), tensor.shape.end());
  Type type = tensor.elementType;
  if (tensor.isFloat()) {
    bool isNarrow = isRounded && !type.isF64();
    stored.dtype = !isNarrow ? "F64" : type.isF32() ? "F32" : "BF16";
    for (double element : tensor.floats) {
      if (!isNarrow) {
        append(stored.bytes, element);
      } else if (type.isF32()) {
        append(stored.bytes, float(element));
      } else {
        // Exact: the value is one of bf16 already.
        float value = float(element);
        uint32_t bits;
        std::memcpy(&bits, &value, sizeof(bits));
        append(stored.bytes, uint16_t(bits >> 16));
      }
    }
    return stored;
  }
  stored.dtype = type.isInteger(1)    ? "BOOL"
                 : type.isInteger(32) ? "I32"
                                      : "I64";
  for (int64_t element : tensor.ints) {
    if (type.isInteger(1))
      append(stored.bytes, uint8_t(element));
    else if (type.isInteger(32))
      append(stored.bytes, int32_t(element));
    else
      append(stored.bytes, element);
  }
  return stored;
}

//===----------------------------------------------------------------------===//
// Inputs
//===----------------------------------------------------------------------===//

/// Puts the iterations of a stack together along a new dim 0.
static Tensor stackTensors(ArrayRef<Tensor> parts) {
  SmallVector<int64_t> shape = {int64_t(parts.size())};
  llvm::append_range(shape, parts.front().shape);
  Tensor all(shape, parts.front().elementType);
  int64_t size = parts.front().size();
  for (auto [i, part] : llvm::enumerate(parts))
    for (int64_t j = 0; j < size; ++j)
      all.copyElement(i * size + j, part, j);
  return all;
}

static FailureOr<Tensor> findArgument(FunctionOpInterface function,
                                      const TensorName &name, bool isUnique,
                                      RankedTensorType type,
                                      const StoredTensors &tensors) {
  auto find = [&](const std::string &plain) {
    auto it = tensors.find(name.role + ":" + plain);
    return it == tensors.end() && isUnique ? tensors.find(plain) : it;
  };
  if (auto it = find(name.name); it != tensors.end())
    return load(function, it->first, it->second, type);
  if (name.stackCount == 0)
    return function.emitError()
           << "no input '" << (isUnique ? "" : name.role + ":") << name.name
           << "', expected a tensor of type " << type;
  auto sliced = blu::StackOp::slicedType(type);
  SmallVector<Tensor> parts;
  for (int64_t i = 0; i < name.stackCount; ++i) {
    TensorName part = {expand(name.name, name.stackFirst + i), name.role};
    auto tensor = findArgument(function, part, isUnique, sliced, tensors);
    if (failed(tensor))
      return failure();
    parts.push_back(*tensor);
  }
  return stackTensors(parts);
}

FailureOr<Inputs> blutrain::bindInputs(FunctionOpInterface function,
                                       const StoredTensors &tensors) {
  Inputs inputs;
  SmallVector<TensorName> names;
  for (unsigned i = 0, e = function.getNumArguments(); i < e; ++i)
    names.push_back(argumentName(function, i));
  auto counts = countNames(names);
  for (auto [i, name] : llvm::enumerate(names)) {
    auto type = cast<RankedTensorType>(function.getArgumentTypes()[i]);
    auto tensor =
        findArgument(function, name, isNameEnough(name, counts), type, tensors);
    if (failed(tensor))
      return failure();
    inputs.arguments.push_back(*tensor);
  }
  for (const auto &[name, type] : parametersOf(function)) {
    // A parameter and an argument of one name differ by their role.
    bool isUnique = counts.lookup(name) == 0;
    auto tensor =
        findArgument(function, {name, "param"}, isUnique, type, tensors);
    if (failed(tensor))
      return failure();
    inputs.parameters[name] = *tensor;
  }
  return inputs;
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

SmallVector<std::pair<std::string, Tensor>>
blutrain::nameResults(FunctionOpInterface function, ArrayRef<Tensor> results) {
  SmallVector<TensorName> names;
  for (unsigned i = 0, e = results.size(); i < e; ++i)
    names.push_back(resultName(function, i));
  auto counts = countNames(names);
  SmallVector<std::pair<std::string, Tensor>> named;
  for (auto [name, result] : llvm::zip(names, results)) {
    std::string full =
        isNameEnough(name, counts) ? name.name : name.role + ":" + name.name;
    if (name.stackCount == 0) {
      named.emplace_back(full, result);
      continue;
    }
    for (int64_t i = 0; i < name.stackCount; ++i) {
      Tensor part(ArrayRef<int64_t>(result.shape).drop_front(),
                  result.elementType);
      for (int64_t j = 0; j < part.size(); ++j)
        part.copyElement(j, result, i * part.size() + j);
      named.emplace_back(expand(full, name.stackFirst + i), part);
    }
  }
  return named;
}
