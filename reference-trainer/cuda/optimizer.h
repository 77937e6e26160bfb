#pragma once

#include <cmath>

#include "reference-trainer/cuda/block.h"
#include "reference-trainer/model/adamw.h"

namespace poolscope::trainer::cuda {

// For Each: the update of one parameter. Twin: AdamW::Update.
struct AdamWEach {
  AdamW::Step step;
  const float *decays, *gradient_sum;
  float *values, *first, *second;
  POOLSCOPE_DEVICE void operator()(size_t i) const {
    const float gradient = gradient_sum[i] * step.mean;
    first[i] = step.beta1 * first[i] + (1 - step.beta1) * gradient;
    second[i] = step.beta2 * second[i] + (1 - step.beta2) * gradient * gradient;
    const float change =
        first[i] * step.correction1 / (std::sqrt(second[i] * step.correction2) + step.epsilon);
    values[i] -= step.rate * change + step.decay * decays[i] * values[i];
  }
};

}  // namespace poolscope::trainer::cuda
