#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "reference-trainer/worker.h"

namespace poolscope::trainer {

// A worker of pool update: reduces gradients, runs the optimizer on its shard, sends weights.
class UpdateWorker : public Worker {
 public:
  UpdateWorker(Job& job, size_t index);

  void Probe() override;
  void Run() override;

 private:
  // What a step has gathered.
  struct Gathered {
    double loss_sum = 0;
    uint64_t tokens = 0;
    uint64_t micro_batches = 0;
    uint64_t messages = 0;
    uint64_t lag_sum = 0;
    uint64_t lag_max = 0;
  };
  struct Admitted {
    uint64_t step = 0;
    MessagePtr message;
  };

  void RunSync();
  void RunAsync();
  // Asks for a decision on every message that has none, in the order of arrival.
  void Sort();
  bool SortOnce();  // whether it is worth doing again
  void Reduce(Message& message, uint64_t step, Gathered& gathered);
  void Update(uint64_t step, const Gathered& gathered);

  const std::unique_ptr<Shard> shard_;  // null where nothing is computed
  std::deque<MessagePtr> undecided_;    // asynchronous: arrived, not yet admitted
  std::deque<Admitted> admitted_;       // asynchronous: decoded, of this step or a later one
};

}  // namespace poolscope::trainer
