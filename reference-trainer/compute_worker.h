#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "reference-trainer/all_reduce.h"
#include "reference-trainer/gradient_sender.h"
#include "reference-trainer/missing_weights.h"
#include "reference-trainer/parameter_fetch.h"
#include "reference-trainer/worker.h"

namespace poolscope::trainer {

// A worker of pool compute: forward and backward, gradients out, weights in.
class ComputeWorker : public Worker {
 public:
  ComputeWorker(Job& job, size_t index);

  void Probe() override;
  void Run() override;

 protected:
  // Waits until micro-batches may be started; none: the run is over and all weights are here, or
  // the worker has left; or, where it is not `patient`, none may be started now.
  std::optional<Admission::Attempt> NextAttempt(bool patient);
  // Takes all weights that have arrived and installs the newest of each shard. The others are only
  // decoded, and that only where the codec needs every message.
  void InstallArrived(OpenWait& wait);
  uint64_t HeldVersion() const;

 private:
  // Computes them and sends their sum.
  void Compute(const Admission::Attempt& attempt);
  // One message per shard with the replica's gradient sum, or its part of those with the sum of all
  // workers; `header` holds what they share.
  void SendGradients(const MessageFields& header, const Admission::Attempt& attempt);
  // Leaves or dies where that is due: at a fraction of what it does for a step.
  void MayDepart(uint64_t step, double progress);
  // Of a bucket that is complete, to the sender.
  void GiveBucket(const MessageFields& header, const GradientBuckets::Bucket& bucket);
  void AwaitSender();
  // Not if what it holds is as new.
  void Install(MessagePtr message);
  // To the checkpoint of the weights held, where one is due and they are new.
  void Give(bool last);

  const std::unique_ptr<Replica> replica_;        // null where nothing is computed
  const std::unique_ptr<AllReduce> all_reduce_;   // null where each sends its own gradients
  const std::unique_ptr<ParameterFetch> fetch_;   // null where weights are pushed
  Signal sending_;                                // the sender's
  const std::unique_ptr<GradientSender> sender_;  // null where the worker sends
  std::vector<uint64_t> held_;                    // version of each shard's weights
  MissingWeights missing_;
  uint64_t given_;  // version of the newest that Give has looked at
};

}  // namespace poolscope::trainer
