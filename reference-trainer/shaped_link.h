#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "reference-trainer/buffer.h"
#include "reference-trainer/link.h"

namespace poolscope::trainer {

// A link inside the process, with the speed of a network that is not there.
//
//   sender ──hand over──▶ queue ──FIFO──▶ lane: bytes ÷ bandwidth ──▶ latency ──▶ receiver's buffer
//
// Each lane is a thread that carries one message at a time; latency does not occupy it. A message
// that finds its lane free is on the wire from the instant of its hand-over, and one that follows
// another from the instant the other left, so that the lanes' own wake-up times do not add up.
class ShapedLink : public Link {
 public:
  // `receivers`: one signal per worker of the receiving pool; they outlive the link.
  ShapedLink(const std::string& name, Shape shape, size_t senders,
             const std::vector<Signal*>& receivers);
  ~ShapedLink() override;

  Reserved TryReserve(size_t destination, Signal& sender) override;
  void HandOver(MessagePtr message) override;
  MessagePtr TryTake(size_t destination) override;
  void Close(size_t destination) override;
  Traffic traffic() override;

  bool Arrived(size_t destination) const { return buffers_[destination]->Arrived(); }
  size_t InUse(size_t destination) const { return buffers_[destination]->InUse(); }
  double Fill(size_t destination) const override {
    return static_cast<double>(InUse(destination)) / static_cast<double>(shape().depth);
  }

 private:
  void Carry(size_t lane);
  void CountDepth(int change);
  void SampleDepth(int change);  // depth_mutex_ is held

  const uint64_t depth_counter_;
  std::vector<std::unique_ptr<Buffer>> buffers_;  // own synchronisation
  // Guarded by depth_mutex_, which keeps the samples in the order of their values.
  std::mutex depth_mutex_;
  int64_t depth_ = 0;
  // Guarded by mutex_.
  std::mutex mutex_;
  std::condition_variable work_;
  std::deque<MessagePtr> queue_;
  Traffic traffic_;
  bool stopping_ = false;

  std::vector<std::thread> lanes_;
};

}  // namespace poolscope::trainer
