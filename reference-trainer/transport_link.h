#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "reference-trainer/buffer.h"
#include "reference-trainer/lane_clock.h"
#include "reference-trainer/link.h"
#include "reference-trainer/transport.h"

namespace poolscope::trainer {

// A link whose workers are in several processes, each of which has one of these. A receiver's
// buffer lies in the receiver's process, which gives its slots to the senders of all processes in
// the order of their asking.
//
//   sender's process                              receiver's process
//   reserve ───────────── slot? ────────────────▶ Buffer::TryReserve
//           ◀──────────── yes, or closed ──────── when it is the sender's turn
//   hand over ▶ queued ▶ [shape] ▶ announce ────▶ receive begins
//                                  block ───────▶ receive ends ▶ Buffer::Deliver
//
// Without a shape the wire is the real one: a message is sent with as many bytes as it states, and
// each process has `lanes` of them on the way. With one, process 0 says when a lane is free, so
// that all senders share the lanes as they do within one process; the real wire comes on top.
class TransportLink : public Link {
 public:
  struct Receiver {
    int rank;        // its process
    Signal* signal;  // null where that is another one
  };

  // Before the transport starts, in the same order in every process. `codec` is the annotation of
  // blocks that are encoded.
  TransportLink(const std::string& name, Shape shape, const std::vector<int>& sender_ranks,
                const std::vector<Receiver>& receivers, Transport& transport, int first_tag,
                nvtxStringHandle_t codec);
  ~TransportLink() override;

  size_t lanes() const override { return lanes_in_all_; }
  Reserved TryReserve(size_t destination, Signal& sender) override;
  void HandOver(MessagePtr message) override;
  MessagePtr TryTake(size_t destination) override;
  void Close(size_t destination) override;
  double Fill(size_t destination) const override {  // of a receiver of this process
    return static_cast<double>(homes_[destination].buffer->InUse()) /
           static_cast<double>(shape().depth);
  }
  Traffic traffic() override;

  static constexpr int kTags = 7;

 private:
  class RemoteSender;
  enum class Answer : uint8_t { kAsked, kYes, kClosed };
  enum Tag { kSlot, kAnswer, kLane, kTurn, kAnnounce, kBlock, kClose };
  struct Incoming {
    uint64_t packed_bytes;  // the block's packet without what fills it up
    nvtxRangeId_t range;
  };

  void Count(int change);
  void Listen();
  // On the transport's thread.
  void Grant(RemoteSender& sender);
  void TakeHandedOver();
  void Travel(uint64_t number, LaneClock::Turn turn);
  void SendOut(uint64_t number);
  void Arrive(MessagePtr message);

  struct Home {
    int rank;
    std::unique_ptr<Buffer> buffer;  // null where that is another process
  };

  Transport& transport_;
  const int first_tag_;
  const nvtxStringHandle_t codec_;
  const bool shaped_;
  const size_t lanes_in_all_;
  const uint64_t depth_counter_;
  std::vector<Home> homes_;  // by receiver; own synchronisation

  std::mutex depth_mutex_;  // keeps the samples in the order of their values
  int64_t depth_ = 0;
  std::mutex mutex_;
  // Guarded by mutex_:
  std::map<std::pair<size_t, Signal*>, Answer> answers_;  // to this process' senders
  std::deque<MessagePtr> handed_over_;
  Traffic traffic_;
  // The transport's thread alone:
  LaneClock lanes_;  // used in process 0
  uint64_t next_number_ = 0;
  std::map<uint64_t, MessagePtr> outgoing_;  // by the order of their hand-over
  std::deque<uint64_t> waiting_;             // for the real wire
  size_t on_wire_ = 0;
  std::map<std::tuple<int, size_t, uint64_t>, std::unique_ptr<RemoteSender>> senders_;
  std::map<int, std::deque<Incoming>> incoming_;  // by process: announced, not yet here
};

}  // namespace poolscope::trainer
