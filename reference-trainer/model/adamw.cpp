#include "reference-trainer/model/adamw.h"

#include <algorithm>
#include <cmath>

namespace poolscope::trainer {
namespace {

constexpr double kWarmUpUpdates = 10;

}  // namespace

AdamW::AdamW(const Parameters& parameters, const Ranges& ranges, Rates rates) : rates_(rates) {
  std::vector<float> all(parameters.size(), 0), gathered;
  for (const Tensor& tensor : parameters.tensors()) {
    if (tensor.matrix) {
      std::fill_n(all.begin() + static_cast<std::ptrdiff_t>(tensor.offset), tensor.size, 1.0F);
    }
  }
  const auto decays = Gather(all, ranges, gathered);
  decays_.assign(decays.begin(), decays.end());
}

void AdamW::Update(const Slice& slice, double scale, uint64_t update, double factor) const {
  const auto count = static_cast<double>(update);
  const double rate = rates_.learning_rate * factor * std::min(1.0, count / kWarmUpUpdates);
  const auto beta1 = static_cast<float>(rates_.beta1), beta2 = static_cast<float>(rates_.beta2);
  const auto correction1 = static_cast<float>(1 / (1 - std::pow(rates_.beta1, count)));
  const auto correction2 = static_cast<float>(1 / (1 - std::pow(rates_.beta2, count)));
  const auto step = static_cast<float>(rate), epsilon = static_cast<float>(rates_.epsilon);
  const auto decay = static_cast<float>(rate * rates_.weight_decay);
  const auto mean = static_cast<float>(scale);
  const size_t size = slice.values.size();
  float* const values = slice.values.data();
  float* const first = slice.first.data();
  float* const second = slice.second.data();
  const float* const sum = slice.gradient_sum.data();
  const float* const decays = decays_.data() + slice.begin;
  for (size_t i = 0; i < size; ++i) {
    const float gradient = sum[i] * mean;
    first[i] = beta1 * first[i] + (1 - beta1) * gradient;
    second[i] = beta2 * second[i] + (1 - beta2) * gradient * gradient;
    const float change = first[i] * correction1 / (std::sqrt(second[i] * correction2) + epsilon);
    values[i] -= step * change + decay * decays[i] * values[i];
  }
}

}  // namespace poolscope::trainer
