#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reference-trainer/model/adamw.h"
#include "reference-trainer/model/parameters.h"

namespace poolscope::trainer {

// Part `index` of `count` of [0, total), as evenly as it goes.
struct Part {
  size_t begin = 0;
  size_t end = 0;
};
Part PartOf(size_t total, size_t index, size_t count);

// An update worker's part of the model: master weights, optimizer state, sum of gradients.
class Shard {
 public:
  Shard(const GptShape& shape, size_t index, size_t count, uint64_t seed, AdamW::Rates rates);

  size_t offset() const { return part_.begin; }
  std::span<const float> values() const { return values_; }

  // gradients[size of the shard].
  void Add(std::span<const float> gradients);
  // One AdamW update with the sum × scale, which it clears. Returns the squared norm of that.
  double Update(double scale);

 private:
  const Part part_;
  std::vector<float> values_;  // [size of the shard]
  std::vector<float> sum_;     // [size of the shard]
  AdamW optimizer_;
};

}  // namespace poolscope::trainer
