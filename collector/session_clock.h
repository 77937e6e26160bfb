#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "trace/clock.h"
#include "trace/session_format.h"

namespace poolscope {

// One session's ticks as times of its run.
class SessionClock {
 public:
  // `offset_ns`: of the run's timeline to CLOCK_MONOTONIC.
  explicit SessionClock(int64_t offset_ns) : offset_ns_(offset_ns) {}

  // A round begins: what the session said of its clocks, and how they stand now.
  void Begin(std::span<const ClockTriple> triples, ClockKind kind) {
    for (const ClockTriple& triple : triples) {
      if (triple.ticks <= newest_triple_) continue;
      timeline_.Add(triple);
      newest_triple_ = triple.ticks;
    }
    const ClockTriple now = TakeTriple(kind);
    timeline_.Add(now);
    now_ns_ = now.monotonic_ns + offset_ns_;
  }

  int64_t now_ns() const { return now_ns_; }                 // when the round began
  uint64_t newest_triple() const { return newest_triple_; }  // its ticks, 0: none
  int64_t Ns(uint64_t ticks) const { return timeline_.ToMonotonic(ticks) + offset_ns_; }
  int64_t FromMonotonic(uint64_t ns) const { return static_cast<int64_t>(ns) + offset_ns_; }
  // Whether a writer of good faith may have taken these ticks: not from the future, not
  // overflowing.
  bool Plausible(uint64_t ticks) const {
    return ticks < kOverflow && Ns(ticks) >= 0 && Ns(ticks) <= now_ns_ + kMaxAheadNs;
  }
  bool PlausibleMonotonic(uint64_t ns) const {
    return ns < kOverflow && FromMonotonic(ns) <= now_ns_ + kMaxAheadNs;
  }
  int64_t NsOrNow(uint64_t ticks) const { return Plausible(ticks) ? Ns(ticks) : now_ns_; }
  // What windows look at: an absurdly old begin must not open a year of them.
  int64_t Recent(int64_t ns) const { return std::max(ns, now_ns_ - kMaxAgeNs); }

 private:
  static constexpr uint64_t kOverflow = uint64_t{1} << 62;
  static constexpr int64_t kMaxAheadNs = 10'000'000'000;    // a round takes less
  static constexpr int64_t kMaxAgeNs = 86'400'000'000'000;  // a day

  const int64_t offset_ns_;
  Timeline timeline_;
  int64_t now_ns_ = 0;
  uint64_t newest_triple_ = 0;
};

}  // namespace poolscope
