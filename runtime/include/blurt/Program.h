//===- Program.h - Reading a blurt_program table ----------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_PROGRAM_H
#define BLURT_PROGRAM_H

#include "blurt/blurt.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace blurt {

uint64_t dtypeSize(int32_t dtype);
const char *dtypeName(int32_t dtype);

/// One iteration of a stacked tensor, or a whole unstacked one.
struct TensorInstance {
  const blurt_tensor *tensor;
  std::string name;       ///< with `{i}` replaced
  std::string exportName; ///< the same for the name in weight files
  uint64_t offset;        ///< bytes from the arena's base
  int64_t elements;       ///< of the whole tensor, if it is cut
  int64_t stored;         ///< elements in the arena

  uint64_t bytes() const {
    return uint64_t(elements) * dtypeSize(tensor->dtype);
  }
  uint64_t arenaBytes() const {
    return uint64_t(stored) * dtypeSize(tensor->dtype);
  }
  bool isCut() const { return tensor->shards > 0; }
  /// The elements that rank `rank` has: the first one and their number.
  std::pair<int64_t, int64_t> partOf(int64_t rank) const;
  /// The shape of the whole tensor.
  std::span<const int64_t> shape() const;
  /// The shape in weight files.
  std::vector<int64_t> exportShape() const;
};

/// Elements of one iteration.
int64_t elementCount(const blurt_tensor &tensor);
/// Bytes from the first to the last element of all iterations.
uint64_t storedBytes(const blurt_tensor &tensor);
/// "f32[4, 8]".
std::string typeString(const blurt_tensor &tensor);

/// The instances of the tensors of `role`, in table order.
std::vector<TensorInstance> instances(std::span<const blurt_tensor> tensors,
                                      int32_t role);

inline std::span<const blurt_tensor> stateOf(const blurt_program &program) {
  return {program.state, size_t(program.num_state)};
}
inline std::span<const blurt_tensor> tensorsOf(const blurt_entry &entry) {
  return {entry.tensors, size_t(entry.num_tensors)};
}
inline std::span<const blurt_entry> entriesOf(const blurt_program &program) {
  return {program.entries, size_t(program.num_entries)};
}

/// Null if there is none.
const blurt_entry *findEntry(const blurt_program &program,
                             std::string_view name);
const blurt_tensor *findTensor(const blurt_entry &entry, int32_t role,
                               std::string_view name);
std::optional<std::string_view> findMetadata(const blurt_program &program,
                                             std::string_view key);
/// Metadata that is a positive integer. Throws Error if it is there and not.
std::optional<int64_t> findMetadataInt(const blurt_program &program,
                                       std::string_view key);

/// Trained elements.
int64_t parameterCount(const blurt_program &program);

/// Throws Error unless the table is of this ABI and consistent: offsets aligned
/// and inside the arena, state inside the state area, known dtypes and roles.
void verifyProgram(const blurt_program &program);

} // namespace blurt

#endif // BLURT_PROGRAM_H
