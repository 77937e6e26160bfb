#include "collector/occupancy.h"

#include <algorithm>
#include <cmath>

namespace poolscope {

void Occupancy::Add(int64_t at_ns, double share) {
  const auto place =
      std::upper_bound(samples_.begin(), samples_.end(), at_ns,
                       [](int64_t at, const Sample& other) { return at < other.at_ns; });
  samples_.insert(place, {at_ns, share});
  known_ = true;
}

int64_t Occupancy::OccupiedNs(int64_t begin_ns, int64_t end_ns) const {
  double occupied = 0;
  double share = share_;
  int64_t at = begin_ns;
  for (const Sample& sample : samples_) {
    if (sample.at_ns >= end_ns) break;
    if (sample.at_ns > at) {
      occupied += share * static_cast<double>(sample.at_ns - at);
      at = sample.at_ns;
    }
    share = sample.share;
  }
  return std::llround(occupied + share * static_cast<double>(end_ns - at));
}

void Occupancy::Forget(int64_t until_ns) {
  const auto kept = std::find_if(samples_.begin(), samples_.end(),
                                 [&](const Sample& sample) { return sample.at_ns >= until_ns; });
  if (kept != samples_.begin()) share_ = (kept - 1)->share;
  samples_.erase(samples_.begin(), kept);
}

}  // namespace poolscope
