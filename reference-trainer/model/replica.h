#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reference-trainer/data.h"
#include "reference-trainer/model/gpt.h"

namespace poolscope::trainer {

// A compute worker's copy of the model: all weights, the activations of one micro-batch and the
// sum of gradients over several.
class Replica {
 public:
  Replica(const GptShape& shape, size_t batch, const Corpus& corpus, uint64_t seed);

  size_t parameters() const { return values_.size(); }

  // Mean loss in nats of micro-batch `data` of the corpus.
  double Forward(uint64_t data);
  // Adds the gradients of the last Forward to the sum, each rounded to a multiple of 2⁻²⁸: sums
  // below 2⁻⁴ are then exact, in whatever order and by however many workers they are added. Without
  // this, AdamW blows up the rounding errors of gradients near zero, and the loss curves of one and
  // of several workers part.
  void Backward();
  void ClearGradients();

  std::span<const float> gradients() const { return gradients_; }  // [parameters]
  std::span<const float> values() const { return values_; }        // [parameters]
  // Installs the weights of a shard that begins at `offset`.
  void Install(size_t offset, std::span<const float> values);

 private:
  const Corpus& corpus_;
  const uint64_t seed_;
  const size_t batch_, context_;
  Gpt<float> gpt_;
  std::vector<float> values_;              // [parameters]
  std::vector<float> micro_batch_;         // [parameters], gradients of one micro-batch
  std::vector<float> gradients_;           // [parameters], the sum
  std::vector<uint8_t> tokens_, targets_;  // [batch, context]
};

}  // namespace poolscope::trainer
