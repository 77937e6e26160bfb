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

AdamW::Step AdamW::StepOf(double scale, uint64_t update, double factor) const {
  const auto count = static_cast<double>(update);
  const double rate = rates_.learning_rate * factor * std::min(1.0, count / kWarmUpUpdates);
  const auto narrow = [](double value) { return static_cast<float>(value); };
  return {narrow(rates_.beta1),
          narrow(rates_.beta2),
          narrow(1 / (1 - std::pow(rates_.beta1, count))),
          narrow(1 / (1 - std::pow(rates_.beta2, count))),
          narrow(rate),
          narrow(rates_.epsilon),
          narrow(rate * rates_.weight_decay),
          narrow(scale)};
}

void AdamW::Update(const Slice& slice, double scale, uint64_t update, double factor) const {
  const Step by = StepOf(scale, update, factor);
  const size_t size = slice.values.size();
  float* const values = slice.values.data();
  float* const first = slice.first.data();
  float* const second = slice.second.data();
  const float* const sum = slice.gradient_sum.data();
  const float* const decays = decays_.data() + slice.begin;
  for (size_t i = 0; i < size; ++i) {
    const float gradient = sum[i] * by.mean;
    first[i] = by.beta1 * first[i] + (1 - by.beta1) * gradient;
    second[i] = by.beta2 * second[i] + (1 - by.beta2) * gradient * gradient;
    const float change =
        first[i] * by.correction1 / (std::sqrt(second[i] * by.correction2) + by.epsilon);
    values[i] -= by.rate * change + by.decay * decays[i] * values[i];
  }
}

}  // namespace poolscope::trainer
