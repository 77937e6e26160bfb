#include "reference-trainer/state_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>

#include "reference-trainer/crc32c.h"

namespace poolscope::trainer {
namespace {

namespace fs = std::filesystem;
static_assert(std::endian::native == std::endian::little, "arrays are written as they lie");

constexpr int kFormat = 1;
constexpr const char* kPrefix = "step-";

uint32_t CrcOf(const void* data, size_t size) {
  return Crc32c({static_cast<const uint8_t*>(data), size});
}

std::span<const char> BytesOf(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

// errno, or 0.
int WriteAll(int descriptor, std::span<const char> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
  return 0;
}

int SyncFolder(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return errno;
  const int error = fsync(descriptor) == 0 ? 0 : errno;
  close(descriptor);
  return error;
}

// Writes `parts` to `path` so that it is there whole or not at all. errno, or 0.
int WriteWhole(const std::string& path, const std::vector<std::span<const char>>& parts) {
  const std::string temporary = path + ".tmp";
  const int descriptor = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0) return errno;
  int error = 0;
  for (const auto& part : parts) {
    if (error == 0) error = WriteAll(descriptor, part);
  }
  if (error == 0 && fsync(descriptor) != 0) error = errno;
  if (close(descriptor) != 0 && error == 0) error = errno;
  if (error == 0 && rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) error = SyncFolder(fs::path(path).parent_path());
  if (error != 0) unlink(temporary.c_str());
  return error;
}

std::string ManifestOf(const TrainingState& state, const StateFolder::Facts& facts) {
  nlohmann::ordered_json manifest;
  manifest["format"] = kFormat;
  manifest["step"] = state.step;
  manifest["data"] = {{"next", state.data.next}, {"open", state.data.open}};
  manifest["facts"] = facts;
  manifest["arrays"] = nlohmann::ordered_json::array();
  for (const auto& [name, values] : state.arrays) {
    const auto bytes = BytesOf(values);
    manifest["arrays"].push_back(
        {{"name", name}, {"count", values.size()}, {"crc32c", CrcOf(bytes.data(), bytes.size())}});
  }
  const std::string line = manifest.dump();
  return fmt::format("{}\ncrc32c {:08X}\n", line, CrcOf(line.data(), line.size()));
}

}  // namespace

std::string StateFolder::FileOf(uint64_t step, const char* suffix) const {
  return fmt::format("{}/{}{:012}{}", path_, kPrefix, step, suffix);
}

std::vector<uint64_t> StateFolder::Steps() const {
  std::vector<uint64_t> steps;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(path_, none)) {
    const std::string name = entry.path().filename();
    uint64_t step = 0;
    if (!name.starts_with(kPrefix) || entry.path().extension() != ".json") continue;
    const char* const begin = name.data() + std::strlen(kPrefix);
    const auto [end, error] = std::from_chars(begin, name.data() + name.size(), step);
    if (error == std::errc() && FileOf(step, ".json") == path_ + "/" + name) steps.push_back(step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::string StateFolder::Prepare() const {
  std::error_code error;
  fs::create_directories(path_, error);
  if (error) return fmt::format("cannot make folder {}: {}", path_, error.message());
  const std::vector<uint64_t> steps = Steps();
  for (const auto& entry : fs::directory_iterator(path_, error)) {
    const fs::path& path = entry.path();
    const std::string name = path.filename();
    if (!name.starts_with(kPrefix)) continue;
    const bool orphan = path.extension() == ".state" &&
                        std::none_of(steps.begin(), steps.end(), [&](uint64_t step) {
                          return FileOf(step, ".state") == path_ + "/" + name;
                        });
    std::error_code ignored;
    if (path.extension() == ".tmp" || orphan) fs::remove(path, ignored);
  }
  if (error) return fmt::format("cannot read folder {}: {}", path_, error.message());
  if (access(path_.c_str(), W_OK | X_OK) == 0) return "";
  return fmt::format("cannot write to folder {}: {}", path_, std::strerror(errno));
}

std::string StateFolder::Write(const TrainingState& state, size_t keep,
                               const std::function<bool()>& before_manifest) const {
  const std::string data = FileOf(state.step, ".state"), manifest = FileOf(state.step, ".json");
  // Where one of this step is there (damaged, or of a run before), it ends before its data do.
  unlink(manifest.c_str());
  std::vector<std::span<const char>> parts;
  for (const auto& [name, values] : state.arrays) parts.push_back(BytesOf(values));
  int error = WriteWhole(data, parts);
  if (error == 0 && before_manifest && !before_manifest()) {
    unlink(data.c_str());
    return "";
  }
  const std::string text = ManifestOf(state, facts_);
  if (error == 0) error = WriteWhole(manifest, {text});
  if (error != 0) {
    unlink(data.c_str());
    return fmt::format("cannot write checkpoint {}: {}", data, std::strerror(error));
  }
  std::vector<uint64_t> steps = Steps();
  for (size_t i = 0; i + keep < steps.size(); ++i) {
    unlink(FileOf(steps[i], ".json").c_str());
    unlink(FileOf(steps[i], ".state").c_str());
  }
  return "";
}

std::variant<TrainingState, StateFolder::Failure> StateFolder::Load(uint64_t step) const {
  const std::string path = FileOf(step, ".json"), data = FileOf(step, ".state");
  std::ifstream file(path);
  std::string line, crc;
  if (!std::getline(file, line) || !std::getline(file, crc)) {
    return Failure{fmt::format("{} is incomplete", path)};
  }
  if (crc != fmt::format("crc32c {:08X}", CrcOf(line.data(), line.size()))) {
    return Failure{fmt::format("{} is damaged: its checksum is wrong", path)};
  }
  TrainingState state;
  struct Array {
    std::string name;
    uint64_t count;
    uint32_t crc32c;
  };
  std::vector<Array> arrays;
  uint64_t bytes = 0;
  try {
    const auto manifest = nlohmann::json::parse(line);
    if (manifest.at("format") != kFormat) {
      return Failure{fmt::format("{} has format {}, this program reads {}", path,
                                 manifest.at("format").dump(), kFormat),
                     false};
    }
    const auto theirs = manifest.at("facts").get<Facts>();
    for (const auto& [flag, value] : facts_) {
      const auto found = std::find_if(theirs.begin(), theirs.end(),
                                      [&](const auto& fact) { return fact.first == flag; });
      const std::string other = found == theirs.end() ? "none" : found->second;
      if (other == value) continue;
      return Failure{fmt::format("checkpoint {} is of another run: it has {} {}, this run {}", path,
                                 flag, other, value),
                     false};
    }
    state.step = manifest.at("step");
    state.data.next = manifest.at("data").at("next");
    state.data.open = manifest.at("data").at("open").get<std::vector<uint64_t>>();
    for (const auto& array : manifest.at("arrays")) {
      arrays.push_back({array.at("name"), array.at("count"), array.at("crc32c")});
      bytes += arrays.back().count * sizeof(float);
    }
  } catch (const nlohmann::json::exception& error) {
    return Failure{fmt::format("{} is damaged: {}", path, error.what())};
  }
  std::error_code missing;
  const uint64_t size = fs::file_size(data, missing);
  if (missing || size != bytes) {
    return Failure{fmt::format("{} has {} bytes, {} expected", data, missing ? 0 : size, bytes)};
  }
  std::ifstream in(data, std::ios::binary);
  for (const Array& array : arrays) {
    std::vector<float>& values = state.arrays[array.name];
    values.resize(array.count);
    const size_t count = values.size() * sizeof(float);
    in.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(count));
    if (!in || CrcOf(values.data(), count) != array.crc32c) {
      return Failure{fmt::format("{} is damaged: the checksum of {} is wrong", data, array.name)};
    }
  }
  return state;
}

std::variant<StateFolder::Loaded, std::string> StateFolder::LoadNewest() const {
  Loaded loaded;
  const std::vector<uint64_t> steps = Steps();
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    auto state = Load(*step);
    if (auto* good = std::get_if<TrainingState>(&state)) {
      loaded.state = std::move(*good);
      return loaded;
    }
    const Failure& failure = *std::get_if<Failure>(&state);
    if (!failure.damaged) return failure.what;
    loaded.notes.push_back(failure.what);
  }
  if (loaded.notes.empty()) return fmt::format("no checkpoint in {}", path_);
  return fmt::format("no whole checkpoint in {}: {}", path_, loaded.notes.front());
}

}  // namespace poolscope::trainer
