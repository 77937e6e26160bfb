#include "reference-trainer/data.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>

#include "reference-trainer/crc32c.h"

namespace poolscope::trainer {
namespace {

// Enough for any model this trainer can hold; more is not read.
constexpr size_t kMaxBytes = size_t{1} << 30;

constexpr const char* kSystemTexts[] = {
    "/usr/share/common-licenses/GPL-3", "/usr/share/common-licenses/GPL-2",
    "/usr/share/licenses/common/GPL3/license.txt", "/usr/share/common-licenses/Apache-2.0",
    "/usr/share/dict/words"};

std::variant<Corpus, std::string> Read(const std::string& path, size_t context) {
  struct stat status {};
  if (stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) {
    return fmt::format("cannot read --data {}: it is a folder; give a file", path);
  }
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file) return fmt::format("cannot read --data {}: {}", path, std::strerror(errno));
  std::vector<uint8_t> bytes;
  std::array<uint8_t, 1 << 16> part;
  while (bytes.size() < kMaxBytes) {
    const size_t count = std::fread(part.data(), 1, part.size(), file.get());
    if (count == 0) break;
    bytes.insert(bytes.end(), part.begin(), part.begin() + static_cast<std::ptrdiff_t>(count));
  }
  if (std::ferror(file.get())) {
    return fmt::format("cannot read --data {}: {}", path, std::strerror(errno));
  }
  if (bytes.empty()) return fmt::format("--data {} is empty; give a file with text", path);
  if (bytes.size() < context + 2) {
    return fmt::format("--data {} has {} bytes, fewer than --context {} + 2; give a longer file",
                       path, bytes.size(), context);
  }
  return Corpus(path, std::move(bytes));
}

}  // namespace

uint64_t SplitMix64(uint64_t& state) {
  uint64_t z = (state += 0x9E3779B97F4A7C15);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

uint32_t Corpus::Checksum() const { return Crc32c(bytes_); }

double Corpus::UnigramEntropy() const {
  std::array<uint64_t, 256> counts{};
  for (uint8_t byte : bytes_) ++counts[byte];
  double entropy = 0;
  for (uint64_t count : counts) {
    if (count == 0) continue;
    const double share = static_cast<double>(count) / static_cast<double>(bytes_.size());
    entropy -= share * std::log(share);
  }
  return entropy;
}

Batch Corpus::MicroBatch(uint64_t seed, uint64_t index, size_t batch, size_t context) const {
  Batch out;
  out.tokens.resize(batch * context);
  out.targets.resize(batch * context);
  uint64_t state = seed;
  state = SplitMix64(state) ^ (index * 0xD1342543DE82EF95);
  for (size_t b = 0; b < batch; ++b) {
    const uint8_t* from = bytes_.data() + SplitMix64(state) % (bytes_.size() - context);
    std::copy(from, from + context, out.tokens.data() + b * context);
    std::copy(from + 1, from + 1 + context, out.targets.data() + b * context);
  }
  return out;
}

std::variant<Corpus, std::string> LoadCorpus(const std::string& path, size_t context) {
  if (!path.empty()) return Read(path, context);
  for (const char* text : kSystemTexts) {
    auto corpus = Read(text, context);
    if (std::holds_alternative<Corpus>(corpus)) return corpus;
  }
  return std::string("no text was found on this system; give one with --data FILE");
}

}  // namespace poolscope::trainer
