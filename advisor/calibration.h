#pragma once

#include <string>
#include <vector>

#include "advisor/event_records.h"
#include "advisor/link_fit.h"
#include "advisor/model.h"
#include "advisor/run_data.h"
#include "trace/result.h"

namespace poolscope {

struct Calibrated {
  Model model;
  LinkFit gradients_fit, weights_fit;
  std::vector<std::string> assumed;  // what did not come from the run
};

// The model of the run, from its settings and its records in [begin_ns, end_ns). Error: the run is
// not one that the what-if knows (two pools, a link each way), or lacks what identifies it.
Result<Calibrated> Calibrate(const RunData& run, const EventRecords& records, int64_t begin_ns,
                             int64_t end_ns);

// Indices in RunData of the two pools and links; Error as above.
struct Roles {
  int compute = -1, update = -1, gradients = -1, weights = -1;
};
Result<Roles> FindRoles(const RunData& run);

// Stretches of time, in order, apart from each other.
using Stretches = std::vector<std::pair<int64_t, int64_t>>;
int64_t Overlap(const Stretches& stretches, int64_t begin_ns, int64_t end_ns);

// What the records show of a pool within the stretches: shares of its workers' time.
struct MeasuredStates {
  double busy = 0, blocked_link = 0, wait_link = 0, wait_credit = 0;
};
MeasuredStates MeasureStates(const EventRecords& records, int pool, const Stretches& stretches);

// How much of a core the work ranges that tell their CPU time got, and how many ran at once.
struct CoreShare {
  double share = 1;  // thread CPU time / wall time
  double at_once = 0;
};
CoreShare MeasureCoreShare(const EventRecords& records, const Stretches& stretches);

// "; operations got only 62 % of a core; the machine was shared" where they were short of cores
// though the job's own operations had enough, else "; ... 4.0 of them ran at once on 2 cores".
// "" on a device other than cpu, or where nothing was short.
std::string ShortOfCores(const RunData& run, const CoreShare& cores);

}  // namespace poolscope
