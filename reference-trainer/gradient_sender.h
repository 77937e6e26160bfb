#pragma once

#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "reference-trainer/worker.h"

namespace poolscope::trainer {

// The thread of a compute worker that encodes and hands over its gradients while the worker goes
// on. It computes on a stream of its own: encoding takes no time from the worker's pass.
class GradientSender : public Worker {
 public:
  // Of compute worker `index`. `own` is the thread's; `worker` is notified when all is handed over.
  // Both outlive it.
  GradientSender(Job& job, size_t index, Signal& own, Signal& worker);
  ~GradientSender() override;  // what is not handed over is not sent

  void Give(MessagePtr message, std::vector<float> values);
  bool Idle();  // all that was given is handed over

 private:
  void Probe() override {}
  void Run() override;

  Signal& worker_;
  std::mutex mutex_;
  // Guarded by mutex_:
  std::deque<std::pair<MessagePtr, std::vector<float>>> queue_;
  bool sending_ = false;
  bool stopping_ = false;

  std::thread thread_;
};

}  // namespace poolscope::trainer
