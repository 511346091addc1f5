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
#include <map>
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
constexpr std::string_view kWeights = "weights.safetensors",
                           kOptimizer = "optimizer.safetensors";
constexpr size_t kMostDims = 64;
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
  weights.name = kWeights;
  weights.tensors = instances(stateOf(program), BLURT_PARAM);
  StateFile &optimizer = files.emplace_back();
  optimizer.name = kOptimizer;
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
      // What is of no parameter has its own name: the number of updates.
      if (parameter != parameters.end()) {
        t.exportName = prefix + parameter->second->exportName;
        if (t.shape().size() == 2)
          copy.export_transpose = parameter->second->tensor->export_transpose;
      }
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
               const blurt_program &program, const Arena &arena, World *world) {
  Json tensors = Json::object();
  std::vector<SafetensorsOutput> outputs;
  for (const TensorInstance &t : file.tensors)
    outputs.push_back(
        {t.exportName, safetensorsDtype(t), t.exportShape(),
         [&](AtomicFile &to) {
           readTensor(t, arena, world, [&](const std::byte *data) {
             to.write(data, t.bytes());
             tensors[t.exportName] = tensorRecord(t, xxh64(data, t.bytes()));
           });
           if (t.isCut())
             to.sync();
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

bool isSealed(std::string_view manifest, std::string_view sum) {
  size_t at = manifest.rfind(sum);
  if (sum.size() != kNoSum.size() || at == std::string_view::npos)
    return false;
  std::string text(manifest);
  text.replace(at, sum.size(), kNoSum);
  return hexString(xxh64(text.data(), text.size())) == sum;
}

uint64_t parseHex(JsonReader json) {
  std::string_view digits = json.string().raw;
  uint64_t value = 0;
  const char *end = digits.data() + digits.size();
  auto [next, error] = std::from_chars(digits.data(), end, value, 16);
  if (digits.size() != kNoSum.size() || error != std::errc() || next != end)
    throw badInput(json.where + "expected a checksum of 16 hexadecimal digits");
  return value;
}

std::vector<StepNumbers> readHistory(JsonReader json) {
  size_t count = 0;
  JsonReader ahead = json;
  ahead.array([&] {
    ++count;
    ahead.skip();
  });
  std::vector<StepNumbers> history;
  history.reserve(count);
  json.array([&] {
    JsonTable numbers(json);
    history.push_back({numbers.at("step").integer(0),
                       numbers.at("loss").number(),
                       numbers.at("grad_norm").number()});
  });
  return history;
}

} // namespace

Checkpoint::Checkpoint(const std::string &folder)
    : folder(folder), manifest(folder + std::string(kManifest)) {
  const std::string &path = manifest.path();
  JsonReader json(manifest.text(), path + ": damaged: ");
  JsonTable all(json);
  json.end();
  if (!(all.at("format").string() == kFormat))
    throw badInput(path + ": expected the manifest of a checkpoint");
  if (JsonReader version = all.at("version"); version.takeInteger() != kVersion)
    throw badInput(path + ": expected version " + std::to_string(kVersion) +
                   ", got " + version.excerpt());
  if (!isSealed(manifest.text(), all.at("xxh64").string().raw))
    throw badInput(path + ": damaged: its checksum does not match");
  saved.step = all.at("step").integer(0);
  saved.tokens = uint64_t(all.at("tokens").integer(0));
  JsonReader data = all.at("data");
  JsonTable position(data);
  saved.position = uint64_t(position.at("position").integer(0));
  saved.dataTokens = uint64_t(position.at("tokens").integer(0));
  saved.dataDigest = position.at("digest").string().str();
  saved.shuffle = position.at("shuffle").boolean();
  JsonReader random = all.at("random");
  saved.seed = JsonTable(random).at("seed").integer(0);
  if (std::optional<JsonReader> history = all.find("history"))
    saved.history = readHistory(*history);
  JsonReader program = all.at("program");
  JsonTable of(program);
  for (auto [key, to] : {std::pair("model", &model),
                         {"target", &targetName},
                         {"precision", &precision},
                         {"optimizer", &optimizer},
                         {"plan_hash", &plan},
                         {"tune_hash", &saved.tuneHash}})
    *to = of.at(key).string().str();
  JsonReader record = all.at("files");
  record.object([&](const JsonString &name) {
    if (!(name == kWeights) && !(name == kOptimizer))
      throw badInput(path + ": damaged: unknown file '" + name.str() + "'");
    if (findFile(name.raw))
      throw badInput(path + ": damaged: name '" + name.str() +
                     "' appears twice");
    JsonTable members(record);
    JsonReader tensors = members.at("tensors");
    files.push_back({name.str(), parseHex(members.at("header_xxh64")),
                     JsonTable(tensors, [&](const JsonString &) {
                       readTensor(tensors);
                       tensors.skip();
                     })});
  });
}

const Checkpoint::File *Checkpoint::findFile(std::string_view name) const {
  for (const File &file : files)
    if (file.name == name)
      return &file;
  return nullptr;
}

Checkpoint::Tensor Checkpoint::readTensor(JsonReader json) {
  JsonTable record(json);
  Tensor tensor = {{record.at("dtype").string().str(), {}, 0, 0},
                   parseHex(record.at("xxh64"))};
  JsonReader shape = record.at("shape");
  shape.array([&] {
    if (tensor.type.shape.size() == kMostDims)
      throw badInput(shape.where + "a tensor of more than " +
                     std::to_string(kMostDims) + " dims");
    tensor.type.shape.push_back(shape.integer(0));
  });
  return tensor;
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
    const File *record = findFile(file.name);
    if (!record)
      throw badInput(folder + ": expected a file " + file.name);
    for (const TensorInstance &t : file.tensors) {
      std::string type =
          typeString({safetensorsDtype(t), t.exportShape(), 0, 0});
      std::string where = folder + ": tensor '" + t.exportName + "': expected ";
      std::optional<JsonReader> found = record->tensors.find(t.exportName);
      if (!found)
        throw badInput(where + type + ", got none");
      std::string got = typeString(readTensor(*found).type);
      if (got != type)
        throw badInput(where + type + ", got " + got);
      ++count;
    }
  }
  size_t have = 0;
  for (const File &file : files)
    have += file.tensors.size();
  if (have != count)
    throw badInput(folder + ": expected the " + std::to_string(count) +
                   " tensors of this program's state, got " +
                   std::to_string(have));
}

template <typename Fn>
void Checkpoint::verifyFile(const File &file, const World *world,
                            Fn &&use) const {
  auto isMine = [&](size_t i) {
    return !world || int64_t(i) % world->size() == world->rank();
  };
  SafetensorsFile source(folder + "/" + file.name);
  for (size_t i = 0; i < file.tensors.size(); ++i) {
    std::string name = file.tensors.key(i).str();
    Tensor record = readTensor(file.tensors.value(i));
    std::optional<SafetensorsEntry> entry = source.find(name);
    if (!entry || typeString(*entry) != typeString(record.type))
      throw badInput(source.path() + ": tensor '" + name +
                     "': damaged: it is not what the manifest says");
    const std::byte *data = source.data(*entry);
    uint64_t hash =
        isMine(i) ? xxh64(data, entry->end - entry->begin) : record.hash;
    if (hash != record.hash)
      throw badInput(source.path() + ": tensor '" + name +
                     "': damaged: expected the checksum " +
                     hexString(record.hash) + ", got " + hexString(hash));
    use(name, data);
  }
  std::string_view header = source.header();
  if (xxh64(header.data(), header.size()) != file.header)
    throw badInput(source.path() +
                   ": damaged: the checksum of its header does not match");
}

void Checkpoint::restore(const blurt_program &program, const Arena &arena,
                         World *world) const {
  requireProgram(program);
  for (const StateFile &file : stateFiles(program)) {
    std::map<std::string, const TensorInstance *> byName;
    for (const TensorInstance &t : file.tensors)
      byName[t.exportName] = &t;
    verifyFile(*findFile(file.name), world,
               [&](const std::string &name, const std::byte *data) {
                 writeTensor(*byName.at(name), arena, world, data);
               });
  }
  if (world)
    world->most(0, "reading the checkpoint");
}

void Checkpoint::verifyWeights() const {
  const File *file = findFile(kWeights);
  if (!file)
    throw badInput(folder + ": expected a file " + std::string(kWeights));
  verifyFile(*file, nullptr, [](const std::string &, const std::byte *) {});
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
                                   const Arena &arena, int64_t keep,
                                   World *world) {
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
          writeFile(unfinished + "/" + file.name, file, program, arena, world);
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

void blurt::sendState(const blurt_program &program, const Arena &arena,
                      World &world) {
  for (const StateFile &file : stateFiles(program))
    sendTensors(file.tensors, arena, world);
}

uint64_t blurt::checkpointBytes(const blurt_program &program) {
  uint64_t bytes = 8192;
  // Names are in the header and in the manifest.
  for (const StateFile &file : stateFiles(program))
    bytes += savedBytes(file.tensors) + 512 * file.tensors.size();
  return bytes;
}
