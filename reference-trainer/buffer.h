#pragma once

#include <cstddef>
#include <deque>
#include <mutex>

#include "reference-trainer/link.h"
#include "reference-trainer/message.h"
#include "reference-trainer/signal.h"

namespace poolscope::trainer {

// The messages on their way to one receiver on one link: `depth` slots. A slot is taken before the
// hand-over and freed when the receiver takes the message out; senders that found none get them in
// the order of their waiting. Any thread may call.
class Buffer {
 public:
  // `receiver` outlives the buffer and is notified at each delivery.
  Buffer(size_t depth, Signal& receiver) : depth_(depth), receiver_(receiver) {}

  // kFull: `sender` is in line and is notified when it is its turn to try again.
  Reserved TryReserve(Signal& sender);

  // A slot for a message that nobody asked to send; not where senders are in line for one.
  bool TryReserveSpare();

  // The message of a slot reserved before has arrived. False: closed, it was thrown away.
  bool Deliver(MessagePtr message);

  // It will not arrive.
  void Release();

  // The oldest message that has arrived, or null. Frees its slot.
  MessagePtr TryTake();

  bool Arrived() const;
  size_t InUse() const;

  // The receiver has gone: senders no longer wait, what arrives is thrown away.
  // Returns how many that have arrived are.
  size_t Close();

  // Empty and open, as at the beginning; slots that were reserved are neither used nor released.
  void Clear();

 private:
  void WakeNext();  // mutex_ is held

  const size_t depth_;
  Signal& receiver_;
  mutable std::mutex mutex_;
  // Guarded by mutex_:
  size_t in_use_ = 0;
  bool closed_ = false;
  std::deque<MessagePtr> arrived_;
  std::deque<Signal*> blocked_;  // in line, the first one first
};

}  // namespace poolscope::trainer
