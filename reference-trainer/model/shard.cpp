#include "reference-trainer/model/shard.h"

#include <algorithm>

namespace poolscope::trainer {

Part PartOf(size_t total, size_t index, size_t count) {
  return {total * index / count, total * (index + 1) / count};
}

Shard::Shard(const GptShape& shape, size_t index, size_t count, uint64_t seed, AdamW::Rates rates)
    : part_(PartOf(Parameters(shape).size(), index, count)),
      sum_(part_.end - part_.begin, 0),
      optimizer_(Parameters(shape), part_.begin, part_.end, rates) {
  const std::vector<float> all = InitialParameters<float>(shape, seed);
  values_.assign(all.begin() + static_cast<std::ptrdiff_t>(part_.begin),
                 all.begin() + static_cast<std::ptrdiff_t>(part_.end));
}

void Shard::Add(std::span<const float> gradients) {
  for (size_t i = 0; i < sum_.size(); ++i) sum_[i] += gradients[i];
}

double Shard::Update(double scale) {
  double squares = 0;
  for (float each : sum_) squares += static_cast<double>(each) * static_cast<double>(each);
  optimizer_.Update(values_, sum_, scale);
  std::fill(sum_.begin(), sum_.end(), 0.0F);
  return squares * scale * scale;
}

}  // namespace poolscope::trainer
