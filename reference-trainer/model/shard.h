#pragma once

#include <span>

#include "reference-trainer/model/ranges.h"

namespace poolscope::trainer {

// An update worker's part of the model: master weights, optimizer state, sum of gradients. Used by
// its worker's thread alone.
class Shard {
 public:
  virtual ~Shard() = default;

  // Adds gradients[size of the shard] to the sum.
  virtual void Add(std::span<const float> gradients) = 0;
  // One AdamW update with the sum × scale, which it clears. Returns the squared norm of that.
  virtual double Update(double scale) = 0;
  // [size of the shard], valid until the next call.
  virtual std::span<const float> values() = 0;
};

}  // namespace poolscope::trainer
