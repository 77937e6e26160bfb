#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reference-trainer/model/parameters.h"
#include "reference-trainer/model/ranges.h"

namespace poolscope::trainer {

// AdamW (Loshchilov, Hutter 2019) over the ranges of a model's flat parameters that a shard owns,
// with decay on matrices only and a linear warm-up of the learning rate over the first ten updates.
// beta1 is low because version lag acts as momentum of its own (Mitliagkas, Zhang, Hadjis, Ré
// 2016): with 0.9, lag 1 stays on the plateau of the unigram entropy.
class AdamW {
 public:
  struct Rates {
    double learning_rate = 1e-3;
    double weight_decay = 0.01;
    double beta1 = 0.5;
    double beta2 = 0.95;
    double epsilon = 1e-8;
  };

  AdamW(const Parameters& parameters, const Ranges& ranges, Rates rates);

  // values[size] −= the update for gradient_sum[size] × scale; size: that of the ranges.
  void Update(std::span<float> values, std::span<const float> gradient_sum, double scale);

 private:
  const Rates rates_;
  std::vector<float> decays_;          // [size], 0 or 1
  std::vector<float> first_, second_;  // moments, [size]
  uint64_t updates_ = 0;
};

}  // namespace poolscope::trainer
