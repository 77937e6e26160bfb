#pragma once

#include <time.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trace/session_format.h"

// The time of events. Ticks are the TSC's where the processor and the kernel both trust it, else
// nanoseconds of CLOCK_MONOTONIC. Triples of (ticks, monotonic, realtime) tie the two together.

namespace poolscope {

// kTsc when cpuid calls the TSC invariant and the kernel runs on it; POOLSCOPE_CLOCK=monotonic in
// the environment forces kMonotonic. Reads /sys: call it once.
ClockKind TrustedClock();

inline int64_t MonotonicNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// The TSC read is not ordered with surrounding instructions: a few ns, for half the cost.
inline uint64_t ReadTicks(ClockKind kind) {
#if defined(__x86_64__)
  if (kind == ClockKind::kTsc) [[likely]]
    return __builtin_ia32_rdtsc();
#endif
  return static_cast<uint64_t>(MonotonicNs());
}

// The tightest of several tries. Costs about half a microsecond.
ClockTriple TakeTriple(ClockKind kind);

// Ticks to CLOCK_MONOTONIC, piecewise linear over triples of one clock. Between two triples the
// result is exact at both and never decreases; beyond them it goes on with the median slope of the
// nearest segments, so that one jump (a paused machine) does not bend it. A reader on the same host
// that adds a TakeTriple() of its own before converting needs no extrapolation.
// With one triple the slope is 1 (kMonotonic); with none ticks come back as they are.
// Not thread-safe.
class Timeline {
 public:
  // In any order; repeats are welcome. Of two that contradict each other (more ticks at an earlier
  // time) the one with the later monotonic time stays.
  void Add(const ClockTriple& triple);

  int64_t ToMonotonic(uint64_t ticks) const;

  size_t size() const { return triples_.size(); }

 private:
  void Thin();

  std::vector<ClockTriple> triples_;  // ticks and monotonic_ns both strictly increasing
  double front_slope_ = 1;            // ns per tick before the first and after the last triple
  double back_slope_ = 1;
};

}  // namespace poolscope
