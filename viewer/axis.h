#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace poolscope {

// The mapping between time and the horizontal pixels of the timeline. Times stay int64 nanoseconds
// and only differences become doubles, so that a view of 10 ns in a run of days does not jitter.
// Pixels count from the left edge of the timeline.
class TimeAxis {
 public:
  static constexpr double kMinSpanNs = 10;
  static constexpr double kMaxSpanNs = 366.0 * 86400e9;

  TimeAxis() = default;
  TimeAxis(int64_t begin_ns, int64_t end_ns, double width_px) { Show(begin_ns, end_ns, width_px); }

  // Makes the span [begin, end] fill `width_px`; a span that is too small grows around its middle.
  void Show(int64_t begin_ns, int64_t end_ns, double width_px);
  // A new width, the same span of time.
  void Resize(double width_px);
  // Scales the span by `factor` (< 1 zooms in); the time under `px` stays where it is.
  void ZoomAt(double px, double factor);
  // Moves the picture to the right by `px`.
  void PanBy(double px);

  double ToPixel(int64_t time_ns) const;
  int64_t ToTime(double px) const;  // rounded down

  int64_t begin_ns() const { return begin_ns_; }
  int64_t end_ns() const { return ToTime(width_px_); }
  double span_ns() const { return ns_per_px_ * width_px_; }
  double ns_per_px() const { return ns_per_px_; }
  double width_px() const { return width_px_; }

 private:
  void Normalize();

  int64_t begin_ns_ = 0;
  double fraction_ns_ = 0;  // [0, 1): the left edge is at begin_ns_ + fraction_ns_
  double ns_per_px_ = 1;
  double width_px_ = 1;
};

struct Tick {
  int64_t time_ns = 0;
  std::string label;
};

// Ticks at round times since `origin_ns`, at least `min_px` apart. Below a millisecond a label is
// an offset from `base_ns`, whose own label is `base` ("12.301 s"); else `base` is empty.
struct AxisTicks {
  std::vector<Tick> ticks;
  int64_t step_ns = 0;
  int64_t base_ns = 0;
  std::string base;
};
AxisTicks TicksOf(const TimeAxis& axis, int64_t origin_ns, double min_px);

}  // namespace poolscope
