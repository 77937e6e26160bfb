#pragma once

#include <cstdint>
#include <string>

namespace CLI {
class App;
}

namespace poolscope::trainer {

struct Options;

// The layout of asynchronous reinforcement learning: pool `rollout` makes sequences, pool `trainer`
// learns from them. Both are what the flags of compute and update workers say.
struct RolloutOptions {
  bool on = false;
  uint64_t slots = 8;           // sequences that a worker makes at once
  double tokens = 64;           // of a sequence, median
  double tail = 0;              // sigma of the logarithm of that number
  double token_seconds = 1e-3;  // one more token for all sequences of a worker
};

void AddRolloutOptions(CLI::App& app, RolloutOptions& rollout);
// What is wrong with them beside the others: one line, or "".
std::string CheckRollout(const CLI::App& app, const Options& options);

void AnnotateRollout(const RolloutOptions& rollout);

}  // namespace poolscope::trainer
