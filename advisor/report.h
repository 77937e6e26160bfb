#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "advisor/device_totals.h"
#include "advisor/unattributed.h"
#include "store/store.h"
#include "trace/result.h"

// The tuning report: what DESIGN section 13 calls the JSON report, as C++ values. Field names equal
// the JSON's. Ratios and shares are 0..1; times in seconds unless the name says _ns.
namespace poolscope {

struct Evidence {
  std::string text;      // one sentence with the numbers
  std::string subject;   // pool or link
  int64_t begin_ns = 0;  // where in the trace to look
  int64_t end_ns = 0;
  std::map<std::string, double> numbers;  // by name with unit last: "compute_busy_ratio"
};

// What one device of a pool would hold after a change. Bytes; 0: not known.
struct MemoryEstimate {
  std::string pool;
  double needed_bytes = 0;
  double used_bytes = 0;    // now
  double memory_bytes = 0;  // that it has
  std::string basis;        // what needed_bytes was made of
  std::string memory_from;  // who says memory_bytes, or why it is not judged
};

struct Recommendation {
  std::string kind;    // pool_ratio, buffer_depth, compression
  std::string change;  // "compute 8 -> 10, update 4 -> 2"
  std::string klass;   // lossless, reduced precision, changes training  (JSON: "class")
  std::map<std::string, std::string> set;  // knobs as what-if --set takes them
  double baseline_step_seconds = 0;        // what predicted_step_seconds is to be compared with
  double predicted_step_seconds = 0;
  double interval_low = 0;  // of predicted_step_seconds  (JSON: "interval": [low, high])
  double interval_high = 0;
  double predicted_speedup = 1;  // baseline step seconds / predicted
  double predicted_tokens_per_second = 0;
  double device_seconds_per_token = 0;
  double pays_back_after_steps = 0;
  bool extrapolated = false;           // a knob that the run never exercised
  std::vector<std::string> assumed;    // values taken from a catalogue
  std::vector<MemoryEstimate> memory;  // of pools of whose devices' memory anything is known
  std::string apply;                   // exact flags for the reference trainer
};

struct Finding {
  std::string rule;      // pool_imbalance, exposed_traffic, ...
  std::string severity;  // note, warning, critical
  std::string subject;
  std::string summary;  // one sentence
  std::vector<Evidence> evidence;
  std::optional<Recommendation> recommendation;
  std::string abstained;  // why there is no recommendation; "" where there is one
};

struct PoolReport {
  std::string name, role;
  int64_t workers = 0;
  double busy_ratio = 0;
  std::map<std::string, double> state_ratios;  // by state name, sum 1
};

struct LinkReport {
  std::string name, from, to;
  double traffic_share = 0, exposed_share = 0;
  int64_t transfers = 0, raw_bytes = 0, wire_bytes = 0;
  double depth = 0;  // time-weighted mean
  int64_t capacity = 0;
  double transfer_seconds = 0;                  // mean of queued + encode + wire + decode
  std::map<std::string, double> stage_seconds;  // mean by stage
};

struct Report {
  static constexpr const char* kSchema = "poolscope.report/1";
  std::string run, host, command;
  double duration_seconds = 0;
  int64_t start_ns = 0;           // of the run; times in the text are relative to it
  int64_t analysed_begin_ns = 0;  // what pools, links, steps and findings are about: the run
  int64_t analysed_end_ns = 0;    // without its warm-up and without event losses
  // Of the windows whose sums pools and links are: those inside it, in a short run those around it.
  int64_t windows_begin_ns = 0;
  int64_t windows_end_ns = 0;
  int64_t steps = 0;
  std::vector<PoolReport> pools;
  std::vector<LinkReport> links;
  std::vector<DeviceReport> devices;
  double version_lag_mean = 0;
  int64_t version_lag_max = 0;
  std::optional<double> step_seconds;  // median
  std::optional<double> tokens_per_second;
  std::vector<EventLossRow> event_losses;
  std::vector<OpenRangeRow> open_ranges;
  std::optional<double> replay_error;  // of step time on held-out steps
  std::string replay_note;             // why the what-if predicts nothing, where it does not
  std::vector<Finding> findings;       // by predicted gain
  std::string verdict;                 // one sentence
  Unattributed unattributed;
  std::vector<std::string> unseen;  // what was not seen or could not be attributed
};

struct ReportOptions {
  bool live = false;    // look at the newest max(5 s, 3 steps) alone, and spend less on the what-if
  bool what_if = true;  // false: findings carry no recommendation
};

// Reads `run` (prefix of its id; "" is the latest). Error: no such run, unreadable store.
Result<Report> BuildReport(const Store& store, const std::string& run,
                           const ReportOptions& options = {});

std::string ReportAsText(const Report& report);
std::string ReportAsJson(const Report& report);
std::string FindingAsJson(const Finding& finding);  // one element of findings[], on one line

}  // namespace poolscope
