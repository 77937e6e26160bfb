#include "reference-trainer/weight_blocks.h"

#include <algorithm>

namespace poolscope::trainer {

WeightBlocks::WeightBlocks(const GptShape& shape, const std::vector<Ranges>& shards,
                           uint64_t bytes) {
  const Parameters parameters(shape);
  const double bytes_each = static_cast<double>(bytes) / static_cast<double>(parameters.size());
  for (const ParameterGroup& group : parameters.groups()) {
    std::vector<size_t>& own = by_group_.emplace_back();
    group_names_.push_back(group.name);
    for (size_t owner = 0; owner < shards.size(); ++owner) {
      WeightBlock block{by_group_.size() - 1, owner, {}, {}, 0};
      size_t offset = 0;  // of the part in the owner's values
      for (const Part& part : shards[owner]) {
        const size_t begin = std::max(part.begin, group.begin);
        const size_t end = std::min(part.end, group.end);
        if (begin < end) {
          block.ranges.push_back({begin, end});
          block.in_shard.push_back({offset + begin - part.begin, offset + end - part.begin});
        }
        offset += part.size();
      }
      if (block.ranges.empty()) continue;
      block.raw_bytes =
          static_cast<uint64_t>(static_cast<double>(SizeOf(block.ranges)) * bytes_each);
      own.push_back(blocks_.size());
      blocks_.push_back(std::move(block));
    }
  }
}

}  // namespace poolscope::trainer
