#pragma once

#include <cstdint>
#include <string>

namespace CLI {
class App;
}

namespace poolscope::trainer {

struct Options;

struct CheckpointOptions {
  std::string folder;  // "": none are made
  std::string resume;  // "": begin anew
  uint64_t every = 50;
  uint64_t keep = 2;
  bool full = false;            // with the replicas of the compute workers, while all wait
  double bytes_per_second = 0;  // of what they are written to, 0: as fast as it goes
};

void AddCheckpointOptions(CLI::App& app, CheckpointOptions& checkpoint);
// What is wrong with them, or "".
std::string CheckCheckpoint(const CLI::App& app, const Options& options);

// Whether checkpoints hold the error feedback of the gradients: only synchronous training is to go
// on to the bit.
bool KeepsResiduals(const Options& options);

}  // namespace poolscope::trainer
