//===- TensorFile.cpp - safetensors without exceptions --------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blutrain/Interpreter/TensorFile.h"

#include "blurt/Safetensors.h"

#include <exception>

using namespace blutrain;

std::string blutrain::readTensorFile(const std::string &path,
                                     StoredTensors &tensors) {
  try {
    blurt::SafetensorsFile file(path);
    file.forEach([&](const std::string &name,
                     const blurt::SafetensorsEntry &entry) {
      const char *data = reinterpret_cast<const char *>(file.data(entry));
      tensors[name] = {entry.dtype, entry.shape,
                       std::vector<char>(data, data + entry.end - entry.begin)};
    });
    return "";
  } catch (const std::exception &error) {
    return error.what();
  }
}

std::string blutrain::writeTensorFile(
    const std::string &path,
    const std::vector<std::pair<std::string, StoredTensor>> &tensors) {
  try {
    std::vector<blurt::SafetensorsOutput> outputs;
    for (const auto &[name, tensor] : tensors)
      outputs.push_back({name, tensor.dtype, tensor.shape,
                         [&bytes = tensor.bytes](blurt::AtomicFile &file) {
                           file.write(bytes.data(), bytes.size());
                         }});
    blurt::writeSafetensors(path, outputs, /*metadata=*/{});
    return "";
  } catch (const std::exception &error) {
    return error.what();
  }
}
