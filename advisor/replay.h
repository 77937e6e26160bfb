#pragma once

#include <optional>
#include <string>
#include <vector>

#include "advisor/calibration.h"
#include "advisor/event_records.h"
#include "advisor/run_data.h"
#include "advisor/simulation.h"

// Whether the model may be believed: calibrated on the first part of the span, it must come out as
// the second part did.
namespace poolscope {

struct ReplayRow {
  std::string what;  // "compute busy"
  double measured = 0, replayed = 0;
};

struct Replay {
  std::optional<double> step_error;  // relative, absolute value
  std::vector<ReplayRow> rows;       // step seconds first, then ratios, then depths
  std::string refused;               // why nothing may be predicted, "" where it may
};

Replay ReplayHeldOut(const RunData& run, const EventRecords& records, const AnalysedSpan& span);

// What of step times is compared: the median where all steps do the same (synchronous), else the
// mean without stalls (longer than three medians).
double TypicalStep(const std::vector<double>& steps, bool async);
double TypicalStepNs(const Simulated& simulated, bool async);

}  // namespace poolscope
