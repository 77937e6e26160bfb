#include "reference-trainer/model/cpu_replica.h"

#include <algorithm>

#include "reference-trainer/model/kernels.h"

namespace poolscope::trainer {

CpuReplica::CpuReplica(const GptShape& shape, size_t batch, const Corpus& corpus, uint64_t seed)
    : corpus_(corpus),
      seed_(seed),
      batch_(batch),
      context_(shape.context),
      gpt_(shape, batch, arithmetic_),
      values_(InitialParameters<float>(shape, seed)),
      micro_batch_(values_.size(), 0),
      gradients_(values_.size(), 0) {}

double CpuReplica::Forward(uint64_t data) {
  corpus_.MicroBatch(seed_, data, batch_, context_, tokens_, targets_);
  gpt_.Forward(values_, tokens_, targets_);
  return gpt_.Loss();
}

void CpuReplica::Backward() {
  std::fill(micro_batch_.begin(), micro_batch_.end(), 0.0F);
  gpt_.Backward(values_, micro_batch_);
  AddOnGrid(micro_batch_.size(), micro_batch_.data(), gradients_.data());
}

void CpuReplica::ClearGradients() { std::fill(gradients_.begin(), gradients_.end(), 0.0F); }

std::span<const float> CpuReplica::Gradients(const Ranges& ranges) {
  return Gather(gradients_, ranges, gathered_);
}

void CpuReplica::Install(const Ranges& ranges, std::span<const float> values) {
  Scatter(values, ranges, values_);
}

}  // namespace poolscope::trainer
