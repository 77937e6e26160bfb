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

  // All or some of the shard's parameters: those from `begin` on.
  struct Slice {
    size_t begin = 0;
    std::span<float> values, first, second;  // weights and moments, [count]
    std::span<const float> gradient_sum;     // [count]
  };
  // values −= the update for gradient_sum × scale at the learning rate × factor. `update` counts
  // updates from 1; one of a shard may be made slice by slice.
  void Update(const Slice& slice, double scale, uint64_t update, double factor = 1) const;

  // What such an update multiplies with, the same for every parameter.
  struct Step {
    float beta1, beta2, correction1, correction2, rate, epsilon, decay;
    float mean;  // the scale
  };
  Step StepOf(double scale, uint64_t update, double factor) const;
  std::span<const float> decays() const { return decays_; }

 private:
  const Rates rates_;
  std::vector<float> decays_;  // [size of the ranges], 0 or 1
};

}  // namespace poolscope::trainer
