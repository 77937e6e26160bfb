#pragma once

#include <optional>
#include <span>
#include <vector>

#include "store/store.h"

// What a chunk's row says without decoding its events.
//
//   names   = n {name category events total_ns}                 varints, by first appearance
//   buckets = kSummaryBuckets x covered byte, then kSummaryBuckets x varint name;
//             empty for marks and counters
namespace poolscope {

struct ChunkDigest {
  int64_t first_ns = 0;  // smallest start
  int64_t last_ns = 0;   // largest end
  int64_t busy_ns = 0;   // union of the ranges, which is that of the outermost ones
  uint32_t max_depth = 0;
  std::optional<double> min_value, max_value;  // counters only, of the values that are numbers
  std::vector<Store::NameTotal> names;
  std::vector<Store::SummaryBucket> buckets;  // of ranges only
};

ChunkDigest Summarize(const EventBatch& batch);

std::vector<uint8_t> EncodeNames(const std::vector<Store::NameTotal>& names);
std::vector<uint8_t> EncodeBuckets(const std::vector<Store::SummaryBucket>& buckets);
Result<std::vector<Store::NameTotal>> DecodeNames(std::span<const uint8_t> bytes);
Result<std::vector<Store::SummaryBucket>> DecodeBuckets(std::span<const uint8_t> bytes);

}  // namespace poolscope
