#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reference-trainer/data.h"
#include "reference-trainer/model/cpu_arithmetic.h"
#include "reference-trainer/model/gpt.h"
#include "reference-trainer/model/replica.h"

namespace poolscope::trainer {

class CpuReplica : public Replica {
 public:
  // `corpus` outlives the replica.
  CpuReplica(const GptShape& shape, size_t batch, const Corpus& corpus, uint64_t seed);

  double Forward(uint64_t data) override;
  void Backward() override;
  void ClearGradients() override;
  std::span<const float> Gradients(const Ranges& ranges) override;
  void Install(const Ranges& ranges, std::span<const float> values) override;

 private:
  const Corpus& corpus_;
  const uint64_t seed_;
  const size_t batch_, context_;
  CpuArithmetic<float> arithmetic_;
  Gpt<float> gpt_;
  std::vector<float> values_;              // [parameters]
  std::vector<float> micro_batch_;         // [parameters], gradients of one micro-batch
  std::vector<float> gradients_;           // [parameters], the sum
  std::vector<float> gathered_;            // a shard's gradients, where it has several ranges
  std::vector<uint8_t> tokens_, targets_;  // [batch, context]
};

}  // namespace poolscope::trainer
