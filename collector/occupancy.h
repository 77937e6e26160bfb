#pragma once

#include <cstdint>
#include <vector>

namespace poolscope {

// Which share of its capacity one worker uses over time: all of it until a sample says otherwise.
class Occupancy {
 public:
  // From `at_ns` on. Samples come in any order; one of the past counts from the present on.
  void Add(int64_t at_ns, double share);

  // The part of [begin_ns, end_ns), not before the present, that the shares make of it.
  int64_t OccupiedNs(int64_t begin_ns, int64_t end_ns) const;

  // Whether any was ever told.
  bool known() const { return known_; }

  // The present: what was before is not asked for any more.
  void Forget(int64_t until_ns);

 private:
  struct Sample {
    int64_t at_ns;
    double share;
  };
  std::vector<Sample> samples_;  // by time, from the present on
  double share_ = 1;             // at the present
  bool known_ = false;
};

}  // namespace poolscope
