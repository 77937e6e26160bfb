#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "store/store.h"
#include "trace/result.h"

// The plain rows of one run that the advisor reads, at once. Small: no events.
namespace poolscope {

struct RunData {
  RunRow run;
  std::vector<ProcessRow> processes;
  std::vector<ThreadRow> threads;
  std::vector<PoolRow> pools;
  std::vector<WorkerRow> workers;
  std::vector<LinkRow> links;
  std::map<std::string, std::string> settings;
  std::vector<StepRow> steps;  // by end time
  std::vector<EventLossRow> losses;
  std::vector<OpenRangeRow> open_ranges;

  // A setting as a number; none where absent or not one.
  std::optional<double> Number(const std::string& key) const;
  std::string Text(const std::string& key, const std::string& otherwise = "") const;
  const PoolRow* Pool(const std::string& name) const;
};

Result<RunData> ReadRunData(const Store& store, const std::string& run);

// What of the run is looked at: without its first steps (warm-up: a tenth, at least one, and those
// of the setting warm_up_steps), up to its last step, and the longest stretch of that which no
// event loss covers.
struct AnalysedSpan {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  int64_t steps = 0;    // that begin and end inside
  std::string abstain;  // why no rule may conclude from it, "" where they may
  bool lossy = false;   // events are missing in all of it; figures are given all the same

  double seconds() const { return static_cast<double>(end_ns - begin_ns) * 1e-9; }
};

// `newest_only`: no more than the newest max(5 s, 3 steps), for live advice.
AnalysedSpan ChooseSpan(const RunData& run, bool newest_only);

// Seconds between the ends of consecutive steps inside the span, in order.
std::vector<double> StepSeconds(const RunData& run, const AnalysedSpan& span);

// Accepted tokens per second in the span; 0 where the job tells none.
double TokensPerSecond(const RunData& run, const AnalysedSpan& span);

// 0 where empty.
double Median(std::vector<double> values);

}  // namespace poolscope
