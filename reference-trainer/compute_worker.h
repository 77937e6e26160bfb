#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "reference-trainer/worker.h"

namespace poolscope::trainer {

// A worker of pool compute: forward and backward, gradients out, weights in.
class ComputeWorker : public Worker {
 public:
  ComputeWorker(Job& job, size_t index);

  void Probe() override;
  void Run() override;

 private:
  void RunSync();
  void RunAsync();
  // Waits until a micro-batch may be started; none: the run is over and all weights are here.
  std::optional<Admission::Attempt> NextAttempt();
  // One message per shard with the replica's gradient sum; `header` holds what they share.
  void SendGradients(const Message& header);
  // Takes all weights that have arrived and installs the newest of each shard. The others are only
  // decoded, and that only where the codec needs every message.
  void InstallArrived(OpenWait& wait);
  void Install(MessagePtr message);
  uint64_t HeldVersion() const;

  const std::unique_ptr<Replica> replica_;  // null where nothing is computed
  std::vector<uint64_t> held_;              // version of each shard's weights
};

}  // namespace poolscope::trainer
