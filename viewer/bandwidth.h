#pragma once

#include <cstdint>
#include <vector>

#include "viewer/window_columns.h"

// Bytes per second on a link's wire, from what is known of its messages.
namespace poolscope {

struct WireMessage {
  int64_t begin_ns = 0;  // of the wire stage
  int64_t end_ns = 0;
  double bytes = 0;
};

struct WireRate {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  double bytes_per_ns = 0;
};

// The rate of one lane, which carries one message after another: pieces in order of time that do
// not overlap. A message's bytes lie between the end of the one before it and its own end, where
// the two follow closely, since a busy wire that is seen late was busy all the same; else over its
// wire stage. So latency, during which others are sent, is not counted as sending. What follows
// closely is averaged over at least `kSteadyNs`: ends are seen as late as threads wake up.
inline constexpr int64_t kLateNs = 1'000'000;  // gaps that may be a thread's waking up
inline constexpr int64_t kSteadyNs = 20'000'000;
std::vector<WireRate> RatesOf(std::vector<WireMessage> lane);

// Mean rate in each of `buckets` buckets of `bucket_ns` from `first_ns` on, in bytes per second.
class BandwidthBuckets {
 public:
  BandwidthBuckets(int64_t first_ns, int64_t bucket_ns, size_t buckets)
      : first_ns_(first_ns), bucket_ns_(bucket_ns), bytes_(buckets, 0.0) {}
  void Add(const WireRate& rate);
  int64_t BeginOf(size_t bucket) const {
    return first_ns_ + static_cast<int64_t>(bucket) * bucket_ns_;
  }
  double PerSecond(size_t bucket) const {
    return bytes_[bucket] / static_cast<double>(bucket_ns_) * 1e9;
  }

 private:
  int64_t first_ns_;
  int64_t bucket_ns_;
  std::vector<double> bytes_;
};

// Bytes per second of each column, where only sums are known. A column counts what ended in it;
// what its messages need of time before its begin, on `lanes` lanes, goes to the columns before.
std::vector<double> RatesOfColumns(const std::vector<LinkColumn>& columns, int64_t lanes);

}  // namespace poolscope
