#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "advisor/model.h"

// A discrete-event simulation of the model: sequential workers, FIFO links of lanes that a message
// occupies for its bytes while its latency does not, a buffer per receiver whose slot is taken at
// hand-over and freed at taking, credits, versions and the stale policy. Deterministic for a seed.
namespace poolscope {

struct SimulationOptions {
  uint64_t seed = 1;
  int steps = 40;         // measured
  int warm_up_steps = 5;  // simulated before, not measured
};

// Means over the workers of a pool; they add up to 1.
struct SimulatedStates {
  double busy = 0, blocked_link = 0, wait_link = 0, wait_credit = 0, other = 0;
};

struct SimulatedLink {
  double depth = 0;      // time-weighted mean of messages in its buffers
  double wire_busy = 0;  // share of the lanes' time that they carried bytes
};

struct Simulated {
  bool finished = false;  // false: it came to a standstill, or took too many events
  double step_ns = 0;     // mean
  double median_step_ns = 0;
  double accepted = 1;  // share of micro-batches that were not discarded
  SimulatedStates compute, update;
  SimulatedLink gradients, weights;
};

Simulated Simulate(const Model& model, const SimulationOptions& options);

}  // namespace poolscope
