//===- Weights.h - Parameters of a program, from and to files ---*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// An arena that the host must not touch is filled and read tensor by tensor
// through a buffer. Of a tensor that is cut among ranks, each fills its own
// part; when it is read rank 0 gets it whole, and all ranks take part.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_WEIGHTS_H
#define BLURT_WEIGHTS_H

#include "blurt/Arena.h"
#include "blurt/Program.h"
#include "blurt/Safetensors.h"
#include "blurt/ThreadPool.h"
#include "blurt/World.h"

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace blurt {

/// Fills every parameter by its initialiser. A random element is a function of
/// (seed, the tensor's name with `{i}` replaced, the element's row-major
/// index).
void initialiseParameters(const blurt_program &program, uint64_t seed,
                          const Arena &arena, ThreadPool &pool,
                          const World *world = nullptr);

/// Reads every parameter from `path`, a file or a folder with a
/// `model.safetensors`, converting F64, F32, BF16 or F16. Where such a folder
/// has a `config.json`, what it says of a GPT-2 must be the program's. Names
/// are export names, optionally prefixed with `transformer.` in the file. The
/// masks `….attn.bias` and `….attn.masked_bias` are ignored, and so is an
/// `lm_head.weight` that equals `wte.weight` where the program ties them.
/// Throws Error if a parameter is missing, has another shape, or the file holds
/// more.
void loadParameters(const std::string &path, const blurt_program &program,
                    const Arena &arena, ThreadPool &pool,
                    const World *world = nullptr);

/// What weight files say of the program they come from.
SafetensorsMetadata weightsMetadata(const blurt_program &program);

/// Writes tensors under their export names, in the program's dtypes; rank 0
/// does.
void saveTensors(const std::string &path,
                 const std::vector<TensorInstance> &tensors, const Arena &arena,
                 const SafetensorsMetadata &metadata, World *world = nullptr);

/// The dtype as weight files spell it.
const char *safetensorsDtype(const TensorInstance &tensor);
/// Calls `use` with the bytes of a tensor as weight files lay it out. Of one
/// that is cut, `use` is called on rank 0.
void readTensor(const TensorInstance &tensor, const Arena &arena, World *world,
                const std::function<void(const std::byte *)> &use);
/// What rank 0 needs of another one to read these tensors in their order.
void sendTensors(const std::vector<TensorInstance> &tensors, const Arena &arena,
                 World &world);
/// Fills a tensor, or a rank's part of it, from bytes of its own dtype, laid
/// out as in weight files.
void writeTensor(const TensorInstance &tensor, const Arena &arena,
                 const World *world, const std::byte *from);

/// Bytes that `saveTensors` writes, about.
uint64_t savedBytes(const std::vector<TensorInstance> &tensors);

} // namespace blurt

#endif // BLURT_WEIGHTS_H
