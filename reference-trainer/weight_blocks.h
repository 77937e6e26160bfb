#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "reference-trainer/model/parameters.h"
#include "reference-trainer/model/ranges.h"

namespace poolscope::trainer {

// What one request for weights asks for: the part of a group of parameters that one shard owns.
struct WeightBlock {
  size_t group = 0;  // index of Parameters::groups()
  size_t owner = 0;  // update worker
  Ranges ranges;     // of all parameters
  Ranges in_shard;   // of the owner's values
  uint64_t raw_bytes = 0;
};

// All weights as blocks.
class WeightBlocks {
 public:
  // `bytes` of the whole model.
  WeightBlocks(const GptShape& shape, const std::vector<Ranges>& shards, uint64_t bytes);

  size_t size() const { return blocks_.size(); }
  const WeightBlock& operator[](size_t block) const { return blocks_[block]; }
  // The blocks of a group.
  const std::vector<size_t>& OfGroup(size_t group) const { return by_group_[group]; }
  const std::vector<std::string>& group_names() const { return group_names_; }

 private:
  std::vector<WeightBlock> blocks_;
  std::vector<std::vector<size_t>> by_group_;
  std::vector<std::string> group_names_;
};

}  // namespace poolscope::trainer
