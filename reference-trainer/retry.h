#pragma once

#include <algorithm>
#include <cstdint>

namespace poolscope::trainer {

// How long to wait for the answer to one try, and how many tries to make.
struct Patience {
  int64_t timeout_ns = 10'000'000;  // after the first try; each later one waits twice as long
  uint32_t limit = 10;              // tries
};

// The tries of something that may get lost on its way or on the way back: when the next one is due,
// and whether there is one left. Nothing here waits; times are of the caller's clock.
class Retry {
 public:
  explicit Retry(const Patience& patience) : patience_(patience) {}

  // A try is made, by `now_ns` at the latest.
  void Tried(int64_t now_ns) {
    constexpr uint32_t kMaxDoublings = 20;
    due_ns_ = now_ns + (patience_.timeout_ns << std::min(tries_, kMaxDoublings));
    ++tries_;
  }

  uint32_t tries() const { return tries_; }
  int64_t due_ns() const { return due_ns_; }  // of the next try; INT64_MAX before the first
  bool exhausted() const { return tries_ >= patience_.limit; }

 private:
  Patience patience_;
  uint32_t tries_ = 0;
  int64_t due_ns_ = INT64_MAX;
};

}  // namespace poolscope::trainer
