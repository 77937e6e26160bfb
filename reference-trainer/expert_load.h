#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

namespace poolscope::trainer {

// Tokens that each expert has got, over all layers and workers since the start; exported as the
// counters "experts.<e>.tokens". Any thread may call.
class ExpertLoad {
 public:
  explicit ExpertLoad(size_t experts);

  // A layer of a micro-batch sent load[e] tokens to expert e.
  void Add(std::span<const uint64_t> load);
  std::vector<uint64_t> tokens();

 private:
  std::vector<uint64_t> counters_;  // constant after construction
  std::mutex mutex_;                // also keeps the samples in the order of their values
  std::vector<uint64_t> tokens_;    // guarded by mutex_
};

}  // namespace poolscope::trainer
