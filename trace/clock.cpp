#include "trace/clock.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <array>

namespace poolscope {
namespace {

constexpr size_t kSlopeSegments = 9;
constexpr size_t kMaxTriples = 4096;  // more: every second one of the older half goes

bool KernelTrustsTsc() {
  const int fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource",
                      O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  char text[32] = {};
  const ssize_t got = read(fd, text, sizeof(text) - 1);
  close(fd);
  return got >= 3 && strncmp(text, "tsc", 3) == 0 && (text[3] == '\n' || text[3] == '\0');
}

bool TscIsInvariant() {
#if defined(__x86_64__)
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(0x80000007, &eax, &ebx, &ecx, &edx) != 0 && (edx & (1u << 8)) != 0;
#else
  return false;
#endif
}

int64_t RealtimeNs() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

double Slope(const ClockTriple& a, const ClockTriple& b) {
  return static_cast<double>(b.monotonic_ns - a.monotonic_ns) /
         static_cast<double>(b.ticks - a.ticks);
}

// The median slope of up to kSlopeSegments segments that follow triples[first].
double MedianSlope(const std::vector<ClockTriple>& triples, size_t first) {
  std::array<double, kSlopeSegments> slopes;
  size_t count = 0;
  for (size_t i = first; i + 1 < triples.size() && count < kSlopeSegments; ++i) {
    slopes[count++] = Slope(triples[i], triples[i + 1]);
  }
  if (count < 3) {  // of one or two take the longest baseline: the least noise
    return count == 0 ? 1 : Slope(triples[first], triples[first + count]);
  }
  std::nth_element(slopes.begin(), slopes.begin() + count / 2, slopes.begin() + count);
  return slopes[count / 2];
}

}  // namespace

ClockKind TrustedClock() {
  const char* forced = getenv("POOLSCOPE_CLOCK");
  if (forced != nullptr && strcmp(forced, "monotonic") == 0) return ClockKind::kMonotonic;
  return TscIsInvariant() && KernelTrustsTsc() ? ClockKind::kTsc : ClockKind::kMonotonic;
}

ClockTriple TakeTriple(ClockKind kind) {
  ClockTriple best = {};
  uint64_t best_width = ~uint64_t{0};
  for (int attempt = 0; attempt < 5; ++attempt) {
    const uint64_t before = ReadTicks(kind);
    const int64_t monotonic = MonotonicNs();
    const uint64_t middle = ReadTicks(kind);
    const int64_t realtime = RealtimeNs();
    const uint64_t after = ReadTicks(kind);
    if (after - before >= best_width) continue;
    best_width = after - before;
    best = {before + (middle - before) / 2, monotonic, realtime};
    if (kind == ClockKind::kMonotonic) best.ticks = static_cast<uint64_t>(monotonic);
  }
  return best;
}

void Timeline::Add(const ClockTriple& triple) {
  const auto same = std::lower_bound(
      triples_.begin(), triples_.end(), triple,
      [](const ClockTriple& a, const ClockTriple& b) { return a.ticks < b.ticks; });
  if (same != triples_.end() && same->ticks == triple.ticks &&
      same->monotonic_ns == triple.monotonic_ns) {
    return;
  }
  // What the new triple contradicts lies next to its place: later ones with fewer ticks and the
  // reverse. The later in monotonic time stays.
  auto at = same;
  while (at != triples_.end() && at->monotonic_ns <= triple.monotonic_ns) at = triples_.erase(at);
  if (at != triples_.end() && at->ticks == triple.ticks) return;
  if (at != triples_.begin() && std::prev(at)->monotonic_ns >= triple.monotonic_ns) return;
  triples_.insert(at, triple);
  if (triples_.size() > kMaxTriples) Thin();
  front_slope_ = MedianSlope(triples_, 0);
  back_slope_ = MedianSlope(
      triples_, triples_.size() > kSlopeSegments ? triples_.size() - 1 - kSlopeSegments : 0);
}

int64_t Timeline::ToMonotonic(uint64_t ticks) const {
  if (triples_.empty()) return static_cast<int64_t>(ticks);
  const auto after = std::lower_bound(
      triples_.begin(), triples_.end(), ticks,
      [](const ClockTriple& triple, uint64_t value) { return triple.ticks < value; });
  if (after == triples_.begin()) {
    const double back = static_cast<double>(after->ticks - ticks) * front_slope_;
    return after->monotonic_ns - static_cast<int64_t>(back);
  }
  const ClockTriple& base = *std::prev(after);
  const double slope = after == triples_.end() ? back_slope_ : Slope(base, *after);
  return base.monotonic_ns + static_cast<int64_t>(static_cast<double>(ticks - base.ticks) * slope);
}

void Timeline::Thin() {
  const size_t half = triples_.size() / 2;
  size_t kept = 1;
  for (size_t i = 1; i < triples_.size(); ++i) {
    if (i < half && i % 2 == 1) continue;
    triples_[kept++] = triples_[i];
  }
  triples_.resize(kept);
}

}  // namespace poolscope
