//===- Checkpoint.h - Folders to go on from ---------------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// A checkpoint is a folder `step-00000120`: the parameters and the optimizer's
// moments as safetensors, and a manifest with all else that the next step
// depends on and a checksum of everything. It is written under another name,
// synced, and renamed, so a folder of that name is complete.
// docs/Checkpoints.md describes the format.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_CHECKPOINT_H
#define BLURT_CHECKPOINT_H

#include "blurt/Arena.h"
#include "blurt/Program.h"
#include "blurt/Safetensors.h"
#include "blurt/World.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace blurt {

/// What a step gave.
struct StepNumbers {
  int64_t step;
  double loss, norm;
};

/// What a checkpoint holds beside tensors.
struct CheckpointState {
  int64_t step = 0;        ///< steps done, so also the number of the next one
  uint64_t tokens = 0;     ///< trained on so far
  uint64_t position = 0;   ///< the token of the stream that comes next
  uint64_t dataTokens = 0; ///< in all shards
  std::string dataDigest;
  bool shuffle = false;
  int64_t seed = 0;     ///< with `step` all of the random state
  std::string tuneHash; ///< of the file of the command tune, or nothing
  /// Of the last steps, where outliers are looked for.
  std::vector<StepNumbers> history;
  /// The command line, for whoever looks at the file. It is not read back.
  std::vector<std::pair<std::string, std::string>> flags;
};

/// A complete checkpoint, read.
class Checkpoint {
public:
  /// Reads the manifest. Throws Error (bad input) if it is damaged.
  explicit Checkpoint(const std::string &folder);

  const std::string &path() const { return folder; }
  const CheckpointState &state() const { return saved; }
  const std::string &planHash() const { return plan; }
  const std::string &target() const { return targetName; }
  std::string weights() const { return folder + "/weights.safetensors"; }

  /// Throws Error (bad input) unless model, precision, optimizer and every
  /// tensor of the state are the program's, naming what differs.
  void requireProgram(const blurt_program &program) const;
  /// Fills parameters and moments with the bits that were saved, a rank its
  /// parts of them. Throws Error (bad input), naming the tensor, where a
  /// checksum is not the manifest's; each rank checks some of the tensors.
  void restore(const blurt_program &program, const Arena &arena,
               World *world = nullptr) const;
  /// Compares the checksums of the weights, all that they need of a checkpoint.
  void verifyWeights() const;

private:
  /// What the manifest says about a file of tensors.
  struct File {
    std::string name;
    uint64_t header;
    JsonTable tensors;
  };
  struct Tensor {
    SafetensorsEntry type;
    uint64_t hash;
  };
  const File *findFile(std::string_view name) const;
  static Tensor readTensor(JsonReader json);
  template <typename Fn>
  void verifyFile(const File &file, const World *world, Fn &&use) const;

  std::string folder;
  MappedFile manifest; ///< what tables refer to
  CheckpointState saved;
  std::string model, targetName, precision, optimizer, plan;
  std::vector<File> files;
};

/// A folder of checkpoints, locked against other runs as long as the object.
class CheckpointFolder {
public:
  /// Creates the folder if need be and removes what a run that was killed left
  /// of a checkpoint or configuration it was writing. Throws Error (bad input)
  /// if the folder cannot be used, has no room for `bytes`, or is another
  /// run's.
  CheckpointFolder(const std::string &path, uint64_t bytes);
  ~CheckpointFolder();
  CheckpointFolder(const CheckpointFolder &) = delete;
  CheckpointFolder &operator=(const CheckpointFolder &) = delete;

  /// The folder of the last step, if there is any.
  std::optional<std::string> newest() const;

  /// Writes config.toml.
  void saveConfig(const std::string &text) const;

  /// Writes a checkpoint, returns its folder, and then removes all but the
  /// newest `keep`, unless that is 0. Throws Error (run-time failure), naming
  /// the file; earlier checkpoints are left as they were.
  /// Of state that is cut all ranks take part: the others call sendState.
  std::string save(const blurt_program &program, const CheckpointState &state,
                   const Arena &arena, int64_t keep, World *world = nullptr);

private:
  std::string path;
  int descriptor = -1;
};

/// `path` itself if it is a checkpoint, else the newest of the checkpoints in
/// it. Throws Error (bad input) if there is none.
std::string findCheckpoint(const std::string &flag, const std::string &path);

/// What rank 0 needs of another one to save a checkpoint.
void sendState(const blurt_program &program, const Arena &arena, World &world);

/// Bytes of a checkpoint, about.
uint64_t checkpointBytes(const blurt_program &program);

} // namespace blurt

#endif // BLURT_CHECKPOINT_H
