#include "store/chunk_summary.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <unordered_map>

#include "store/varint.h"

namespace poolscope {
namespace {

// Sums that stop at the ends of the type: the events may be anything.
int64_t AddClamped(int64_t a, int64_t b) {
  int64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? (b < 0 ? INT64_MIN : INT64_MAX) : sum;
}
int64_t Length(const Event& event) { return std::max<int64_t>(event.duration_ns, 0); }
int64_t End(const Event& event) { return AddClamped(event.start_ns, Length(event)); }

// later_ns - earlier_ns, which may be more than an int64 holds.
double Distance(int64_t later_ns, int64_t earlier_ns) {
  return static_cast<double>(static_cast<uint64_t>(later_ns) - static_cast<uint64_t>(earlier_ns));
}

// Calls `piece(name index, begin, end)` for the parts of the chunk's time that ranges cover, from
// the last to the first, disjoint; where ranges overlap, the one that ends last has the time.
// Ranges come by end, so one walk backwards suffices; where they do not (start/end ranges may be
// recorded late), `order` sorts them first.
template <typename Piece>
void ForEachCovered(const EventBatch& batch, const std::vector<uint32_t>& name_of, Piece piece) {
  std::vector<uint32_t> order;
  order.reserve(batch.events.size());
  bool sorted = true;
  int64_t end_before = INT64_MIN;
  for (uint32_t i = 0; i < batch.events.size(); ++i) {
    const Event& event = batch.events[i];
    if (event.kind != EventKind::kRange) continue;
    const int64_t end = End(event);
    sorted = sorted && end >= end_before;
    end_before = end;
    order.push_back(i);
  }
  if (!sorted) {
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      return End(batch.events[a]) < End(batch.events[b]);
    });
  }
  int64_t covered_from = INT64_MAX;
  for (auto at = order.rbegin(); at != order.rend(); ++at) {
    const Event& event = batch.events[*at];
    const int64_t end = std::min(End(event), covered_from);
    if (event.start_ns >= end) continue;
    piece(name_of[*at], event.start_ns, end);
    covered_from = event.start_ns;
  }
}

// Adds up, bucket by bucket from the last to the first, what covers it and which name does most.
class BucketFiller {
 public:
  BucketFiller(int64_t first_ns, int64_t last_ns, const std::vector<Store::NameTotal>& names,
               std::vector<Store::SummaryBucket>& buckets)
      : first_ns_(first_ns),
        width_ns_(std::max(Distance(last_ns, first_ns), 1.0) / Store::kSummaryBuckets),
        names_(names),
        buckets_(buckets),
        share_(names.size(), 0) {}

  void Add(uint32_t name, int64_t begin_ns, int64_t end_ns) {
    const double begin = Distance(begin_ns, first_ns_) / width_ns_;
    double end = Distance(end_ns, first_ns_) / width_ns_;
    while (true) {
      const int bucket =
          std::clamp(static_cast<int>(std::ceil(end)) - 1, 0, Store::kSummaryBuckets - 1);
      if (bucket != bucket_) Finish(bucket);
      const double from = std::max(begin, static_cast<double>(bucket));
      if (share_[name] == 0) touched_.push_back(name);
      share_[name] += std::max(end - from, 1e-12);
      if (begin >= bucket || bucket == 0) return;
      end = bucket;
    }
  }

  void Finish(int next) {
    double covered = 0, most = 0;
    uint32_t most_name = 0;
    for (uint32_t name : touched_) {
      covered += share_[name];
      if (share_[name] > most) {
        most = share_[name];
        most_name = names_[name].name;
      }
      share_[name] = 0;
    }
    if (!touched_.empty()) {
      // Anything at all shows: only an empty bucket is 0.
      const double level = std::clamp(covered * 255 + 0.5, 1.0, 255.0);
      buckets_[bucket_] = {static_cast<uint8_t>(level), most_name};
      touched_.clear();
    }
    bucket_ = next;
  }

 private:
  int64_t first_ns_;
  double width_ns_;
  const std::vector<Store::NameTotal>& names_;
  std::vector<Store::SummaryBucket>& buckets_;
  std::vector<double> share_;  // of the current bucket, by name index
  std::vector<uint32_t> touched_;
  int bucket_ = Store::kSummaryBuckets - 1;
};

double CounterValue(const Event& event) {
  return event.flags & kEventFloat ? std::bit_cast<double>(event.value)
                                   : static_cast<double>(static_cast<int64_t>(event.value));
}

}  // namespace

ChunkDigest Summarize(const EventBatch& batch) {
  ChunkDigest summary;
  if (batch.events.empty()) return summary;
  summary.first_ns = INT64_MAX;
  summary.last_ns = INT64_MIN;

  std::unordered_map<uint64_t, uint32_t> index_of;
  std::vector<uint32_t> name_of(batch.events.size());
  uint64_t last_key = 0;
  uint32_t last_index = 0;
  for (size_t i = 0; i < batch.events.size(); ++i) {
    const Event& event = batch.events[i];
    const uint64_t key = event.name | static_cast<uint64_t>(event.category) << 32;
    if (summary.names.empty() || key != last_key) {
      const auto [found, fresh] =
          index_of.try_emplace(key, static_cast<uint32_t>(summary.names.size()));
      if (fresh) summary.names.push_back({event.name, event.category, 0, 0});
      last_key = key;
      last_index = found->second;
    }
    name_of[i] = last_index;
    Store::NameTotal& total = summary.names[last_index];
    ++total.events;
    total.total_ns = AddClamped(total.total_ns, Length(event));
    summary.first_ns = std::min(summary.first_ns, event.start_ns);
    summary.last_ns = std::max(summary.last_ns, End(event));
    summary.max_depth = std::max<uint32_t>(summary.max_depth, event.depth);
    if (event.kind == EventKind::kCounter) {
      const double value = CounterValue(event);
      if (!std::isnan(value)) {
        summary.min_value = std::min(summary.min_value.value_or(value), value);
        summary.max_value = std::max(summary.max_value.value_or(value), value);
      }
    }
  }
  if (batch.events.front().kind != EventKind::kRange) return summary;

  summary.buckets.assign(Store::kSummaryBuckets, {0, 0});
  BucketFiller filler(summary.first_ns, summary.last_ns, summary.names, summary.buckets);
  ForEachCovered(batch, name_of, [&](uint32_t name, int64_t begin, int64_t end) {
    summary.busy_ns = AddClamped(summary.busy_ns, AddClamped(end, -std::max(begin, -INT64_MAX)));
    filler.Add(name, begin, end);
  });
  filler.Finish(0);
  return summary;
}

std::vector<uint8_t> EncodeNames(const std::vector<Store::NameTotal>& names) {
  std::vector<uint8_t> bytes((1 + 4 * names.size()) * kMaxVarintBytes);
  uint8_t* at = PutVarint(bytes.data(), names.size());
  for (const auto& total : names) {
    at = PutVarint(at, total.name);
    at = PutVarint(at, total.category);
    at = PutVarint(at, static_cast<uint64_t>(total.events));
    at = PutVarint(at, static_cast<uint64_t>(total.total_ns));
  }
  bytes.resize(static_cast<size_t>(at - bytes.data()));
  return bytes;
}

Result<std::vector<Store::NameTotal>> DecodeNames(std::span<const uint8_t> bytes) {
  ByteReader reader(bytes);
  const uint64_t count = reader.Varint();
  if (count > reader.left() / 4) return Error{"damaged chunk: names"};
  std::vector<Store::NameTotal> names(count);
  for (auto& total : names) {
    total.name = static_cast<uint32_t>(reader.Varint(UINT32_MAX));
    total.category = static_cast<uint32_t>(reader.Varint(UINT32_MAX));
    total.events = static_cast<int64_t>(reader.Varint(INT64_MAX));
    total.total_ns = static_cast<int64_t>(reader.Varint(INT64_MAX));
  }
  if (!reader.ok() || !reader.done()) return Error{"damaged chunk: names"};
  return names;
}

std::vector<uint8_t> EncodeBuckets(const std::vector<Store::SummaryBucket>& buckets) {
  std::vector<uint8_t> bytes(buckets.size() * (1 + kMaxVarintBytes));
  uint8_t* at = bytes.data();
  for (const auto& bucket : buckets) *at++ = bucket.covered;
  for (const auto& bucket : buckets) at = PutVarint(at, bucket.name);
  bytes.resize(static_cast<size_t>(at - bytes.data()));
  return bytes;
}

Result<std::vector<Store::SummaryBucket>> DecodeBuckets(std::span<const uint8_t> bytes) {
  std::vector<Store::SummaryBucket> buckets;
  if (bytes.empty()) return buckets;
  ByteReader reader(bytes);
  buckets.resize(Store::kSummaryBuckets);
  for (auto& bucket : buckets) bucket.covered = reader.Byte();
  for (auto& bucket : buckets) bucket.name = static_cast<uint32_t>(reader.Varint(UINT32_MAX));
  if (!reader.ok() || !reader.done()) return Error{"damaged chunk: summary"};
  return buckets;
}

}  // namespace poolscope
