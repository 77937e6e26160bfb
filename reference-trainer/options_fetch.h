#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "reference-trainer/routing.h"

namespace CLI {
class App;
}

namespace poolscope::trainer {

struct Options;

// Who answers requests for weights: a thread of its own beside each update worker, or the update
// worker itself, whenever it waits or is between two operations.
enum class Serving { kThread, kBetween };

// Parameter fetch: compute workers hold no weights but ask for them, block by block.
struct FetchOptions {
  bool on = false;
  uint64_t prefetch_depth = 1;          // stages ahead
  uint64_t cache_blocks = 0;            // per compute worker, beside those that are needed
  uint64_t replication = 1;             // update workers that hold each block
  Routing routing = Routing::kNearest;  // among them
  Serving serving = Serving::kThread;
  double serve_bytes_per_second = 0;  // emulated; 0: takes no time
  int64_t timeout_ns = 0;             // until a request is repeated; 0: never
};

void AddFetchOptions(CLI::App& app, FetchOptions& fetch);
// What the flags need of each other: one line of error, or "".
std::string CheckFetch(const CLI::App& app, const Options& options);

}  // namespace poolscope::trainer
