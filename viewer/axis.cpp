#include "viewer/axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace poolscope {
namespace {

constexpr double kFarNs = 8e18;  // keeps every time on the axis inside int64

int64_t SaturatedAdd(int64_t a, double b) {
  const double sum = static_cast<double>(a) + b;
  if (sum >= kFarNs) return static_cast<int64_t>(kFarNs);
  if (sum <= -kFarNs) return static_cast<int64_t>(-kFarNs);
  return a + static_cast<int64_t>(b);
}

// Decimal seconds, or minutes and hours once they are needed; `decimals` of a second.
std::string ClockLabel(int64_t ns, int decimals) {
  const char* sign = ns < 0 ? "-" : "";
  const uint64_t abs_ns = ns < 0 ? 0 - static_cast<uint64_t>(ns) : static_cast<uint64_t>(ns);
  const uint64_t seconds = abs_ns / 1000000000;
  std::string rest;
  if (decimals > 0) {
    uint64_t part = abs_ns % 1000000000;
    for (int i = decimals; i < 9; ++i) part /= 10;
    rest = fmt::format(".{:0{}}", part, decimals);
  }
  if (seconds < 60) return fmt::format("{}{}{} s", sign, seconds, rest);
  if (seconds < 3600) {
    return fmt::format("{}{}:{:02}{} min", sign, seconds / 60, seconds % 60, rest);
  }
  return fmt::format("{}{}:{:02}:{:02}{} h", sign, seconds / 3600, seconds / 60 % 60, seconds % 60,
                     rest);
}

int64_t RoundStep(double at_least_ns) {
  static constexpr std::array<int64_t, 13> kSeconds = {1,   2,   5,   10,  15,   30,  60,
                                                       120, 300, 600, 900, 1800, 3600};
  double power = 1;
  while (power < 1e9) {
    for (const double mantissa : {1.0, 2.0, 5.0}) {
      if (mantissa * power >= at_least_ns) return static_cast<int64_t>(mantissa * power);
    }
    power *= 10;
  }
  for (const int64_t seconds : kSeconds) {
    if (static_cast<double>(seconds) * 1e9 >= at_least_ns) return seconds * 1000000000;
  }
  int64_t hours = 2;
  while (static_cast<double>(hours) * 3600e9 < at_least_ns) hours *= 2;
  return hours * 3600000000000;
}

int64_t FloorTo(int64_t value, int64_t step) {
  const int64_t rest = value % step;
  return value - (rest < 0 ? rest + step : rest);
}

}  // namespace

void TimeAxis::Show(int64_t begin_ns, int64_t end_ns, double width_px) {
  width_px_ = std::max(1.0, width_px);
  double span = static_cast<double>(end_ns) - static_cast<double>(begin_ns);
  if (int64_t exact; !__builtin_sub_overflow(end_ns, begin_ns, &exact)) {
    span = static_cast<double>(exact);
  }
  const double wanted = std::clamp(span, kMinSpanNs, kMaxSpanNs);
  begin_ns_ = SaturatedAdd(begin_ns, (span - wanted) / 2);
  fraction_ns_ = 0;
  ns_per_px_ = wanted / width_px_;
}

void TimeAxis::Resize(double width_px) {
  const double span = span_ns();
  width_px_ = std::max(1.0, width_px);
  ns_per_px_ = span / width_px_;
}

void TimeAxis::ZoomAt(double px, double factor) {
  const double span = std::clamp(span_ns() * factor, kMinSpanNs, kMaxSpanNs);
  const double ns_per_px = span / width_px_;
  fraction_ns_ += px * (ns_per_px_ - ns_per_px);
  ns_per_px_ = ns_per_px;
  Normalize();
}

void TimeAxis::PanBy(double px) {
  fraction_ns_ -= px * ns_per_px_;
  Normalize();
}

void TimeAxis::Normalize() {
  const double whole = std::floor(fraction_ns_);
  begin_ns_ = SaturatedAdd(begin_ns_, whole);
  fraction_ns_ -= whole;
}

double TimeAxis::ToPixel(int64_t time_ns) const {
  int64_t since = 0;
  if (__builtin_sub_overflow(time_ns, begin_ns_, &since)) {
    return (time_ns < 0 ? -kFarNs : kFarNs) / ns_per_px_;
  }
  return (static_cast<double>(since) - fraction_ns_) / ns_per_px_;
}

int64_t TimeAxis::ToTime(double px) const {
  return SaturatedAdd(begin_ns_, std::floor(fraction_ns_ + px * ns_per_px_));
}

AxisTicks TicksOf(const TimeAxis& axis, int64_t origin_ns, double min_px) {
  AxisTicks out;
  out.step_ns = RoundStep(std::max(1.0, axis.ns_per_px() * min_px));
  const int64_t begin = axis.begin_ns() - origin_ns;
  const int64_t end = axis.end_ns() - origin_ns;
  if (out.step_ns < 1000000) {
    const bool nanoseconds = out.step_ns < 1000;
    const int64_t base = FloorTo(begin, nanoseconds ? 1000 : 1000000);
    out.base_ns = origin_ns + base;
    out.base = ClockLabel(base, nanoseconds ? 6 : 3);
  }
  int decimals = 0;
  for (int64_t unit = 1000000000; unit > out.step_ns && decimals < 3; unit /= 10) ++decimals;
  for (int64_t at = FloorTo(begin, out.step_ns); at <= end; at += out.step_ns) {
    if (at < begin) continue;
    Tick tick{origin_ns + at, {}};
    if (out.base.empty()) {
      tick.label = ClockLabel(at, decimals);
    } else if (out.step_ns < 1000) {
      tick.label = fmt::format("+{} ns", origin_ns + at - out.base_ns);
    } else {
      tick.label = fmt::format("+{} µs", (origin_ns + at - out.base_ns) / 1000);
    }
    out.ticks.push_back(std::move(tick));
  }
  return out;
}

}  // namespace poolscope
