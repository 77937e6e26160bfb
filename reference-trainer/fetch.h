#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "reference-trainer/hotness.h"
#include "reference-trainer/link.h"
#include "reference-trainer/options.h"
#include "reference-trainer/weight_blocks.h"

namespace poolscope::trainer {

// What a run with parameter fetch adds up to.
struct FetchCounts {
  uint64_t hits = 0;    // blocks that were there when a stage was to begin
  uint64_t misses = 0;  // that were not, or not in the version
  uint64_t asked_again = 0;
  uint64_t most_resident = 0;  // blocks at once on one compute worker
};
struct FetchTotals : FetchCounts {
  struct Server {
    uint64_t requests = 0, bytes = 0;  // answered, before encoding
  };
  struct Group {
    std::string name;
    uint64_t uses = 0;
    double score = 0;
  };
  std::vector<Server> servers;  // by update worker
  std::vector<Group> hottest;   // the hottest first, at most kShown
  static constexpr size_t kShown = 10;
};

// What the workers of a run with parameter fetch share. Any thread may call.
class Fetch {
 public:
  // `compute_workers` that may ever be there. `update_signals`, by update worker, are those of who
  // serves between operations; they outlive this.
  // `fail` gets what the link of requests could not deliver.
  Fetch(const Options& options, size_t compute_workers, const std::vector<Signal*>& update_signals,
        const std::function<void(const std::string&)>& fail);

  const WeightBlocks& blocks() const { return blocks_; }

  // Where compute worker `worker` is to ask for a block; counts the bytes as asked for until
  // Arrived.
  size_t Ask(size_t block, size_t worker);
  void Arrived(size_t block, size_t holder);

  // Update worker `server` answered with `bytes`.
  void Served(size_t server, uint64_t bytes);
  // What a compute worker did in a micro-batch; uses[groups].
  void Used(std::span<const uint64_t> uses, const FetchCounts& counts);
  FetchTotals totals();

  // Update workers answer until the last compute worker has left.
  void ComputeWorkerLeft();
  bool over();

  // By update worker, of a thread that serves: empty where none does.
  std::vector<std::unique_ptr<Signal>> server_signals;
  std::unique_ptr<Link> requests;  // compute → update
  std::unique_ptr<Link> replicas;  // update → update; null without copies

 private:
  static constexpr size_t kMostCounters = 32;  // of each kind

  // Constant after construction.
  const FetchOptions options_;
  const std::vector<Signal*> update_signals_;
  const size_t compute_workers_;
  const WeightBlocks blocks_;
  std::vector<uint64_t> hotness_counters_;                      // by group
  std::vector<std::pair<uint64_t, uint64_t>> served_counters_;  // by update worker

  std::mutex mutex_;  // also keeps the samples in the order of their values
  // Guarded by mutex_:
  std::vector<uint64_t> asked_bytes_;  // by update worker, not yet arrived
  Hotness hotness_;                    // of groups
  FetchTotals totals_;
  size_t compute_workers_left_;
};

}  // namespace poolscope::trainer
