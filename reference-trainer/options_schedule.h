#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reference-trainer/membership.h"

namespace CLI {
class App;
}

namespace poolscope::trainer {

struct Options;

// How steps are planned, and which compute workers come, leave and die.
struct ScheduleOptions {
  uint64_t warm_up_steps = 0;
  double warm_up_rate = 0.1;  // factor of the learning rate at step 0
  bool adaptive_updates = false;
  uint64_t adaptive_min = 0, adaptive_max = 0;  // as given; 0: not
  bool dynamic_batch = false;
  std::vector<Arrival> joins;
  std::vector<Departure> leaves;
  std::vector<Departure> kills, update_kills;  // of compute and of update workers
  double lease_seconds = 1;

  // Whether a worker may go with work that it has begun.
  bool DepartsInMidStep() const;
  // Bounds of the micro-batches of a step that starts with so many.
  uint64_t AdaptiveMin(uint64_t micro_batches) const;
  uint64_t AdaptiveMax(uint64_t micro_batches) const;
};

void AddScheduleOptions(CLI::App& app, ScheduleOptions& schedule);

// What the flags need of each other and of the others: one line of error, or "". `app` is parsed.
std::string CheckSchedule(const CLI::App& app, const Options& options);

}  // namespace poolscope::trainer
