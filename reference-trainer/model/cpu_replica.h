#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reference-trainer/model/cpu_arithmetic.h"
#include "reference-trainer/model/gpt.h"
#include "reference-trainer/model/replica.h"

namespace poolscope::trainer {

class CpuReplica : public Replica, private StagedReplica {
 public:
  CpuReplica(const GptShape& shape, size_t batch, uint64_t seed);

  double Forward(const Batch& batch) override;
  void Backward() override;
  void ClearGradients() override;
  StagedReplica* staged() override { return this; }
  std::span<const float> Gradients(const Ranges& ranges) override;
  std::span<const float> values() override { return values_; }
  void Install(const Ranges& ranges, std::span<const float> values) override;

 private:
  void Begin(const Batch& batch) override;
  void ForwardStage(size_t stage) override { gpt_.ForwardStage(stage, values_); }
  void BackwardStage(size_t stage) override;
  double Loss() override { return gpt_.Loss(); }
  std::span<const uint64_t> ExpertLoad(size_t layer) const override {
    return gpt_.ExpertLoad(layer);
  }
  void Forget(const Ranges& ranges) override;

  CpuArithmetic<float> arithmetic_;
  Gpt<float> gpt_;
  const std::vector<Part> completed_;  // by each stage backward
  float weight_ = 1;                   // of the gradients of the batch
  std::vector<float> values_;          // [parameters]
  std::vector<float> micro_batch_;     // [parameters], gradients of one micro-batch
  std::vector<float> gradients_;       // [parameters], the sum
  std::vector<float> gathered_;        // a shard's gradients, where it has several ranges
};

}  // namespace poolscope::trainer
