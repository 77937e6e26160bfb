#pragma once

#include <map>
#include <optional>
#include <string>

#include "advisor/report.h"

// What the what-if says about the changes that rules may recommend.
namespace poolscope {

// One kind of change: the best of it where that pays, else why none does ("" where not tried).
struct Option {
  std::optional<Recommendation> recommendation;
  std::string why_not;
  std::string gain_from;  // "discarded work (22.4 ms), blocked on full buffers (3.0 ms)"
  std::string no_memory;  // the smallest change left out because devices could not hold it, and why
};

// The two best changes of different kinds, made together.
struct Together {
  std::map<std::string, std::string> set;
  std::string change;
  double step_seconds = 0, low = 0, high = 0;
};

struct Advice {
  std::optional<double> replay_error;  // of step time, on steps that were not calibrated on
  std::string replay_note;             // why nothing is predicted, "" where something is
  std::string producer;                // the pool whose workers' gains options tell
  Option pool_ratio;
  std::map<std::string, Option> compression;   // by link
  std::map<std::string, Option> buffer_depth;  // by link
  std::optional<Together> together;            // where it gains more than each of the two alone
};

}  // namespace poolscope
