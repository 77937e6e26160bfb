#include "reference-trainer/model/cpu_replica.h"

#include <algorithm>
#include <limits>

#include "reference-trainer/model/kernels.h"

namespace poolscope::trainer {

CpuReplica::CpuReplica(const GptShape& shape, size_t batch, uint64_t seed)
    : gpt_(shape, batch, arithmetic_),
      completed_(PartsOfStages(shape)),
      values_(InitialParameters<float>(shape, seed)),
      micro_batch_(values_.size(), 0),
      gradients_(values_.size(), 0) {}

double CpuReplica::Forward(const Batch& batch) {
  Begin(batch);
  for (size_t stage = 0; stage < gpt_.stages().size(); ++stage) ForwardStage(stage);
  return Loss();
}

void CpuReplica::Backward() {
  for (size_t stage = gpt_.stages().size(); stage-- > 0;) BackwardStage(stage);
}

void CpuReplica::Begin(const Batch& batch) {
  gpt_.Begin(batch.tokens, batch.targets);
  weight_ = batch.weight;
}

void CpuReplica::BackwardStage(size_t stage) {
  if (stage + 1 == gpt_.stages().size()) {
    std::fill(micro_batch_.begin(), micro_batch_.end(), 0.0F);
  }
  gpt_.BackwardStage(stage, values_, micro_batch_);
  const Part& part = completed_[stage];
  const std::span<float> completed = std::span(micro_batch_).subspan(part.begin, part.size());
  if (weight_ != 1) {
    for (float& each : completed) each *= weight_;
  }
  AddOnGrid(completed.size(), completed.data(), gradients_.data() + part.begin);
}

void CpuReplica::Forget(const Ranges& ranges) {
  for (const Part& part : ranges) {
    std::fill(values_.begin() + static_cast<std::ptrdiff_t>(part.begin),
              values_.begin() + static_cast<std::ptrdiff_t>(part.end),
              std::numeric_limits<float>::quiet_NaN());
  }
}

void CpuReplica::ClearGradients() { std::fill(gradients_.begin(), gradients_.end(), 0.0F); }

std::span<const float> CpuReplica::Gradients(const Ranges& ranges) {
  return Gather(gradients_, ranges, gathered_);
}

void CpuReplica::Install(const Ranges& ranges, std::span<const float> values) {
  Scatter(values, ranges, values_);
}

}  // namespace poolscope::trainer
