#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "reference-trainer/buffer.h"
#include "reference-trainer/link.h"

namespace poolscope::trainer {

// A link inside the process: a queue, threads of the derived class that carry messages from it, and
// a buffer for each receiver. Annotates all that a message meets between hand-over and taking.
class BufferedLink : public Link {
 public:
  Reserved TryReserve(size_t destination, Signal& sender) override;
  void HandOver(MessagePtr message) override;
  MessagePtr TryTake(size_t destination) override;
  void Close(size_t destination) override;
  void Clear() override;
  Traffic traffic() override;

  bool Arrived(size_t destination) const { return buffers_[destination]->Arrived(); }
  size_t InUse(size_t destination) const { return buffers_[destination]->InUse(); }
  double Fill(size_t destination) const override {
    return static_cast<double>(InUse(destination)) / static_cast<double>(shape().depth);
  }

 protected:
  // `receivers`: one signal per worker of the receiving pool; they outlive the link.
  BufferedLink(const std::string& name, Shape shape, size_t senders,
               const std::vector<Signal*>& receivers);

  // Starts a carrying thread, number `lane` by name.
  void Start(size_t lane, const std::function<void()>& carry);
  // Wakes and joins them: the first thing that the derived destructor does.
  void Stop();

  void Deliver(MessagePtr message);        // ends its wire stage
  void Drop(MessagePtr message);           // likewise; its slot is free again
  bool HandOverAgain(MessagePtr message);  // if there is a slot that nobody waits for

  // Guarded by mutex_; work_ is notified of changes.
  std::mutex mutex_;
  std::condition_variable work_;
  std::deque<MessagePtr> queue_;
  Traffic traffic_;
  bool stopping_ = false;

 private:
  void Queue(MessagePtr message);
  void SampleDepth(int change);  // depth_mutex_ is held

  const uint64_t depth_counter_;
  std::vector<std::unique_ptr<Buffer>> buffers_;  // own synchronisation
  // Guarded by depth_mutex_, which keeps the samples in the order of their values.
  std::mutex depth_mutex_;
  int64_t depth_ = 0;
  uint64_t epoch_ = 0;  // messages of another one are no more than what is on the wire

  std::vector<std::thread> threads_;
};

}  // namespace poolscope::trainer
