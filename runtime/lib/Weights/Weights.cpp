//===- Weights.cpp - Parameters of a program, from and to files -----------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blurt/Weights.h"
#include "blurt/Convert.h"
#include "blurt/Error.h"
#include "blurt/Random.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>

using namespace blurt;

namespace {

constexpr int64_t kGrain = 1 << 14;

void storeElement(int32_t dtype, std::byte *to, double value) {
  if (dtype == BLURT_F64) {
    std::memcpy(to, &value, 8);
  } else if (dtype == BLURT_F32) {
    float narrow = static_cast<float>(value);
    std::memcpy(to, &narrow, 4);
  } else {
    uint16_t narrow = toBf16(value);
    std::memcpy(to, &narrow, 2);
  }
}

void requireFloat(const TensorInstance &t) {
  int32_t dtype = t.tensor->dtype;
  if (dtype != BLURT_F64 && dtype != BLURT_F32 && dtype != BLURT_BF16)
    throw failure("program table: parameter '" + t.name +
                  "': expected a floating-point dtype, got " +
                  dtypeName(dtype));
}

/// Elements [begin, end) of the whole tensor, of which the first goes to `to`.
void initialise(const TensorInstance &t, uint64_t seed, std::byte *to,
                int64_t begin, int64_t end) {
  const blurt_tensor &spec = *t.tensor;
  uint64_t size = dtypeSize(spec.dtype);
  const int64_t first = begin;
  RandomStream random(seed, t.name);
  auto store = [&](int64_t i, double value) {
    storeElement(spec.dtype, to + uint64_t(i - first) * size, value);
  };
  switch (spec.init_kind) {
  case BLURT_INIT_NORMAL:
    for (int64_t i = begin; i < end;) {
      std::array<double, 2> pair = random.normalPair(uint64_t(i) / 2);
      do
        store(i, spec.init_a + spec.init_b * pair[i % 2]);
      while (++i < end && i % 2);
    }
    return;
  case BLURT_INIT_UNIFORM:
    for (int64_t i = begin; i < end; ++i)
      store(i, spec.init_a +
                   (spec.init_b - spec.init_a) * random.uniform(uint64_t(i)));
    return;
  default:
    double value = spec.init_kind == BLURT_INIT_ZEROS  ? 0.0
                   : spec.init_kind == BLURT_INIT_ONES ? 1.0
                                                       : spec.init_a;
    for (int64_t i = begin; i < end; ++i)
      store(i, value);
  }
}

enum class Source { F64, F32, Bf16, F16 };

double loadElement(Source source, const std::byte *from) {
  if (source == Source::F64) {
    double value;
    std::memcpy(&value, from, 8);
    return value;
  }
  if (source == Source::F32) {
    float value;
    std::memcpy(&value, from, 4);
    return value;
  }
  uint16_t value;
  std::memcpy(&value, from, 2);
  return source == Source::Bf16 ? fromBf16(value) : fromF16(value);
}

uint64_t sourceSize(Source source) {
  return source == Source::F64 ? 8 : source == Source::F32 ? 4 : 2;
}

/// Calls `copy(i, at)` for the elements i in [begin, end) of a tensor, where
/// `at` is the place of i in weight files.
template <typename Fn>
void forExported(const TensorInstance &t, int64_t begin, int64_t end,
                 Fn &&copy) {
  if (!t.tensor->export_transpose) {
    for (int64_t i = begin; i < end; ++i)
      copy(i, i);
    return;
  }
  int64_t rows = t.shape()[0], columns = t.shape()[1];
  for (int64_t i = begin; i < end;) {
    int64_t row = i / columns, column = i % columns;
    for (; column < columns && i < end; ++column)
      copy(i++, column * rows + row);
  }
}

/// Elements [begin, end) of a tensor, of which the first goes to `to`.
void loadElements(const TensorInstance &t, Source source, const std::byte *from,
                  std::byte *to, int64_t begin, int64_t end) {
  uint64_t fromSize = sourceSize(source), size = dtypeSize(t.tensor->dtype);
  bool same = (source == Source::F64 && t.tensor->dtype == BLURT_F64) ||
              (source == Source::F32 && t.tensor->dtype == BLURT_F32) ||
              (source == Source::Bf16 && t.tensor->dtype == BLURT_BF16);
  if (same && !t.tensor->export_transpose) {
    std::memcpy(to, from + uint64_t(begin) * size,
                uint64_t(end - begin) * size);
    return;
  }
  forExported(t, begin, end, [&](int64_t i, int64_t at) {
    storeElement(t.tensor->dtype, to + uint64_t(i - begin) * size,
                 loadElement(source, from + uint64_t(at) * fromSize));
  });
}

bool isMask(const std::string &name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
}

std::string shapeString(const std::vector<int64_t> &shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

constexpr std::string_view kPrefix = "transformer.";

/// The file's tensor by the name that a program exports.
std::optional<SafetensorsEntry> entryNamed(const SafetensorsFile &file,
                                           const std::string &name) {
  std::optional<SafetensorsEntry> plain = file.find(name),
                                  prefixed =
                                      file.find(std::string(kPrefix) + name);
  if (plain && prefixed)
    throw badInput(file.path() + ": tensor '" + name +
                   "' appears with and without the prefix 'transformer.'");
  return plain ? plain : prefixed;
}

/// Reports what of the file is none of the parameters.
void checkLeftovers(const SafetensorsFile &file,
                    const std::set<std::string> &parameters) {
  file.forEach([&](const std::string &full, const SafetensorsEntry &entry) {
    std::string name =
        full.starts_with(kPrefix) ? full.substr(kPrefix.size()) : full;
    if (parameters.count(name) || isMask(name))
      return;
    if (name == "lm_head.weight") {
      std::optional<SafetensorsEntry> tied = entryNamed(file, "wte.weight");
      if (tied && tied->dtype == entry.dtype && tied->shape == entry.shape &&
          std::memcmp(file.data(*tied), file.data(entry),
                      entry.end - entry.begin) == 0)
        return;
      throw badInput(file.path() + ": tensor 'lm_head.weight': expected it to "
                                   "equal 'wte.weight', to which this program "
                                   "ties it");
    }
    throw badInput(file.path() + ": unexpected tensor '" + name + "' of type " +
                   typeString(entry));
  });
}

int64_t rankOf(const World *world) { return world ? world->rank() : 0; }

/// Lets `produce(to, begin, end)` write the elements [begin, end) of a tensor
/// that this rank has, in place if the host can; what is behind a short part
/// becomes 0.
template <typename Fn>
void fill(const TensorInstance &t, const Arena &arena, const World *world,
          Fn &&produce) {
  auto [first, count] = t.partOf(rankOf(world));
  uint64_t bytes = uint64_t(count) * dtypeSize(t.tensor->dtype);
  if (std::byte *to = arena.host()) {
    produce(to + t.offset, first, first + count);
    std::memset(to + t.offset + bytes, 0, t.arenaBytes() - bytes);
    return;
  }
  std::vector<std::byte> buffer(t.arenaBytes());
  produce(buffer.data(), first, first + count);
  arena.write(t.offset, buffer.data(), buffer.size());
}

/// The same with parts of [begin, end) by several threads.
template <typename Fn>
void fillInParallel(const TensorInstance &t, const Arena &arena,
                    const World *world, ThreadPool &pool, Fn &&produce) {
  uint64_t size = dtypeSize(t.tensor->dtype);
  fill(t, arena, world, [&](std::byte *to, int64_t first, int64_t last) {
    pool.forEach(last - first, kGrain, [&](int64_t begin, int64_t end) {
      produce(to + uint64_t(begin) * size, first + begin, first + end);
    });
  });
}

} // namespace

void blurt::initialiseParameters(const blurt_program &program, uint64_t seed,
                                 const Arena &arena, ThreadPool &pool,
                                 const World *world) {
  for (const TensorInstance &t : instances(stateOf(program), BLURT_PARAM)) {
    requireFloat(t);
    if (t.tensor->init_kind < BLURT_INIT_ZEROS ||
        t.tensor->init_kind > BLURT_INIT_UNIFORM)
      throw failure("program table: parameter '" + t.name +
                    "': unknown initialiser " +
                    std::to_string(t.tensor->init_kind));
    fillInParallel(t, arena, world, pool,
                   [&](std::byte *to, int64_t begin, int64_t end) {
                     initialise(t, seed, to, begin, end);
                   });
  }
}

namespace {

/// What of a Hugging Face configuration no tensor shows.
void checkConfiguration(const std::string &path, const blurt_program &program) {
  MappedFile file(path);
  JsonReader json(file.text(), path + ": ");
  if (json.kind() != JsonReader::Kind::Object)
    json.expected("a JSON object");
  JsonTable config(json);
  json.end();
  std::optional<int64_t> heads = findMetadataInt(program, "heads");
  if (!heads)
    return;
  auto require = [&](const char *key, const std::string &text, auto &&fits) {
    std::optional<JsonReader> value = config.find(key);
    if (value && !fits(*value))
      throw badInput(path + ": " + key + ": expected " + text +
                     " as in this program, got " + value->excerpt());
  };
  using Kind = JsonReader::Kind;
  auto number = [&](const char *key, const std::string &text, double wanted) {
    require(key, text, [&](JsonReader value) {
      return value.kind() == Kind::Number && value.number() == wanted;
    });
  };
  auto flag = [&](const char *key, bool wanted) {
    require(key, wanted ? "true" : "false", [&](JsonReader value) {
      return value.kind() == Kind::Bool && value.boolean() == wanted;
    });
  };
  auto name = [&](const char *key, std::string_view wanted,
                  std::string_view other) {
    require(key, '"' + std::string(wanted) + '"', [&](JsonReader value) {
      if (value.kind() != Kind::String)
        return false;
      JsonString text = value.string();
      return text == wanted || text == other;
    });
  };
  name("model_type", "gpt2", "gpt2");
  number("n_head", std::to_string(*heads), double(*heads));
  number("layer_norm_epsilon", "1e-05", 1e-5);
  flag("scale_attn_weights", true);
  flag("scale_attn_by_inverse_layer_idx", false);
  flag("tie_word_embeddings", true);
  name("activation_function", "gelu_new", "gelu_pytorch_tanh");
}

std::string weightsFile(const std::string &path, const blurt_program &program) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::is_directory(path, error))
    return path;
  std::string file = path + "/model.safetensors",
              config = path + "/config.json";
  if (!fs::exists(file, error))
    throw badInput(path + ": expected a file, or a folder with a "
                          "model.safetensors");
  if (fs::exists(config, error))
    checkConfiguration(config, program);
  return file;
}

} // namespace

SafetensorsMetadata blurt::weightsMetadata(const blurt_program &program) {
  SafetensorsMetadata result = {{"format", "pt"},
                                {"model", program.name},
                                {"plan_hash", program.plan_hash}};
  // No shape shows it, and what reads the file may need it.
  if (std::optional<std::string_view> heads = findMetadata(program, "heads"))
    result.emplace_back("heads", *heads);
  return result;
}

void blurt::loadParameters(const std::string &from,
                           const blurt_program &program, const Arena &arena,
                           ThreadPool &pool, const World *world) {
  const std::string path = weightsFile(from, program);
  SafetensorsFile file(path);
  std::vector<std::pair<TensorInstance, SafetensorsEntry>> found;
  std::set<std::string> names;
  std::string missing;
  size_t missingCount = 0;
  for (TensorInstance &t : instances(stateOf(program), BLURT_PARAM)) {
    requireFloat(t);
    names.insert(t.exportName);
    std::optional<SafetensorsEntry> in = entryNamed(file, t.exportName);
    if (!in) {
      if (++missingCount <= 4)
        missing += (missingCount > 1 ? ", '" : "'") + t.exportName + "'";
      continue;
    }
    const SafetensorsEntry &entry = *in;
    if (entry.shape != t.exportShape())
      throw badInput(path + ": tensor '" + t.exportName + "': expected shape " +
                     shapeString(t.exportShape()) + ", got " +
                     shapeString(entry.shape));
    if (entry.dtype != "F64" && entry.dtype != "F32" && entry.dtype != "BF16" &&
        entry.dtype != "F16")
      throw badInput(path + ": tensor '" + t.exportName +
                     "': expected dtype F32, F64, BF16 or F16, got " +
                     entry.dtype);
    found.emplace_back(std::move(t), entry);
  }
  if (missingCount)
    throw badInput(
        path + ": missing tensor" + (missingCount > 1 ? "s " : " ") + missing +
        (missingCount > 4 ? " and " + std::to_string(missingCount - 4) + " more"
                          : ""));
  checkLeftovers(file, names);
  for (const auto &[t, entry] : found) {
    Source source = entry.dtype == "F64"    ? Source::F64
                    : entry.dtype == "F32"  ? Source::F32
                    : entry.dtype == "BF16" ? Source::Bf16
                                            : Source::F16;
    fillInParallel(
        t, arena, world, pool,
        [&, &t = t, &entry = entry](std::byte *to, int64_t begin, int64_t end) {
          loadElements(t, source, file.data(entry), to, begin, end);
        });
  }
}

const char *blurt::safetensorsDtype(const TensorInstance &t) {
  switch (t.tensor->dtype) {
  case BLURT_F64:
    return "F64";
  case BLURT_F32:
    return "F32";
  case BLURT_BF16:
    return "BF16";
  case BLURT_I64:
    return "I64";
  case BLURT_I32:
    return "I32";
  default:
    return "BOOL";
  }
}

/// The whole of a tensor that is cut, on rank 0; what others have of it goes
/// there.
static void collect(const TensorInstance &t, const Arena &arena, World &world,
                    std::vector<std::byte> &whole) {
  uint64_t size = dtypeSize(t.tensor->dtype);
  auto [first, count] = t.partOf(world.rank());
  std::vector<Channel::Message> messages;
  uint64_t own = uint64_t(count) * size;
  if (world.leads()) {
    whole.resize(t.bytes());
    arena.read(t.offset, whole.data(), own);
    for (int64_t rank = 1; rank < world.size(); ++rank)
      if (auto [begin, there] = t.partOf(rank); there > 0)
        messages.push_back({rank, nullptr, 0,
                            whole.data() + uint64_t(begin) * size,
                            uint64_t(there) * size});
  } else if (own > 0) {
    whole.resize(own);
    arena.read(t.offset, whole.data(), own);
    messages.push_back({0, whole.data(), own, nullptr, 0});
  }
  world.exchange(messages, "collecting the state '" + t.name + "'");
}

void blurt::readTensor(const TensorInstance &t, const Arena &arena,
                       World *world,
                       const std::function<void(const std::byte *)> &use) {
  std::vector<std::byte> copy;
  const std::byte *from = arena.host();
  if (t.isCut()) {
    if (!world)
      throw failure("tensor '" + t.name +
                    "': expected all devices that it is "
                    "cut among, got one");
    collect(t, arena, *world, copy);
    if (!world->leads())
      return;
    from = copy.data();
  } else if (from) {
    from += t.offset;
  } else {
    copy.resize(t.bytes());
    arena.read(t.offset, copy.data(), copy.size());
    from = copy.data();
  }
  if (!t.tensor->export_transpose)
    return use(from);
  std::vector<std::byte> out(t.bytes());
  uint64_t size = dtypeSize(t.tensor->dtype);
  forExported(t, 0, t.elements, [&](int64_t i, int64_t at) {
    std::memcpy(out.data() + uint64_t(at) * size, from + uint64_t(i) * size,
                size);
  });
  use(out.data());
}

void blurt::sendTensors(const std::vector<TensorInstance> &tensors,
                        const Arena &arena, World &world) {
  for (const TensorInstance &t : tensors)
    if (t.isCut())
      readTensor(t, arena, &world, {});
}

void blurt::writeTensor(const TensorInstance &t, const Arena &arena,
                        const World *world, const std::byte *from) {
  uint64_t size = dtypeSize(t.tensor->dtype);
  if (!t.tensor->export_transpose) {
    auto [first, count] = t.partOf(rankOf(world));
    return arena.write(t.offset, from + uint64_t(first) * size,
                       uint64_t(count) * size);
  }
  fill(t, arena, world, [&](std::byte *to, int64_t begin, int64_t end) {
    forExported(t, begin, end, [&](int64_t i, int64_t at) {
      std::memcpy(to + uint64_t(i - begin) * size, from + uint64_t(at) * size,
                  size);
    });
  });
}

void blurt::saveTensors(const std::string &path,
                        const std::vector<TensorInstance> &tensors,
                        const Arena &arena, const SafetensorsMetadata &metadata,
                        World *world) {
  if (world && !world->leads())
    return sendTensors(tensors, arena, *world);
  std::vector<SafetensorsOutput> outputs;
  for (const TensorInstance &t : tensors)
    outputs.push_back(
        {t.exportName, safetensorsDtype(t), t.exportShape(),
         [&t, &arena, world](AtomicFile &f) {
           readTensor(t, arena, world,
                      [&](const std::byte *data) { f.write(data, t.bytes()); });
           if (t.isCut())
             f.sync();
         }});
  writeSafetensors(path, outputs, metadata);
}

uint64_t blurt::savedBytes(const std::vector<TensorInstance> &tensors) {
  uint64_t bytes = 4096;
  for (const TensorInstance &t : tensors)
    bytes += t.bytes() + 256;
  return bytes;
}
