#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace poolscope::trainer {

// What a forward pass computes on.
struct Batch {
  std::vector<uint8_t> tokens, targets;  // [batch, context] each
  float weight = 1;                      // of its gradients in a sum
};

// The text that the model learns from; every byte is a token.
class Corpus {
 public:
  Corpus(std::string name, std::vector<uint8_t> bytes)
      : name_(std::move(name)), bytes_(std::move(bytes)) {}

  const std::string& name() const { return name_; }
  size_t size() const { return bytes_.size(); }
  uint32_t Checksum() const;

  // Entropy of single bytes in nats: the loss of the best model that knows no context.
  double UnigramEntropy() const;

  // Micro-batch `index` of the order that `seed` fixes: `batch` places in the text. Of each,
  // the tokens are its bytes and the targets the bytes that follow them.
  Batch MicroBatch(uint64_t seed, uint64_t index, size_t batch, size_t context) const;

 private:
  std::string name_;
  std::vector<uint8_t> bytes_;
};

// Reads `path`, or where that is "" a text of the system's own. The string is an error: unreadable,
// empty, or shorter than context + 2 bytes.
std::variant<Corpus, std::string> LoadCorpus(const std::string& path, size_t context);

// The next value of a splitmix64 sequence (Steele, Lea, Flood 2014).
uint64_t SplitMix64(uint64_t& state);

}  // namespace poolscope::trainer
