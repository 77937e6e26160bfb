#include "reference-trainer/model/adamw.h"

#include <algorithm>
#include <cmath>

namespace poolscope::trainer {
namespace {

constexpr double kWarmUpUpdates = 10;

}  // namespace

AdamW::AdamW(const Parameters& parameters, const Ranges& ranges, Rates rates)
    : rates_(rates), first_(SizeOf(ranges), 0), second_(SizeOf(ranges), 0) {
  std::vector<float> all(parameters.size(), 0), gathered;
  for (const Tensor& tensor : parameters.tensors()) {
    if (tensor.matrix) {
      std::fill_n(all.begin() + static_cast<std::ptrdiff_t>(tensor.offset), tensor.size, 1.0F);
    }
  }
  const auto decays = Gather(all, ranges, gathered);
  decays_.assign(decays.begin(), decays.end());
}

void AdamW::Update(std::span<float> values, std::span<const float> gradient_sum, double scale) {
  ++updates_;
  const auto count = static_cast<double>(updates_);
  const double rate = rates_.learning_rate * std::min(1.0, count / kWarmUpUpdates);
  const auto beta1 = static_cast<float>(rates_.beta1), beta2 = static_cast<float>(rates_.beta2);
  const auto correction1 = static_cast<float>(1 / (1 - std::pow(rates_.beta1, count)));
  const auto correction2 = static_cast<float>(1 / (1 - std::pow(rates_.beta2, count)));
  const auto step = static_cast<float>(rate), epsilon = static_cast<float>(rates_.epsilon);
  const auto decay = static_cast<float>(rate * rates_.weight_decay);
  const auto mean = static_cast<float>(scale);
  for (size_t i = 0; i < values.size(); ++i) {
    const float gradient = gradient_sum[i] * mean;
    first_[i] = beta1 * first_[i] + (1 - beta1) * gradient;
    second_[i] = beta2 * second_[i] + (1 - beta2) * gradient * gradient;
    const float change = first_[i] * correction1 / (std::sqrt(second_[i] * correction2) + epsilon);
    values[i] -= step * change + decay * decays_[i] * values[i];
  }
}

}  // namespace poolscope::trainer
