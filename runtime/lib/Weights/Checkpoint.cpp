//===- Checkpoint.cpp - Folders to go on from -----------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blurt/Checkpoint.h"
#include "blurt/Error.h"
#include "blurt/File.h"
#include "blurt/Hash.h"
#include "blurt/Safetensors.h"
#include "blurt/Weights.h"

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <deque>
#include <fcntl.h>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

using namespace blurt;
namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

namespace {

constexpr std::string_view kFormat = "blutrain-checkpoint";
constexpr int64_t kVersion = 1;
constexpr std::string_view kPrefix = "step-", kUnfinished = "unfinished-",
                           kConfig = "config.toml";
constexpr std::string_view kManifest = "/manifest.json";
constexpr std::string_view kNoSum = "0000000000000000";

/// The tensors of one file. A moment has the name and the layout of its
/// parameter, so that the two can be read side by side.
struct StateFile {
  std::string name;
  std::vector<TensorInstance> tensors;
  std::deque<blurt_tensor> moments; ///< what `tensors` refer to
};

std::deque<StateFile> stateFiles(const blurt_program &program) {
  std::deque<StateFile> files;
  StateFile &weights = files.emplace_back();
  weights.name = "weights.safetensors";
  weights.tensors = instances(stateOf(program), BLURT_PARAM);
  StateFile &optimizer = files.emplace_back();
  optimizer.name = "optimizer.safetensors";
  std::map<std::string, const TensorInstance *> parameters;
  for (const TensorInstance &t : weights.tensors)
    parameters[t.name] = &t;
  const std::pair<int32_t, const char *> roles[] = {
      {BLURT_MOMENT1, "moment1."}, {BLURT_MOMENT2, "moment2."}};
  for (auto [role, prefix] : roles)
    for (TensorInstance &t : instances(stateOf(program), role)) {
      auto parameter = parameters.find(t.name);
      blurt_tensor &copy = optimizer.moments.emplace_back(*t.tensor);
      t.tensor = &copy;
      if (parameter != parameters.end()) {
        t.exportName = parameter->second->exportName;
        if (copy.rank == 2)
          copy.export_transpose = parameter->second->tensor->export_transpose;
      }
      t.exportName = prefix + t.exportName;
      optimizer.tensors.push_back(std::move(t));
    }
  if (optimizer.tensors.empty())
    files.pop_back();
  return files;
}

std::optional<int64_t> stepOf(const std::string &name) {
  if (!name.starts_with(kPrefix))
    return std::nullopt;
  int64_t step = 0;
  const char *end = name.data() + name.size();
  auto [next, error] = std::from_chars(name.data() + kPrefix.size(), end, step);
  if (error != std::errc() || next != end || step < 0)
    return std::nullopt;
  return step;
}

std::string folderName(int64_t step) {
  char text[32];
  std::snprintf(text, sizeof(text), "%08lld", static_cast<long long>(step));
  return std::string(kPrefix) + text;
}

/// Checkpoints of a folder by step. One without a manifest is none.
std::map<int64_t, std::string> listCheckpoints(const std::string &path) {
  std::map<int64_t, std::string> found;
  std::error_code error;
  for (fs::directory_iterator it(path, error), end; !error && it != end;
       it.increment(error)) {
    std::string name = it->path().filename();
    std::optional<int64_t> step = stepOf(name);
    std::string folder = path + "/" + name;
    if (step && fs::exists(folder + std::string(kManifest)))
      found[*step] = folder;
  }
  if (error)
    throw badInput(systemMessage(path, "cannot read", error.value()));
  return found;
}

void removeTree(const std::string &path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error)
    throw failure(systemMessage(path, "cannot remove", error.value()));
}

void renameFolder(const std::string &from, const std::string &to) {
  if (::rename(from.c_str(), to.c_str()) != 0)
    throw failure(systemMessage(to, "cannot rename into place", errno));
}

Json tensorRecord(const TensorInstance &t, uint64_t hash) {
  return {{"dtype", safetensorsDtype(t)},
          {"shape", t.exportShape()},
          {"xxh64", hexString(hash)}};
}

Json writeFile(const std::string &path, const StateFile &file,
               const blurt_program &program, const Arena &arena) {
  Json tensors = Json::object();
  std::vector<SafetensorsOutput> outputs;
  for (const TensorInstance &t : file.tensors)
    outputs.push_back({t.exportName, safetensorsDtype(t), t.exportShape(),
                       [&](AtomicFile &to) {
                         readTensor(t, arena, [&](const std::byte *data) {
                           to.write(data, t.bytes());
                           tensors[t.exportName] =
                               tensorRecord(t, xxh64(data, t.bytes()));
                         });
                       }});
  writeSafetensors(path, outputs, weightsMetadata(program));
  SafetensorsFile written(path);
  std::string_view header = written.header();
  return {{"header_xxh64", hexString(xxh64(header.data(), header.size()))},
          {"tensors", tensors}};
}

/// The manifest ends in a checksum of itself, taken with zeros in its place.
std::string sealed(Json manifest) {
  manifest["xxh64"] = kNoSum;
  // Names of files need not be UTF-8.
  std::string text =
      manifest.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  size_t at = text.rfind(kNoSum);
  return text.replace(at, kNoSum.size(),
                      hexString(xxh64(text.data(), text.size())));
}

bool isSealed(std::string text, const std::string &sum) {
  size_t at = text.rfind(sum);
  if (sum.size() != kNoSum.size() || at == std::string::npos)
    return false;
  text.replace(at, sum.size(), kNoSum);
  return hexString(xxh64(text.data(), text.size())) == sum;
}

uint64_t parseHex(const std::string &text) {
  uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value, 16);
  return value;
}

} // namespace

Checkpoint::Checkpoint(const std::string &folder) : folder(folder) {
  const std::string path = folder + std::string(kManifest);
  MappedFile file(path);
  std::string text(reinterpret_cast<const char *>(file.data()),
                   size_t(file.size()));
  try {
    Json manifest = Json::parse(text);
    if (manifest.at("format") != kFormat)
      throw badInput(path + ": expected the manifest of a checkpoint");
    if (manifest.at("version") != kVersion)
      throw badInput(path + ": expected version " + std::to_string(kVersion) +
                     ", got " + manifest["version"].dump());
    if (!isSealed(text, manifest.at("xxh64")))
      throw badInput(path + ": damaged: its checksum does not match");
    saved.step = manifest.at("step");
    saved.tokens = manifest.at("tokens");
    const Json &data = manifest.at("data");
    saved.position = data.at("position");
    saved.dataTokens = data.at("tokens");
    saved.dataDigest = data.at("digest");
    saved.shuffle = data.at("shuffle");
    saved.seed = manifest.at("random").at("seed");
    for (const auto &[flag, value] : manifest.at("flags").items())
      saved.flags.emplace_back(flag, value);
    for (const Json &numbers : manifest.value("history", Json::array()))
      saved.history.push_back(
          {numbers.at("step"), numbers.at("loss"), numbers.at("grad_norm")});
    const Json &program = manifest.at("program");
    model = program.at("model");
    targetName = program.at("target");
    precision = program.at("precision");
    optimizer = program.at("optimizer");
    plan = program.at("plan_hash");
    saved.tuneHash = program.at("tune_hash");
    for (const auto &[name, record] : manifest.at("files").items()) {
      File &into = files[name];
      into.header = parseHex(record.at("header_xxh64"));
      for (const auto &[tensor, t] : record.at("tensors").items())
        into.tensors[tensor] = {t.at("dtype"), t.at("shape"),
                                parseHex(t.at("xxh64"))};
    }
  } catch (const nlohmann::json::exception &error) {
    throw badInput(path + ": damaged: " + error.what());
  }
}

void Checkpoint::requireProgram(const blurt_program &program) const {
  auto same = [&](const char *what, const std::string &mine, const char *its) {
    if (mine != its)
      throw badInput(folder + ": expected the " + what + " '" + its +
                     "' of this program, got '" + mine + "'");
  };
  same("model", model, program.name);
  same("precision", precision, program.precision);
  same("optimizer", optimizer, program.optimizer);
  size_t count = 0;
  for (const StateFile &file : stateFiles(program)) {
    auto record = files.find(file.name);
    if (record == files.end())
      throw badInput(folder + ": expected a file " + file.name);
    for (const TensorInstance &t : file.tensors) {
      std::string type =
          typeString({safetensorsDtype(t), t.exportShape(), 0, 0});
      std::string where = folder + ": tensor '" + t.exportName + "': expected ";
      auto found = record->second.tensors.find(t.exportName);
      if (found == record->second.tensors.end())
        throw badInput(where + type + ", got none");
      std::string got =
          typeString({found->second.dtype, found->second.shape, 0, 0});
      if (got != type)
        throw badInput(where + type + ", got " + got);
      ++count;
    }
  }
  size_t have = 0;
  for (const auto &[name, file] : files)
    have += file.tensors.size();
  if (have != count)
    throw badInput(folder + ": expected the " + std::to_string(count) +
                   " tensors of this program's state, got " +
                   std::to_string(have));
}

template <typename Fn>
void Checkpoint::verifyFile(const std::string &name, const File &file,
                            Fn &&use) const {
  SafetensorsFile source(folder + "/" + name);
  for (const auto &[tensor, record] : file.tensors) {
    auto entry = source.entries().find(tensor);
    if (entry == source.entries().end() ||
        typeString(entry->second) !=
            typeString({record.dtype, record.shape, 0, 0}))
      throw badInput(source.path() + ": tensor '" + tensor +
                     "': damaged: it is not what the manifest says");
    const std::byte *data = source.data(entry->second);
    uint64_t bytes = entry->second.end - entry->second.begin;
    uint64_t hash = xxh64(data, bytes);
    if (hash != record.hash)
      throw badInput(source.path() + ": tensor '" + tensor +
                     "': damaged: expected the checksum " +
                     hexString(record.hash) + ", got " + hexString(hash));
    use(tensor, data);
  }
  std::string_view header = source.header();
  if (xxh64(header.data(), header.size()) != file.header)
    throw badInput(source.path() +
                   ": damaged: the checksum of its header does not match");
}

void Checkpoint::restore(const blurt_program &program,
                         const Arena &arena) const {
  requireProgram(program);
  for (const StateFile &file : stateFiles(program)) {
    std::map<std::string, const TensorInstance *> byName;
    for (const TensorInstance &t : file.tensors)
      byName[t.exportName] = &t;
    verifyFile(file.name, files.at(file.name),
               [&](const std::string &name, const std::byte *data) {
                 writeTensor(*byName.at(name), arena, data);
               });
  }
}

void Checkpoint::verifyWeights() const {
  auto file = files.find("weights.safetensors");
  if (file == files.end())
    throw badInput(folder + ": expected a file weights.safetensors");
  verifyFile(file->first, file->second,
             [](const std::string &, const std::byte *) {});
}

CheckpointFolder::CheckpointFolder(const std::string &path, uint64_t bytes)
    : path(path) {
  const std::string where = "--checkpoint-dir: ";
  std::error_code error;
  fs::create_directories(path, error);
  if (error && !fs::is_directory(path))
    throw badInput(where + systemMessage(path, "cannot create", error.value()));
  descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0)
    throw badInput(where + systemMessage(path, "cannot open", errno));
  try {
    // Some file systems have no locks; there the user has to take care.
    if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
      throw badInput(where + path + ": another run is using it");
    for (fs::directory_iterator it(path, error), end; !error && it != end;
         it.increment(error))
      if (std::string name = it->path().filename();
          name.starts_with(kUnfinished) ||
          name.starts_with(std::string(kConfig) + ".tmp."))
        removeTree(path + "/" + name);
    if (error)
      throw badInput(where + systemMessage(path, "cannot read", error.value()));
    // Also finds out whether something can be written here.
    checkWritable("--checkpoint-dir",
                  path + "/" + std::string(kUnfinished) + "probe", bytes);
  } catch (...) {
    ::close(descriptor);
    throw;
  }
}

CheckpointFolder::~CheckpointFolder() { ::close(descriptor); }

std::optional<std::string> CheckpointFolder::newest() const {
  auto found = listCheckpoints(path);
  if (found.empty())
    return std::nullopt;
  return found.rbegin()->second;
}

void CheckpointFolder::saveConfig(const std::string &text) const {
  AtomicFile file(path + "/" + std::string(kConfig));
  file.write(text);
  file.commit();
}

std::string CheckpointFolder::save(const blurt_program &program,
                                   const CheckpointState &state,
                                   const Arena &arena, int64_t keep) {
  const std::string name = folderName(state.step);
  const std::string unfinished = path + "/" + std::string(kUnfinished) + name;
  const std::string final = path + "/" + name;
  try {
    removeTree(unfinished);
    if (::mkdir(unfinished.c_str(), 0777) != 0)
      throw failure(systemMessage(unfinished, "cannot create", errno));
    Json files = Json::object();
    for (const StateFile &file : stateFiles(program))
      files[file.name] =
          writeFile(unfinished + "/" + file.name, file, program, arena);
    Json flags = Json::object();
    for (const auto &[flag, value] : state.flags)
      flags[flag] = value;
    Json manifest = {{"format", kFormat},
                     {"version", kVersion},
                     {"step", state.step},
                     {"tokens", state.tokens},
                     {"data",
                      {{"position", state.position},
                       {"tokens", state.dataTokens},
                       {"digest", state.dataDigest},
                       {"shuffle", state.shuffle}}},
                     {"random", {{"seed", state.seed}}},
                     {"program",
                      {{"model", program.name},
                       {"target", program.target ? program.target : "cpu"},
                       {"precision", program.precision},
                       {"optimizer", program.optimizer},
                       {"plan_hash", program.plan_hash},
                       {"tune_hash", state.tuneHash}}},
                     {"flags", flags},
                     {"files", files}};
    for (const StepNumbers &n : state.history)
      manifest["history"].push_back(
          {{"step", n.step}, {"loss", n.loss}, {"grad_norm", n.norm}});
    AtomicFile file(unfinished + std::string(kManifest));
    file.write(sealed(std::move(manifest)));
    // Syncs the folder too.
    file.commit();
    std::error_code error;
    if (fs::exists(final, error)) {
      // Without a manifest, or it would have been gone on from.
      std::string old = path + "/" + std::string(kUnfinished) + "old-" + name;
      renameFolder(final, old);
      renameFolder(unfinished, final);
      removeTree(old);
    } else {
      renameFolder(unfinished, final);
    }
  } catch (...) {
    std::error_code error;
    fs::remove_all(unfinished, error);
    throw;
  }
  if (::fsync(descriptor) != 0 && errno != EINVAL)
    throw failure(systemMessage(path, "cannot sync", errno));
  if (keep > 0) {
    auto found = listCheckpoints(path);
    while (int64_t(found.size()) > keep) {
      // A folder that is half removed must not look like a checkpoint.
      std::string going = path + "/" + std::string(kUnfinished) +
                          fs::path(found.begin()->second).filename().string();
      renameFolder(found.begin()->second, going);
      removeTree(going);
      found.erase(found.begin());
    }
  }
  return final;
}

std::string blurt::findCheckpoint(const std::string &flag,
                                  const std::string &path) {
  if (!fs::is_directory(path))
    throw badInput(flag + ": " + path + ": expected a folder");
  if (fs::exists(path + std::string(kManifest)))
    return path;
  auto found = listCheckpoints(path);
  if (found.empty())
    throw badInput(flag + ": " + path + ": expected a checkpoint, found none");
  return found.rbegin()->second;
}

uint64_t blurt::checkpointBytes(const blurt_program &program) {
  uint64_t bytes = 8192;
  // Names are in the header and in the manifest.
  for (const StateFile &file : stateFiles(program))
    bytes += savedBytes(file.tensors) + 512 * file.tensors.size();
  return bytes;
}
