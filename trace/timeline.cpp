#include <algorithm>
#include <array>

#include "trace/clock.h"

namespace poolscope {
namespace {

constexpr size_t kSlopeSegments = 9;
constexpr size_t kMaxTriples = 4096;  // more: every second one of the older half goes

double Slope(const ClockTriple& a, const ClockTriple& b) {
  return static_cast<double>(b.monotonic_ns - a.monotonic_ns) /
         static_cast<double>(b.ticks - a.ticks);
}

// `base` + `ns`, within +-2^62: the ticks and triples of a session are hostile input.
int64_t Near(int64_t base, double ns) {
  constexpr int64_t kMost = int64_t{1} << 62;
  const auto added =
      static_cast<int64_t>(std::clamp(ns, -static_cast<double>(kMost), static_cast<double>(kMost)));
  return std::clamp(std::clamp(base, -kMost, kMost) + added, -kMost, kMost);
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
    return Near(after->monotonic_ns, -back);
  }
  const ClockTriple& base = *std::prev(after);
  const double slope = after == triples_.end() ? back_slope_ : Slope(base, *after);
  return Near(base.monotonic_ns, static_cast<double>(ticks - base.ticks) * slope);
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
