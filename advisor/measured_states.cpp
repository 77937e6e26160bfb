#include <fmt/format.h>

#include <algorithm>

#include "advisor/calibration.h"

namespace poolscope {

namespace {

constexpr double kShort = 0.9;  // of what the cores could have given

}  // namespace

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

CoreShare MeasureCoreShare(const EventRecords& records, const Stretches& stretches) {
  double cpu = 0;
  double work = 0;
  double wall = 0;
  for (const auto& [begin, end] : stretches) wall += static_cast<double>(end - begin);
  for (const WorkRecord& record : records.work) {
    if (record.cpu_ns < 0 || record.end_ns <= record.start_ns) continue;
    const auto inside = static_cast<double>(Overlap(stretches, record.start_ns, record.end_ns));
    work += inside;
    cpu += inside * static_cast<double>(record.cpu_ns) /
           static_cast<double>(record.end_ns - record.start_ns);
  }
  if (work <= 0 || wall <= 0) return {};
  return {cpu / work, work / wall};
}

std::string ShortOfCores(const RunData& run, const CoreShare& cores) {
  if (run.Text("device") != "cpu" || cores.share >= kShort) return "";
  const std::string got =
      fmt::format("; operations got only {:.0f} % of a core", cores.share * 100);
  const double machine = run.Number("cores").value_or(0);
  // Not told: nobody knows who took them.
  if (machine <= 0) return got;
  const double possible = std::min(1.0, machine / std::max(1.0, cores.at_once));
  if (cores.share < kShort * possible) return got + "; the machine was shared";
  return got + fmt::format("; {:.1f} of them ran at once on {:.0f} cores", cores.at_once, machine);
}

}  // namespace poolscope
