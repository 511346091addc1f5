//===- Call.cpp - The command `call` --------------------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "blurt/Convert.h"
#include "blurt/Error.h"
#include "blurt/Safetensors.h"
#include "blurt/Weights.h"

#include <cstdio>
#include <cstring>

using namespace blurt;

namespace {

/// Names in the files of `call`: inputs, scalars, parameters and outputs by
/// their own, what could clash with those behind its role.
std::string fileName(const TensorInstance &t) {
  switch (t.tensor->role) {
  case BLURT_MOMENT1:
    return "moment1:" + t.name;
  case BLURT_MOMENT2:
    return "moment2:" + t.name;
  case BLURT_CACHE:
    return "cache:" + t.name;
  case BLURT_GRADIENT:
    return "gradient:" + t.name;
  default:
    return t.name;
  }
}

bool isInteger(const std::string &dtype) {
  return dtype == "I64" || dtype == "I32" || dtype == "BOOL" || dtype == "U8";
}

template <typename T> T loadAs(const std::byte *from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

int64_t loadInteger(const std::string &dtype, const std::byte *from) {
  if (dtype == "I64")
    return loadAs<int64_t>(from);
  if (dtype == "I32")
    return loadAs<int32_t>(from);
  return loadAs<uint8_t>(from);
}

double loadFloat(const std::string &dtype, const std::byte *from) {
  if (dtype == "F64")
    return loadAs<double>(from);
  if (dtype == "F32")
    return loadAs<float>(from);
  return fromBf16(loadAs<uint16_t>(from));
}

template <typename T> void storeAs(std::byte *to, T value) {
  std::memcpy(to, &value, sizeof value);
}

void storeFloat(int32_t dtype, std::byte *to, double value) {
  if (dtype == BLURT_F64)
    storeAs(to, value);
  else if (dtype == BLURT_F32)
    storeAs(to, float(value));
  else
    storeAs(to, toBf16(value));
}

void storeInteger(int32_t dtype, std::byte *to, int64_t value) {
  if (dtype == BLURT_I64)
    storeAs(to, value);
  else if (dtype == BLURT_I32)
    storeAs(to, int32_t(value));
  else
    storeAs(to, uint8_t(value != 0));
}

void fill(const std::string &path, const SafetensorsFile &file,
          const TensorInstance &t, std::byte *to) {
  std::string name = fileName(t);
  std::optional<SafetensorsEntry> found = file.find(name);
  if (!found)
    throw badInput(path + ": expected a tensor '" + name + "' of type " +
                   typeString(*t.tensor) + ", got none");
  const SafetensorsEntry &entry = *found;
  int32_t dtype = t.tensor->dtype;
  bool integer = dtype == BLURT_I64 || dtype == BLURT_I32 || dtype == BLURT_I1;
  std::vector<int64_t> shape(t.tensor->shape, t.tensor->shape + t.tensor->rank);
  bool known = isInteger(entry.dtype) || entry.dtype == "F64" ||
               entry.dtype == "F32" || entry.dtype == "BF16";
  if (entry.shape != shape || !known || isInteger(entry.dtype) != integer)
    throw badInput(path + ": tensor '" + name + "': expected " +
                   typeString(*t.tensor) + ", got " + typeString(entry));
  const std::byte *from = file.data(entry);
  uint64_t size = safetensorsDtypeSize(entry.dtype);
  for (int64_t i = 0; i < t.elements; ++i) {
    std::byte *element = to + uint64_t(i) * dtypeSize(dtype);
    const std::byte *source = from + uint64_t(i) * size;
    if (integer)
      storeInteger(dtype, element, loadInteger(entry.dtype, source));
    else
      storeFloat(dtype, element, loadFloat(entry.dtype, source));
  }
}

} // namespace

void blurt::reportMemoryCheck(Session &session) {
  const ShadowMemory *shadow = session.shadow();
  if (!shadow)
    return;
  std::fprintf(stderr,
               "note: memory check passed: at most %llu bytes live, high "
               "water at byte %llu of %llu\n",
               static_cast<unsigned long long>(shadow->peakLive()),
               static_cast<unsigned long long>(shadow->highWater()),
               static_cast<unsigned long long>(session.program().peak_bytes));
}

void blurt::runCall(const blurt_program &program, const CallOptions &options) {
  const blurt_entry &entry = requireEntry(program, options.entry, "call");
  for (const blurt_tensor &t : stateOf(program))
    if (t.shards > 0)
      throw badInput("call: expected a program for one device, got one of " +
                     std::to_string(program.devices) +
                     " that have pieces of the state");
  SafetensorsFile inputs(options.inputs);
  Session session(program, options.session());
  std::vector<TensorInstance> state, outputs;
  auto collect = [](std::span<const blurt_tensor> tensors, int32_t role,
                    std::vector<TensorInstance> &into) {
    for (const TensorInstance &t : instances(tensors, role))
      into.push_back(t);
  };
  for (int32_t role : {BLURT_PARAM, BLURT_MOMENT1, BLURT_MOMENT2, BLURT_CACHE})
    collect(stateOf(program), role, state);
  // Parameters have to be there, other state begins at zero unless it is.
  std::vector<std::byte> value;
  for (const TensorInstance &t : state)
    if (t.tensor->role == BLURT_PARAM || inputs.find(fileName(t))) {
      value.resize(t.bytes());
      fill(options.inputs, inputs, t, value.data());
      session.arena().write(t.offset, value.data(), value.size());
    } else {
      session.arena().zero(t.offset, t.bytes());
    }
  for (int32_t role : {BLURT_INPUT, BLURT_SCALAR})
    for (const TensorInstance &t : instances(tensorsOf(entry), role))
      fill(options.inputs, inputs, t,
           session.stage(*t.tensor) + (t.offset - t.tensor->offset));
  session.run(entry);
  reportMemoryCheck(session);
  if (options.outputs.empty())
    return;
  for (int32_t role : {BLURT_OUTPUT, BLURT_GRADIENT})
    collect(tensorsOf(entry), role, outputs);
  if (options.state)
    outputs.insert(outputs.end(), state.begin(), state.end());
  // In this file everything lies as in the arena.
  std::vector<blurt_tensor> plain;
  plain.reserve(outputs.size());
  for (TensorInstance &t : outputs) {
    plain.push_back(*t.tensor);
    plain.back().export_transpose = 0;
    t.tensor = &plain.back();
    t.exportName = fileName(t);
  }
  saveTensors(options.outputs, outputs, session.arena(), {});
}
