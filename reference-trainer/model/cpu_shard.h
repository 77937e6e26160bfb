#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reference-trainer/model/adamw.h"
#include "reference-trainer/model/parameters.h"
#include "reference-trainer/model/shard.h"

namespace poolscope::trainer {

class CpuShard : public Shard {
 public:
  CpuShard(const GptShape& shape, const Ranges& ranges, uint64_t seed, AdamW::Rates rates);

  void Add(std::span<const float> gradients) override;
  double Update(double scale) override;
  std::span<const float> values() override { return values_; }

 private:
  std::vector<float> values_;  // [size of the shard]
  std::vector<float> sum_;     // [size of the shard]
  AdamW optimizer_;
};

}  // namespace poolscope::trainer
