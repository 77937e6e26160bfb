#pragma once

#include <string>
#include <vector>

#include "advisor/advice.h"
#include "advisor/report.h"
#include "advisor/run_data.h"
#include "advisor/window_totals.h"

// A rule looks at the windows of the analysed span and says what it concludes. It raises a finding
// when its trigger holds, and attaches a recommendation only when the what-if says that it pays.
namespace poolscope {

struct RuleInput {
  const RunData& run;
  const AnalysedSpan& span;
  const WindowTotals& totals;
  const Advice& advice;
};

// Busy ratios of two pools differ by more than 20 points. kind: pool_ratio.
std::vector<Finding> PoolImbalance(const RuleInput& input);
// Of a link between two pools, the traffic share is above 15 %, its exposed share above 10 %, or
// its receivers waited because of it more than 25 % of their time. kind: compression.
std::vector<Finding> ExposedTraffic(const RuleInput& input);
// Senders stand blocked on a link's full buffers more than 3 % of their time. kind: buffer_depth.
std::vector<Finding> BufferTooShallow(const RuleInput& input);

// A pool's workers stand still for checkpoints or evaluation more than 5 % of their time. Without a
// recommendation: the what-if has none of it.
std::vector<Finding> CheckpointStalls(const RuleInput& input);

// All of the rules; those with a recommendation first, by predicted gain; then warnings and notes.
std::vector<Finding> RunRules(const RuleInput& input);

// Attaches what the option says: the recommendation and its severity, or why there is none.
void Conclude(Finding& finding, const RuleInput& input, const Option* option);
// The one finding of a rule that cannot judge because events are missing.
Finding Abstain(const std::string& rule, const RuleInput& input);
std::string Percent(double share);  // "62.4 %"

}  // namespace poolscope
