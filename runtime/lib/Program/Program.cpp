//===- Program.cpp - Reading a blurt_program table ------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blurt/Program.h"
#include "blurt/Error.h"

#include <algorithm>
#include <charconv>
#include <set>

using namespace blurt;

uint64_t blurt::dtypeSize(int32_t dtype) {
  switch (dtype) {
  case BLURT_F64:
  case BLURT_I64:
    return 8;
  case BLURT_F32:
  case BLURT_I32:
    return 4;
  case BLURT_BF16:
    return 2;
  case BLURT_I1:
    return 1;
  }
  throw failure("program table: unknown dtype " + std::to_string(dtype));
}

const char *blurt::dtypeName(int32_t dtype) {
  switch (dtype) {
  case BLURT_F64:
    return "f64";
  case BLURT_F32:
    return "f32";
  case BLURT_BF16:
    return "bf16";
  case BLURT_I64:
    return "i64";
  case BLURT_I32:
    return "i32";
  case BLURT_I1:
    return "i1";
  }
  return "unknown";
}

int64_t blurt::elementCount(const blurt_tensor &tensor) {
  int64_t count = 1;
  for (int32_t i = 0; i < tensor.rank; ++i)
    count *= tensor.shape[i];
  return count;
}

uint64_t blurt::storedBytes(const blurt_tensor &tensor) {
  uint64_t bytes = uint64_t(elementCount(tensor)) * dtypeSize(tensor.dtype);
  if (tensor.stack_count > 1)
    bytes += uint64_t(tensor.stack_count - 1) * tensor.stack_stride;
  return bytes;
}

std::string blurt::typeString(const blurt_tensor &tensor) {
  std::string text = dtypeName(tensor.dtype);
  text += '[';
  for (int32_t i = 0; i < tensor.rank; ++i)
    text += (i ? ", " : "") + std::to_string(tensor.shape[i]);
  return text + ']';
}

static std::string expand(std::string_view pattern, int64_t iteration) {
  std::string text(pattern);
  if (size_t at = text.find("{i}"); at != std::string::npos)
    text.replace(at, 3, std::to_string(iteration));
  return text;
}

static std::span<const int64_t> wholeShape(const blurt_tensor &t) {
  return t.shards > 0 ? std::span(t.shard_shape, size_t(t.shard_rank))
                      : std::span(t.shape, size_t(t.rank));
}

static int64_t wholeCount(const blurt_tensor &t) {
  int64_t count = 1;
  for (int64_t extent : wholeShape(t))
    count *= extent;
  return count;
}

std::span<const int64_t> TensorInstance::shape() const {
  return wholeShape(*tensor);
}

std::pair<int64_t, int64_t> TensorInstance::partOf(int64_t rank) const {
  if (!isCut())
    return {0, elements};
  int64_t first = std::min(rank * stored, elements);
  return {first, std::min(stored, elements - first)};
}

std::vector<int64_t> TensorInstance::exportShape() const {
  std::vector<int64_t> extents(shape().begin(), shape().end());
  if (tensor->export_transpose)
    std::swap(extents[0], extents[1]);
  return extents;
}

std::vector<TensorInstance>
blurt::instances(std::span<const blurt_tensor> tensors, int32_t role) {
  std::vector<TensorInstance> result;
  for (const blurt_tensor &t : tensors) {
    if (t.role != role)
      continue;
    const char *exported = t.export_name ? t.export_name : t.name;
    if (t.stack_count == 0) {
      result.push_back(
          {&t, t.name, exported, t.offset, wholeCount(t), elementCount(t)});
      continue;
    }
    for (int64_t i = 0; i < t.stack_count; ++i)
      result.push_back({&t, expand(t.name, t.stack_first + i),
                        expand(exported, t.stack_first + i),
                        t.offset + uint64_t(i) * t.stack_stride, wholeCount(t),
                        elementCount(t)});
  }
  return result;
}

const blurt_entry *blurt::findEntry(const blurt_program &program,
                                    std::string_view name) {
  for (const blurt_entry &entry : entriesOf(program))
    if (name == entry.name)
      return &entry;
  return nullptr;
}

const blurt_tensor *blurt::findTensor(const blurt_entry &entry, int32_t role,
                                      std::string_view name) {
  for (const blurt_tensor &tensor : tensorsOf(entry))
    if (tensor.role == role && name == tensor.name)
      return &tensor;
  return nullptr;
}

std::optional<std::string_view>
blurt::findMetadata(const blurt_program &program, std::string_view key) {
  for (int32_t i = 0; i < program.num_metadata; ++i)
    if (key == program.metadata[i].key)
      return program.metadata[i].value;
  return std::nullopt;
}

std::optional<int64_t> blurt::findMetadataInt(const blurt_program &program,
                                              std::string_view key) {
  std::optional<std::string_view> text = findMetadata(program, key);
  if (!text)
    return std::nullopt;
  int64_t value = 0;
  auto [end, error] =
      std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size() || value <= 0)
    throw failure("program metadata '" + std::string(key) +
                  "': expected a positive integer, got '" + std::string(*text) +
                  "'");
  return value;
}

int64_t blurt::parameterCount(const blurt_program &program) {
  int64_t count = 0;
  for (const TensorInstance &t : instances(stateOf(program), BLURT_PARAM))
    count += t.elements;
  return count;
}

namespace {

/// Checks one table of tensors; `limit` is the end of the area they lie in.
void verifyTensors(std::span<const blurt_tensor> tensors, uint64_t limit,
                   const std::string &where) {
  std::set<std::pair<int32_t, std::string>> names;
  for (const blurt_tensor &t : tensors) {
    if (!t.name || !*t.name)
      throw failure(where + ": tensor without a name");
    std::string what = where + ": tensor '" + t.name + "': ";
    if (!names.insert({t.role, t.name}).second)
      throw failure(what + "defined twice");
    if (t.role < BLURT_PARAM || t.role > BLURT_GRADIENT)
      throw failure(what + "unknown role " + std::to_string(t.role));
    if (t.rank < 0 || t.rank > 8 || (t.rank > 0 && !t.shape))
      throw failure(what + "expected a rank from 0 to 8, got " +
                    std::to_string(t.rank));
    if (t.role == BLURT_SCALAR && t.rank != 0)
      throw failure(what + "expected a scalar of rank 0, got " + typeString(t));
    if (t.shards < 0 ||
        (t.shards > 0 && (t.rank != 1 || t.shard_rank < 0 || t.shard_rank > 8)))
      throw failure(what +
                    "expected a piece of one dim of a tensor of a rank "
                    "from 0 to 8, got " +
                    typeString(t) + " of rank " + std::to_string(t.shard_rank));
    if (t.export_transpose && (t.shards > 0 ? t.shard_rank : t.rank) != 2)
      throw failure(what + "expected rank 2 for a transposed export, got " +
                    typeString(t));
    uint64_t bytes = dtypeSize(t.dtype);
    for (int32_t i = 0; i < t.rank; ++i)
      if (t.shape[i] < 0 ||
          __builtin_mul_overflow(bytes, uint64_t(t.shape[i]), &bytes))
        throw failure(what + "bad shape " + typeString(t));
    uint64_t end = bytes;
    if (t.stack_count < 0 ||
        (t.stack_count > 1 &&
         (__builtin_mul_overflow(t.stack_stride, uint64_t(t.stack_count - 1),
                                 &end) ||
          __builtin_add_overflow(end, bytes, &end) || t.stack_stride < bytes)))
      throw failure(what + "bad stack of " + std::to_string(t.stack_count) +
                    " iterations, " + std::to_string(t.stack_stride) +
                    " bytes apart");
    if (t.offset % BLURT_ALIGNMENT)
      throw failure(what + "expected " + std::to_string(BLURT_ALIGNMENT) +
                    "-byte alignment, got offset " + std::to_string(t.offset));
    if (__builtin_add_overflow(end, t.offset, &end) || end > limit)
      throw failure(what + "ends at byte " + std::to_string(end) +
                    " of an area of " + std::to_string(limit) + " bytes");
  }
}

void verifyMap(const blurt_device_map &map, uint32_t numArgs,
               const std::string &what) {
  if (map.operand < 0 || uint32_t(map.operand) >= numArgs)
    throw failure(what + "expected the number of an argument, got " +
                  std::to_string(map.operand));
  bool half = map.dtype == BLURT_BF16;
  if (!half && map.dtype != BLURT_F32)
    throw failure(what + "expected f32 or bf16, got " + dtypeName(map.dtype));
  if (map.rank < 1 || map.rank > BLURT_MAP_RANK)
    throw failure(what + "expected 1 to " + std::to_string(BLURT_MAP_RANK) +
                  " dimensions, got " + std::to_string(map.rank));
  if (map.swizzle != 0 && map.swizzle != 64 && map.swizzle != 128)
    throw failure(what + "expected a swizzle of 0, 64 or 128 bytes, got " +
                  std::to_string(map.swizzle));
  for (int32_t d = 0; d < map.rank; ++d) {
    if (map.extents[d] < 1 || map.box[d] < 1 || map.box[d] > 256)
      throw failure(what + "expected extents of at least 1, and a box of 1 to "
                           "256 elements along each");
    if (d ? map.strides[d] % 16 != 0 : map.strides[d] != (half ? 2 : 4))
      throw failure(what + "expected elements side by side, and strides that "
                           "are multiples of 16 bytes");
  }
}

void verifyKernels(const blurt_image &image, int32_t count,
                   const std::string &where) {
  if (count && !image.kernels)
    throw failure(where + ": expected kernels of every image");
  for (int32_t i = 0; i < count; ++i) {
    const blurt_device_kernel &kernel = image.kernels[i];
    if (!kernel.symbol || !kernel.source)
      throw failure(where + ": kernel " + std::to_string(i) +
                    ": expected a symbol and a source");
    const std::string what = where + ": kernel '" + kernel.symbol + "': ";
    for (int d = 0; d < 3; ++d)
      if (!kernel.grid[d] || !kernel.block[d])
        throw failure(what + "expected a grid and blocks of at least 1");
    for (uint32_t m = 0; m < kernel.num_maps; ++m)
      verifyMap(kernel.maps[m], kernel.num_args,
                what + "tensor map " + std::to_string(m) + ": ");
  }
}

void verifyDevice(const blurt_program &program) {
  const std::string where = "program table: device code";
  std::string_view target = program.target ? program.target : "cpu";
  bool cuda = target == "cuda";
  if (cuda != (program.device != nullptr))
    throw failure(where + ": target '" + std::string(target) + "' " +
                  (cuda ? "needs it" : "has no use for it"));
  if (!cuda)
    return;
  const blurt_device_code &code = *program.device;
  if (code.workspace_bytes > program.peak_bytes ||
      code.workspace_offset > program.peak_bytes - code.workspace_bytes)
    throw failure(where + ": the workspace ends outside the arena");
  uint64_t counters = BLURT_NUM_COUNTERS * sizeof(uint64_t);
  if (code.counters_offset % sizeof(uint64_t) != 0 ||
      (code.counters_offset &&
       (counters > program.peak_bytes ||
        code.counters_offset > program.peak_bytes - counters)))
    throw failure(where + ": the counters end outside the arena");
  for (int32_t i = 0; i < code.num_images; ++i) {
    const blurt_image &image = code.images[i];
    if ((image.kind != BLURT_IMAGE_CUBIN && image.kind != BLURT_IMAGE_PTX) ||
        !image.data || !image.size)
      throw failure(where + ": image " + std::to_string(i) +
                    ": expected a cubin or PTX with data");
    if (image.kind == BLURT_IMAGE_PTX &&
        static_cast<const char *>(image.data)[image.size - 1] != 0)
      throw failure(where + ": image " + std::to_string(i) +
                    ": expected PTX that ends in a 0 byte");
    verifyKernels(image, code.num_kernels, where);
  }
  for (int32_t i = 0; i < code.num_gemms; ++i) {
    const blurt_device_gemm &g = code.gemms[i];
    if (!g.source)
      throw failure(where + ": product " + std::to_string(i) +
                    ": expected a source");
    std::string what =
        where + ": product " + std::to_string(i) + " (" + g.source + "): ";
    if (g.batch < 1 || g.m < 1 || g.n < 1 || g.k < 1 || g.batch > INT32_MAX)
      throw failure(what + "expected extents of at least 1");
    if (g.lda < (g.trans_a ? g.m : g.k) || g.ldb < (g.trans_b ? g.k : g.n) ||
        g.ldc < g.n)
      throw failure(what + "expected rows at least as far apart as they are "
                           "long");
    bool half = g.compute == BLURT_COMPUTE_BF16;
    if (g.dtype_ab != (half ? BLURT_BF16 : BLURT_F32) ||
        (g.dtype_c != BLURT_F32 && !(half && g.dtype_c == BLURT_BF16)) ||
        g.compute < BLURT_COMPUTE_F32 || g.compute > BLURT_COMPUTE_BF16)
      throw failure(what +
                    "expected f32 or bf16 that fits how it is computed, "
                    "got " +
                    dtypeName(g.dtype_ab) + " and " + dtypeName(g.dtype_c));
    if (g.epilogue < BLURT_EPILOGUE_NONE || g.epilogue > BLURT_EPILOGUE_BIAS)
      throw failure(what + "unknown epilogue " + std::to_string(g.epilogue));
    for (int32_t align : {g.align_a, g.align_b, g.align_c})
      if (align < 1 || (align & (align - 1)))
        throw failure(what +
                      "expected alignments that are powers of two, got " +
                      std::to_string(align));
  }
}

} // namespace

void blurt::verifyProgram(const blurt_program &program) {
  if (program.abi_version != BLURT_ABI_VERSION)
    throw failure("program table: expected ABI version " +
                  std::to_string(BLURT_ABI_VERSION) + ", got " +
                  std::to_string(program.abi_version) +
                  "; compile the model again with this runtime's bt-compile");
  if (program.state_bytes > program.peak_bytes)
    throw failure("program table: state of " +
                  std::to_string(program.state_bytes) +
                  " bytes exceeds the arena of " +
                  std::to_string(program.peak_bytes) + " bytes");
  verifyDevice(program);
  verifyTensors(stateOf(program), program.state_bytes, "program table: state");
  std::set<std::string> names;
  for (const blurt_entry &entry : entriesOf(program)) {
    std::string where =
        std::string("program table: entry '") + entry.name + "'";
    if (!names.insert(entry.name).second)
      throw failure(where + ": defined twice");
    if (!entry.run)
      throw failure(where + ": has no code");
    if (entry.peak_bytes > program.peak_bytes)
      throw failure(where + ": needs " + std::to_string(entry.peak_bytes) +
                    " bytes of an arena of " +
                    std::to_string(program.peak_bytes) + " bytes");
    verifyTensors(tensorsOf(entry), program.peak_bytes, where);
  }
}
