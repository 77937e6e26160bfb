#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reference-trainer/model/adamw.h"
#include "reference-trainer/model/optimizer_state.h"
#include "reference-trainer/model/parameters.h"
#include "reference-trainer/model/shard.h"

namespace poolscope::trainer {

class CpuShard : public Shard {
 public:
  // Throws std::runtime_error where its state finds no place.
  CpuShard(const GptShape& shape, const Ranges& ranges, uint64_t seed, AdamW::Rates rates,
           const OffloadOptions& offload = {});

  using Shard::Update;
  void Add(std::span<const float> gradients) override;
  double Update(double scale, const RunStage& run) override;
  std::span<const float> values() override { return state_.master(); }
  State state() override { return {state_.master(), state_.first(), state_.second()}; }
  void Restore(const State& state, uint64_t updates) override;

 private:
  // The parameters [begin, end), with their weights and moments at those places. Adds to squares_.
  void UpdateSlice(size_t begin, size_t end, const AdamW::Slice& places, double scale);

  OptimizerState state_;
  std::vector<float> sum_;      // [size of the shard]
  std::vector<float> staging_;  // a block's weights and moments, where state is offloaded
  AdamW optimizer_;
  uint64_t updates_ = 0;
  double squares_ = 0;
};

}  // namespace poolscope::trainer
