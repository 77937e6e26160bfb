#include <algorithm>

#include "advisor/calibration.h"

namespace poolscope {

int64_t Overlap(const Stretches& stretches, int64_t begin_ns, int64_t end_ns) {
  int64_t sum = 0;
  auto at = std::lower_bound(stretches.begin(), stretches.end(), begin_ns,
                             [](const auto& stretch, int64_t ns) { return stretch.second <= ns; });
  for (; at != stretches.end() && at->first < end_ns; ++at) {
    sum += std::min(at->second, end_ns) - std::max(at->first, begin_ns);
  }
  return std::max<int64_t>(0, sum);
}

MeasuredStates MeasureStates(const EventRecords& records, int pool, const Stretches& stretches) {
  MeasuredStates states;
  double wall = 0;
  for (const auto& worker : records.own[static_cast<size_t>(pool)]) {
    for (const auto& [begin, end] : stretches) wall += static_cast<double>(end - begin);
    for (const OwnRange& range : worker) {
      const auto add = static_cast<double>(Overlap(stretches, range.start_ns, range.end_ns));
      switch (static_cast<Category>(range.category)) {
        case Category::kWork:
          states.busy += add;
          break;
        case Category::kBlockedLink:
          states.blocked_link += add;
          break;
        case Category::kWaitLink:
          states.wait_link += add;
          break;
        case Category::kWaitCredit:
          states.wait_credit += add;
          break;
        default:
          break;
      }
    }
  }
  if (wall <= 0) return {};
  for (double* share :
       {&states.busy, &states.blocked_link, &states.wait_link, &states.wait_credit}) {
    *share /= wall;
  }
  return states;
}

}  // namespace poolscope
