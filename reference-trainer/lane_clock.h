#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace poolscope::trainer {

// When the lanes of a wire that is not there carry what: each one message at a time, in the order
// of asking. One thread.
class LaneClock {
 public:
  LaneClock(size_t lanes, double bytes_per_second)
      : bytes_per_second_(bytes_per_second), free_ns_(lanes, 0) {}

  struct Turn {
    int64_t begin_ns, end_ns;
  };
  // Of a message that was handed over at `now_ns`.
  Turn Take(uint64_t bytes, int64_t now_ns) {
    int64_t& lane = *std::min_element(free_ns_.begin(), free_ns_.end());
    const int64_t begin = std::max(now_ns, lane);
    lane = begin + static_cast<int64_t>(static_cast<double>(bytes) * 1e9 / bytes_per_second_);
    return {begin, lane};
  }

 private:
  const double bytes_per_second_;
  std::vector<int64_t> free_ns_;
};

}  // namespace poolscope::trainer
