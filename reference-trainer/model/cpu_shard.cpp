#include "reference-trainer/model/cpu_shard.h"

#include <algorithm>

namespace poolscope::trainer {

CpuShard::CpuShard(const GptShape& shape, const Ranges& ranges, uint64_t seed, AdamW::Rates rates)
    : sum_(SizeOf(ranges), 0), optimizer_(Parameters(shape), ranges, rates) {
  const std::vector<float> all = InitialParameters<float>(shape, seed);
  std::vector<float> gathered;
  const auto values = Gather(all, ranges, gathered);
  values_.assign(values.begin(), values.end());
}

void CpuShard::Add(std::span<const float> gradients) {
  for (size_t i = 0; i < sum_.size(); ++i) sum_[i] += gradients[i];
}

double CpuShard::Update(double scale) {
  double squares = 0;
  for (float each : sum_) squares += static_cast<double>(each) * static_cast<double>(each);
  optimizer_.Update(values_, sum_, scale);
  std::fill(sum_.begin(), sum_.end(), 0.0F);
  return squares * scale * scale;
}

}  // namespace poolscope::trainer
