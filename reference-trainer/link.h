#pragma once

#include <poolscope/annotate.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "reference-trainer/faults.h"
#include "reference-trainer/message.h"
#include "reference-trainer/signal.h"

namespace poolscope::trainer {

enum class Reserved { kYes, kFull, kClosed };

// A directed channel from one pool to another, with a buffer of `depth` slots per receiver. A
// sender reserves a slot, then hands its message over; the receiver that takes it out frees the
// slot. Any thread may call, unless stated.
class Link {
 public:
  struct Shape {
    double bytes_per_second = 0;  // 0: unlimited
    int64_t latency_ns = 0;
    size_t lanes = 1;
    size_t depth = 2;  // messages per receiver
  };

  // What was handed over, without probes, and what it met on a bad wire.
  struct Traffic {
    uint64_t raw_bytes = 0;
    uint64_t wire_bytes = 0;  // what was sent again not included
    FaultCounts faults;
  };

  Link(std::string name, Shape shape, size_t senders, size_t receivers)
      : name_(std::move(name)),
        shape_(shape),
        receivers_(receivers),
        annotation_(poolscope_name(name_.c_str())),
        next_sequence_(senders, 0) {}
  virtual ~Link() = default;  // messages not yet delivered are dropped
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  const std::string& name() const { return name_; }
  nvtxStringHandle_t annotation() const { return annotation_; }
  uint64_t capacity() const { return shape_.depth * receivers_; }
  const Shape& shape() const { return shape_; }
  // Messages that may be on the wire at once.
  virtual size_t lanes() const { return shape_.lanes; }

  // The next sequence number of `source`; only that worker's thread may ask.
  uint64_t NextSequence(size_t source) { return next_sequence_[source]++; }

  // A slot in the buffer of `destination`; to be followed by HandOver. kFull: `sender` is in line
  // and is notified when it is its turn to try again.
  virtual Reserved TryReserve(size_t destination, Signal& sender) = 0;
  virtual void HandOver(MessagePtr message) = 0;

  // The share of the receiver's slots that is taken, 0 to 1.
  virtual double Fill(size_t destination) const = 0;
  // The oldest message that has arrived, or null.
  virtual MessagePtr TryTake(size_t destination) = 0;
  // The receiver has gone: senders no longer wait, what arrives is thrown away.
  virtual void Close(size_t destination) = 0;

  // Best effort: `destination` misses a message of at least `version` from `source` and asks for
  // the newest. It may come, late or not at all: ask again. Reliable links have nothing to answer.
  virtual void AskAgain(size_t /*source*/, size_t /*destination*/, uint64_t /*version*/) {}

  // Throws away all messages, also those that still arrive, and opens what was closed; sequence
  // numbers go on. No worker may be at either end. Only within a process.
  virtual void Clear() {}

  virtual Traffic traffic() = 0;

 protected:
  // The stages between hand-over and arrival: each begins where the one before ends.
  void BeginQueued(Message& message) const {
    const poolscope_transfer queued = message.Annotation(POOLSCOPE_QUEUED);
    message.range = poolscope_queue_begin(annotation_, &queued);
  }
  void BeginWire(Message& message) const {
    poolscope_queue_end(message.range);
    const poolscope_transfer wire = message.Annotation(POOLSCOPE_WIRE);
    message.range = poolscope_queue_begin(annotation_, &wire);
  }

 private:
  const std::string name_;
  const Shape shape_;
  const size_t receivers_;
  const nvtxStringHandle_t annotation_;
  std::vector<uint64_t> next_sequence_;  // by sender, each its thread's own
};

}  // namespace poolscope::trainer
