#include "reference-trainer/model/cpu_shard.h"

#include <algorithm>

namespace poolscope::trainer {
namespace {

constexpr size_t kBlock = 1 << 16;  // parameters fetched at once: 768 KiB of state

}  // namespace

CpuShard::CpuShard(const GptShape& shape, const Ranges& ranges, uint64_t seed, AdamW::Rates rates,
                   const OffloadOptions& offload)
    : state_(SizeOf(ranges), offload),
      sum_(SizeOf(ranges), 0),
      staging_(state_.resident() < sum_.size() ? 3 * std::min(kBlock, sum_.size()) : 0),
      optimizer_(Parameters(shape), ranges, rates) {
  const std::vector<float> all = InitialParameters<float>(shape, seed);
  std::vector<float> gathered;
  const auto values = Gather(all, ranges, gathered);
  std::copy(values.begin(), values.end(), state_.master().begin());
}

void CpuShard::Add(std::span<const float> gradients) {
  for (size_t i = 0; i < sum_.size(); ++i) sum_[i] += gradients[i];
}

double CpuShard::Update(double scale, const RunStage& run) {
  ++updates_;
  squares_ = 0;
  const size_t resident = state_.resident(), size = sum_.size();
  if (resident > 0) {
    const AdamW::Slice places{0, state_.master(), state_.first(), state_.second(), {}};
    run(UpdateStage::kOptimize, resident, [&] { UpdateSlice(0, resident, places, scale); });
  }
  for (size_t begin = resident; begin < size; begin += kBlock) {
    const size_t end = std::min(begin + kBlock, size), count = end - begin;
    const std::span<float> staging(staging_);
    const std::span<float> arrays[] = {state_.master(), state_.first(), state_.second()};
    run(UpdateStage::kFetch, count, [&] {
      for (size_t i = 0; i < 3; ++i) {
        std::copy_n(arrays[i].data() + begin, count, staging.data() + i * count);
      }
    });
    const AdamW::Slice places{0, staging, staging.subspan(count), staging.subspan(2 * count), {}};
    run(UpdateStage::kOptimize, count, [&] { UpdateSlice(begin, end, places, scale); });
    run(UpdateStage::kWriteBack, count, [&] {
      for (size_t i = 0; i < 3; ++i) {
        std::copy_n(staging.data() + i * count, count, arrays[i].data() + begin);
      }
      state_.Release(begin, end);
    });
  }
  return squares_ * scale * scale;
}

void CpuShard::UpdateSlice(size_t begin, size_t end, const AdamW::Slice& places, double scale) {
  const size_t count = end - begin;
  const std::span<float> sum = std::span(sum_).subspan(begin, count);
  for (float each : sum) squares_ += static_cast<double>(each) * static_cast<double>(each);
  optimizer_.Update({begin, places.values.first(count), places.first.first(count),
                     places.second.first(count), sum},
                    scale, updates_, rate());
  std::fill(sum.begin(), sum.end(), 0.0F);
}

void CpuShard::Restore(const State& state, uint64_t updates) {
  std::copy(state.master.begin(), state.master.end(), state_.master().begin());
  std::copy(state.first.begin(), state.first.end(), state_.first().begin());
  std::copy(state.second.begin(), state.second.end(), state_.second().begin());
  std::fill(sum_.begin(), sum_.end(), 0.0F);
  updates_ = updates;
}

}  // namespace poolscope::trainer
