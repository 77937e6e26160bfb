#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "reference-trainer/buffer.h"

namespace poolscope::trainer {

// A directed channel from one pool to another, with the speed of a network that is not there.
//
//   sender ──hand over──▶ queue ──FIFO──▶ lane: bytes ÷ bandwidth ──▶ latency ──▶ receiver's buffer
//
// Each lane is a thread that carries one message at a time; latency does not occupy it. A message
// that finds its lane free is on the wire from the instant of its hand-over, and one that follows
// another from the instant the other left, so that the lanes' own wake-up times do not add up.
class Link {
 public:
  struct Shape {
    double bytes_per_second = 0;  // 0: unlimited
    int64_t latency_ns = 0;
    size_t lanes = 1;
    size_t depth = 2;  // messages per receiver
  };

  // What was handed over, without probes.
  struct Traffic {
    uint64_t raw_bytes = 0;
    uint64_t wire_bytes = 0;
  };

  // `receivers`: one signal per worker of the receiving pool; they outlive the link.
  Link(std::string name, Shape shape, size_t senders, const std::vector<Signal*>& receivers);
  ~Link();  // messages not yet delivered are dropped
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  const std::string& name() const { return name_; }
  nvtxStringHandle_t annotation() const { return annotation_; }
  uint64_t capacity() const { return shape_.depth * buffers_.size(); }
  const Shape& shape() const { return shape_; }
  Traffic traffic();

  // The next sequence number of `source`; only that worker's thread may ask.
  uint64_t NextSequence(size_t source) { return next_sequence_[source]++; }

  // A slot in the buffer of `destination`; to be followed by HandOver.
  Reserved TryReserve(size_t destination, Signal& sender);
  void HandOver(MessagePtr message);

  MessagePtr TryTake(size_t destination);
  bool Arrived(size_t destination) const { return buffers_[destination]->Arrived(); }
  void Close(size_t destination) { buffers_[destination]->Close(); }
  size_t InUse(size_t destination) const { return buffers_[destination]->InUse(); }

 private:
  void Carry(size_t lane);
  void CountDepth(int change);
  void SampleDepth(int change);  // depth_mutex_ is held

  // Constant after construction.
  const std::string name_;
  const Shape shape_;
  nvtxStringHandle_t annotation_ = nullptr;
  uint64_t depth_counter_ = 0;
  // Own synchronisation, or one thread per element.
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::vector<uint64_t> next_sequence_;
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
