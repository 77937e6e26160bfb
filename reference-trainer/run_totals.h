#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reference-trainer/fetch.h"

namespace poolscope::trainer {

// How often a run went back because an update worker had died, and how many steps were made again.
struct Restarts {
  uint64_t count = 0, steps = 0;
};

// What a run adds up to beside its steps.
struct RunTotals {
  Restarts restarts;
  uint64_t side_work_slices = 0;
  Link::Traffic gradients, weights, requests, all_reduce;
  std::optional<FetchTotals> fetch;
  std::vector<uint64_t> expert_tokens;  // by expert, over all layers; empty without experts
};

// Lines to print after the last step; "" where there is nothing to say.
std::string Text(const RunTotals& totals);
// Members of the log's last JSON object, each with a comma before it.
std::string Json(const RunTotals& totals);

}  // namespace poolscope::trainer
