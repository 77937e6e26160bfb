#pragma once

#include <string>
#include <vector>

#include "reference-trainer/model/optimizer_state.h"
#include "reference-trainer/model/shard_layout.h"

namespace CLI {
class App;
}

namespace poolscope::trainer {

struct Options;

// The optimizer's state: who has it, and where.
struct StateOptions {
  ShardLayout layout = ShardLayout::kFlat;
  OffloadOptions offload;
};

void AddStateOptions(CLI::App& app, StateOptions& state);
// What is wrong with them, or "".
std::string CheckState(const CLI::App& app, const Options& options);

// The state of each update worker; of the only worker where the run is monolithic. On emulated
// devices that of a model of --weight-bytes.
std::vector<StateSizes> StateOfWorkers(const Options& options);
// The share of the whole model that each of them has.
std::vector<double> SharesOfWorkers(const Options& options);

}  // namespace poolscope::trainer
