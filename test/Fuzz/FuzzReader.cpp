//===- FuzzReader.cpp - Any bytes to a reader of the runtime --------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// A reader takes the file or throws Error. Anything else ends the program:
// another exception, a crash, a time-out, or more memory at once than kFactor
// times the file and kSlack: what a header claims must not decide how much is
// allocated. Programs are this file and the name of a reader.
//
//===----------------------------------------------------------------------===//

#include "../../runtime/lib/Cuda/TuneFile.h"
#include "Config.h"
#include "Metrics.h"
#include "blurt/Checkpoint.h"
#include "blurt/Error.h"
#include "blurt/Hash.h"
#include "blurt/HellaSwag.h"
#include "blurt/Images.h"
#include "blurt/Json.h"
#include "blurt/Safetensors.h"
#include "blurt/ThreadPool.h"
#include "blurt/TokenShards.h"
#include "blurt/Vocabulary.h"
#include "blurt/Weights.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sanitizer/allocator_interface.h>
#include <string>
#include <string_view>
#include <unistd.h>
#include <zlib.h>

using namespace blurt;

/// Defined by the program.
extern const char fuzzedReader[];

namespace {

constexpr int64_t kFactor = 2;
/// Messages, names, streams; tables of programs.
constexpr int64_t kSlack = 64 << 10;
/// What a byte of gzip can become.
constexpr int64_t kInflated = 1032;

int64_t live = 0, allowed = 0; ///< bytes; allowed is 0 while nothing counts

void onAllocation(const volatile void *, size_t bytes) {
  live += int64_t(bytes);
  if (allowed && live > allowed) {
    auto most = static_cast<long long>(std::exchange(allowed, 0));
    std::fprintf(stderr, "%zu bytes make %lld at once, allowed are %lld\n",
                 bytes, static_cast<long long>(live), most);
    std::abort();
  }
}

void onFree(const volatile void *memory) {
  if (memory)
    live -= int64_t(__sanitizer_get_allocated_size(memory));
}

/// While it lives, memory is that of the test.
class Pause {
public:
  Pause() : limit(std::exchange(allowed, 0)) {}
  ~Pause() { allowed = limit; }

private:
  int64_t limit;
};

void write(const std::string &path, std::string_view text) {
  int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (file < 0 ||
      ::write(file, text.data(), text.size()) != ssize_t(text.size()))
    std::abort();
  ::close(file);
}

std::string folderOf(const std::string &path) {
  return path.substr(0, path.rfind('/'));
}

void readShard(const std::string &path) {
  TokenStream stream("--data", path, 50'257);
  stream.digest();
  int32_t tokens[64];
  stream.read(stream.size() - 1, 64, tokens);
  stream.prefetch(0, stream.size());
}

void readSafetensors(const std::string &path) {
  SafetensorsFile file(path);
  size_t count = 0;
  file.forEach([&](const std::string &name, const SafetensorsEntry &entry) {
    ++count;
    if (!file.find(name))
      std::abort();
    for (uint64_t i = entry.begin; i < entry.end; i += 64)
      if (file.data(entry)[i - entry.begin] == std::byte(1))
        typeString(entry);
  });
  if (count != file.size())
    std::abort();
  file.metadata("format");
}

/// What the library says about a text; nothing after a number that is too large
/// for it.
class Verdict : public nlohmann::json_sax<nlohmann::json> {
public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(int64_t) override { return true; }
  bool number_unsigned(uint64_t) override { return true; }
  bool number_float(double, const std::string &) override { return true; }
  bool string(std::string &) override { return true; }
  bool binary(binary_t &) override { return true; }
  bool start_object(size_t) override { return ++depth < 60; }
  bool key(std::string &) override { return true; }
  bool end_object() override { return --depth >= 0; }
  bool start_array(size_t) override { return ++depth < 60; }
  bool end_array() override { return --depth >= 0; }
  bool parse_error(size_t, const std::string &,
                   const nlohmann::detail::exception &error) override {
    isTooLarge = error.id == 406;
    return false;
  }
  int depth = 0;
  bool isTooLarge = false;
};

void readJson(const std::string &path) {
  MappedFile file(path);
  std::string_view text = file.text();
  bool accepted = true;
  try {
    JsonReader json(text, "");
    json.skip();
    json.end();
    JsonReader again(text, "");
    if (again.kind() == JsonReader::Kind::Object) {
      JsonTable table(again);
      for (size_t i = 0; i < table.size(); ++i)
        if (!table.find(table.key(i).str()))
          std::abort();
    }
  } catch (const Error &error) {
    accepted =
        std::string_view(error.what()).find("twice") != std::string_view::npos;
  }
  // The library keeps what it has read, begins after a byte order mark and ends
  // before a zero.
  Pause pause;
  Verdict verdict;
  bool is = nlohmann::json::sax_parse(text, &verdict);
  if (accepted != is && !verdict.isTooLarge &&
      !text.starts_with("\xef\xbb\xbf") &&
      text.find('\0') == std::string_view::npos && verdict.depth < 60) {
    std::fprintf(stderr, "accepted: %d, by the library: %d\n", accepted, is);
    std::abort();
  }
}

/// The seal is put right first, so that it hides nothing.
void readManifest(const std::string &path) {
  const std::string folder = folderOf(path);
  {
    Pause pause;
    if (!std::filesystem::exists(folder + "/weights.safetensors"))
      writeSafetensors(
          folder + "/weights.safetensors",
          {{"v", "F32", {2}, [](AtomicFile &file) { file.write("01234567"); }}},
          {});
    std::string text(MappedFile(path).text());
    constexpr std::string_view key = "\"xxh64\": \"";
    size_t at = text.rfind(key);
    if (at != std::string::npos && text.size() - at > key.size() + 16) {
      text.replace(at + key.size(), 16, 16, '0');
      text.replace(at + key.size(), 16,
                   hexString(xxh64(text.data(), text.size())));
      write(path, text);
    }
  }
  Checkpoint checkpoint(folder);
  checkpoint.verifyWeights();
}

void readTokenizer(const std::string &path) {
  Vocabulary vocabulary = Vocabulary::fromFile(path, 0);
  for (int64_t id = 0; id < vocabulary.size(); id += 1 + id / 8)
    if (vocabulary.text(int32_t(id)).size() > 255)
      std::abort();
  vocabulary.encode("abab");
}

void readMetrics(const std::string &path) { dropMetricsFrom(path, 1); }

void readOptions(const std::string &path) {
  CLI::App app;
  CLI::App *train = app.add_subcommand("train");
  int64_t steps = 0;
  double rate = 0;
  std::string name;
  bool quiet = false;
  train->add_option("--steps", steps);
  train->add_option("--lr", rate);
  train->add_option("--name", name);
  train->add_flag("--quiet", quiet);
  std::string words[] = {"program", "train", "--config", path};
  char *arguments[] = {words[0].data(), words[1].data(), words[2].data(),
                       words[3].data()};
  readConfig(*train, 4, arguments);
  writtenConfig(*train);
}

const blurt_program &smallProgram() {
  static const int64_t matrix[] = {2, 2}, vector[] = {3};
  static const std::array<blurt_tensor, 2> state = [] {
    std::array<blurt_tensor, 2> made = {};
    made[0].name = "wte";
    made[0].export_name = "wte.weight";
    made[0].rank = 2;
    made[0].export_transpose = 1;
    made[0].shape = matrix;
    made[1].name = made[1].export_name = "v";
    made[1].rank = 1;
    made[1].shape = vector;
    made[1].offset = 16;
    for (blurt_tensor &tensor : made) {
      tensor.role = BLURT_PARAM;
      tensor.dtype = BLURT_F32;
    }
    return made;
  }();
  static const blurt_key_value notes[] = {{"heads", "2"}};
  static const blurt_program program = [] {
    blurt_program made = {};
    made.name = "test";
    made.state = state.data();
    made.num_state = 2;
    made.state_bytes = 28;
    made.metadata = notes;
    made.num_metadata = 1;
    return made;
  }();
  return program;
}

void readWeights(const std::string &path) {
  static ThreadPool pool(1);
  std::byte arena[28];
  loadParameters(path, smallProgram(), Arena(arena), pool);
}

/// config.json of a folder of weights.
void readFolder(const std::string &path) {
  static ThreadPool pool(1);
  const std::string folder = folderOf(path);
  {
    Pause pause;
    write(folder + "/model.safetensors", "");
    std::filesystem::rename(path, folder + "/config.json");
  }
  std::byte arena[28];
  loadParameters(folder, smallProgram(), Arena(arena), pool);
}

void readImages(const std::string &path) {
  IdxFile file(path);
  unsigned sum = 0;
  for (uint64_t i = 0; i < file.size(); i += 7)
    sum += file.data()[i];
  ImageSet("--data", path, "--labels", path, sum % 5, 10);
}

/// The same bytes, compressed: few changes of a compressed file leave it one.
void readPacked(const std::string &path) {
  {
    Pause pause;
    MappedFile file(path);
    std::string packed;
    packed.resize(compressBound(uLong(file.size())) + 64);
    z_stream stream = {};
    if (deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) !=
        Z_OK)
      std::abort();
    stream.next_in =
        reinterpret_cast<uint8_t *>(const_cast<std::byte *>(file.data()));
    stream.avail_in = unsigned(file.size());
    stream.next_out = reinterpret_cast<uint8_t *>(packed.data());
    stream.avail_out = unsigned(packed.size());
    if (deflate(&stream, Z_FINISH) != Z_STREAM_END)
      std::abort();
    packed.resize(stream.total_out);
    deflateEnd(&stream);
    std::filesystem::remove(path);
    write(path, packed);
  }
  readImages(path);
}

void readHellaSwag(const std::string &path) {
  HellaSwagFile file(path, 50'257);
  for (uint64_t i = 0; i < file.size(); ++i) {
    HellaSwagFile::Example example = file.example(i);
    const HellaSwagFile::Tokens &last = example.endings[3];
    file.word(last.first + last.count - 1);
  }
}

void readTune(const std::string &path) {
  MappedFile file(path);
  TuneFile tune(path, file.text());
  blurt_device_gemm product = {};
  product.batch = 1;
  product.m = product.n = product.k = 64;
  product.dtype_ab = product.dtype_c = BLURT_BF16;
  tune.device();
  tune.library();
  tune.find(product);
}

struct Reader {
  std::string_view name;
  void (*read)(const std::string &path);
};

constexpr Reader kReaders[] = {
    {"shard", readShard},         {"safetensors", readSafetensors},
    {"weights", readWeights},     {"folder", readFolder},
    {"manifest", readManifest},   {"json", readJson},
    {"metrics", readMetrics},     {"options", readOptions},
    {"tokenizer", readTokenizer}, {"images", readImages},
    {"packed", readPacked},       {"hellaswag", readHellaSwag},
    {"tune", readTune},
};

const Reader &reader() {
  static const Reader &chosen =
      *std::find_if(std::begin(kReaders), std::end(kReaders), [](auto &r) {
        return r.name == std::string_view(fuzzedReader);
      });
  return chosen;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const struct Folder {
    std::string path;
    ~Folder() {
      std::error_code error;
      std::filesystem::remove_all(folderOf(path), error);
    }
  } file{[] {
    // In memory where there is such a place: the file is written each time.
    std::string folder = ::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    folder += "/blurt-fuzz-XXXXXX";
    if (!::mkdtemp(folder.data()))
      std::abort();
    __sanitizer_install_malloc_and_free_hooks(onAllocation, onFree);
    return folder + "/manifest.json";
  }()};
  const std::string &path = file.path;
  std::string_view text(reinterpret_cast<const char *>(data), size);
  write(path, text);
  // Compressed images are bounded by what is in them.
  bool packed = reader().read == readImages && text.starts_with("\x1f\x8b");
  live = 0;
  allowed = (packed ? kInflated : kFactor) * int64_t(size) + kSlack;
  try {
    reader().read(path);
  } catch (const Error &) {
  }
  allowed = 0;
  return 0;
}
