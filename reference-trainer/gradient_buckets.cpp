#include "reference-trainer/gradient_buckets.h"

#include <algorithm>

#include "reference-trainer/model/stages.h"

namespace poolscope::trainer {
namespace {

// What of a shard lies in `bucket`, as a part of the shard and of all parameters.
GradientBuckets::Piece Within(const Ranges& shard, const Part& bucket) {
  GradientBuckets::Piece piece;
  size_t before = 0;  // of the shard's values
  for (const Part& range : shard) {
    const Part common{std::max(range.begin, bucket.begin), std::min(range.end, bucket.end)};
    if (common.begin < common.end) {
      if (piece.ranges.empty()) piece.part.begin = before + common.begin - range.begin;
      piece.ranges.push_back(common);
    }
    before += range.size();
  }
  piece.part.end = piece.part.begin + SizeOf(piece.ranges);
  return piece;
}

}  // namespace

GradientBuckets::GradientBuckets(uint64_t count, const GptShape& shape,
                                 const std::vector<Ranges>& shards,
                                 const std::vector<uint64_t>& bytes)
    : buckets_(count), pieces_(shards.size()) {
  size_t parameters = 0;
  for (const Ranges& each : shards) parameters += SizeOf(each);
  const std::vector<Part> stages = PartsOfStages(shape);
  for (uint64_t i = 0; i < count; ++i) {
    const Part bucket = PartOf(parameters, count - 1 - i, count);
    const auto after =
        std::upper_bound(stages.begin(), stages.end(), bucket.begin,
                         [](size_t at, const Part& each) { return at < each.begin; });
    buckets_[i].last_stage = static_cast<size_t>(after - stages.begin()) - 1;
    for (size_t shard = 0; shard < shards.size(); ++shard) {
      Piece piece = Within(shards[shard], bucket);
      if (parameters > 0 && piece.part.size() == 0) continue;
      piece.shard = shard;
      piece.number = pieces_[shard].size();
      const size_t size = SizeOf(shards[shard]);
      piece.bytes = parameters == 0 ? PartOf(bytes[shard], count - 1 - i, count).size()
                                    : bytes[shard] * piece.part.end / size -
                                          bytes[shard] * piece.part.begin / size;
      pieces_[shard].push_back(piece);
      buckets_[i].pieces.push_back(std::move(piece));
    }
  }
}

}  // namespace poolscope::trainer
