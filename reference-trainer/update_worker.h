#pragma once

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "reference-trainer/block_server.h"
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
    std::vector<bool> taken;  // synchronous: by micro-batch
    double loss_sum = 0;
    uint64_t tokens = 0;
    uint64_t micro_batches = 0;
    uint64_t messages = 0;
    uint64_t lag_sum = 0;
    uint64_t lag_max = 0;
    uint64_t versions_held = 0;
  };
  struct Admitted {
    uint64_t step = 0;
    MessagePtr message;
  };

  void RunUpdates();
  // Dies where that is due: when it has reduced a fraction of the gradients of a step.
  void MayDie(const StepPlan& plan, const Gathered& gathered);
  // The same with parameter fetch.
  void RunServing();
  void Serve();  // on a thread of its own
  // Answers requests for weights, where that is done between operations.
  void ServeBetween(OpenWait& wait);
  // The values of `version` are there for those who ask.
  void Publish(uint64_t version);
  // The next message to reduce, or null where none of those admitted is it. Synchronous: that with
  // the first micro-batch not taken yet, so that the sum does not depend on who was first.
  MessagePtr Next(uint64_t step, const Gathered& gathered);
  // Waits until a message arrives, or a decision on one that has.
  void Await(Gathered& gathered);
  // The gradients that the message completes; null: it does not.
  MessagePtr Completed(MessagePtr message);
  // Asks for a decision on every message that has none, in the order of arrival. True: there were
  // some.
  bool Sort();
  bool SortOnce();
  // Of the gradients that wait here. Under every policy but apply at most lag bound + 1.
  uint64_t VersionsHeld() const;
  void Discard(Message& message, uint64_t step);
  // What a message brings becomes part of `step`: a gradient is added, a sample learned from.
  void Reduce(Message& message, uint64_t step, Gathered& gathered);
  // The apply stage of one message of a gradient, or of its last one.
  void Add(Message& message, uint64_t step, bool last);
  void Update(const StepPlan& plan, const Gathered& gathered);
  // Begins with what the run goes on from, which compute workers get too.
  void TakeUp(const TrainingState& start);
  // To the checkpoint after `step` updates, where one is due.
  void Give(uint64_t step, bool last);
  void SendWeights(uint64_t version, const Values& values);

  const std::unique_ptr<Shard> shard_;                  // null where nothing is computed
  const std::unique_ptr<Replica> replica_;              // of a trainer that computes, else null
  std::map<uint64_t, std::vector<MessagePtr>> pieces_;  // by attempt, decoded
  std::vector<float> sum_;                              // of gradients in pieces
  std::deque<MessagePtr> undecided_;                    // arrived, not yet admitted
  std::deque<Admitted> admitted_;                       // decoded, of this step or a later one
  uint64_t tokens_ = 0;                                 // of all steps
  std::unique_ptr<BlockServer> server_;                 // null where weights are pushed
};

}  // namespace poolscope::trainer
