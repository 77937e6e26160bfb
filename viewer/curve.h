#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "viewer/picture.h"

namespace poolscope {

// Points of a step curve (each value holds until the next) reduced to columns. Add in order of
// time.
class CurveMaker {
 public:
  CurveMaker(int64_t column_ns, int64_t end_ns) : column_ns_(column_ns), end_ns_(end_ns) {}

  void Add(int64_t at_ns, double value) {
    if (any_) Extend(at_ns);
    if (!any_ || at_ns - open_.begin_ns >= column_ns_) {
      if (any_ && open_.end_ns > open_.begin_ns) samples_.push_back(open_);
      open_ = {at_ns, at_ns, value, value};
    }
    open_.low = std::min(open_.low, value);
    open_.high = std::max(open_.high, value);
    last_ = value;
    any_ = true;
  }

  std::vector<Sample> Finish() {
    if (any_) {
      Extend(end_ns_);
      samples_.push_back(open_);
    }
    any_ = false;
    return std::move(samples_);
  }

 private:
  // The last value holds until `to_ns`; a hold longer than a column is a sample of its own.
  void Extend(int64_t to_ns) {
    if (to_ns - open_.begin_ns >= column_ns_ && open_.low != open_.high) {
      samples_.push_back(open_);
      open_ = {open_.end_ns, open_.end_ns, last_, last_};
    }
    open_.end_ns = std::max(open_.end_ns, to_ns);
  }

  int64_t column_ns_;
  int64_t end_ns_;
  bool any_ = false;
  double last_ = 0;
  Sample open_;
  std::vector<Sample> samples_;
};

// Samples that follow one another (as window rows do) reduced to at most one a column: the lowest
// low and the highest high of each.
inline std::vector<Sample> Reduce(const std::vector<Sample>& samples, int64_t column_ns) {
  std::vector<Sample> out;
  for (const Sample& sample : samples) {
    const bool joins = !out.empty() && out.back().end_ns >= sample.begin_ns;
    const bool same = joins && out.back().low == sample.low && out.back().high == sample.high;
    if (joins && (same || sample.end_ns - out.back().begin_ns <= column_ns)) {
      Sample& last = out.back();
      last.end_ns = sample.end_ns;
      last.low = std::min(last.low, sample.low);
      last.high = std::max(last.high, sample.high);
    } else {
      out.push_back(sample);
    }
  }
  return out;
}

}  // namespace poolscope
