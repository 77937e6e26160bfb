#pragma once

#include <deque>
#include <mutex>
#include <vector>

#include "reference-trainer/worker.h"

namespace poolscope::trainer {

// The half of an update worker that answers requests for weights: its own shard's and, with
// replication, copies of its neighbours'. A request names the version that its answer must at least
// have; it waits until that is there. Runs on a thread of its own, or between the operations of
// the update worker, on whose thread Serve is called then.
class BlockServer : public Worker {
 public:
  // `signal` wakes whoever calls Serve.
  BlockServer(Job& job, size_t index, Signal& signal);

  // The update worker's new values, empty where nothing is computed; from its thread.
  void Publish(uint64_t version, std::span<const float> values);

  // Takes what has arrived and answers what can be answered, without waiting for anything but its
  // own work. Ends `wait` where there is something to do.
  void Serve(OpenWait& wait);

  void Probe() override {}
  // Serves until the last compute worker has left.
  void Run() override;

 private:
  struct Held {
    bool here = false;
    uint64_t version = 0;
    std::vector<float> values;
  };
  struct Request {
    uint64_t worker, block, version, step, micro_batch;
  };

  void TakeRequests(OpenWait& wait);
  void TakeReplicas(OpenWait& wait);
  // False: what it waits for is not there yet.
  bool Answer(const Request& request, OpenWait& wait);

  std::mutex mutex_;
  std::vector<Held> held_;        // by owner; guarded by mutex_
  std::deque<Request> requests_;  // not yet answered, by arrival
  std::vector<float> values_;     // of the answer that is being made
};

}  // namespace poolscope::trainer
