#include "reference-trainer/transport_link.h"

#include <algorithm>
#include <set>

#include "reference-trainer/packet.h"
#include "reference-trainer/timing.h"

namespace poolscope::trainer {

// Stands in a buffer's line for a worker of another process.
class TransportLink::RemoteSender : public Signal {
 public:
  RemoteSender(TransportLink& link, int from_rank, size_t to, uint64_t senders_token)
      : rank(from_rank), destination(to), token(senders_token), link_(link) {}

  void Notify() override {
    link_.transport_.Post([this] { link_.Grant(*this); });
  }

  const int rank;
  const size_t destination;
  const uint64_t token;  // the sender's Signal, in its process
  bool waiting = false;  // the transport's thread alone

 private:
  TransportLink& link_;
};

TransportLink::TransportLink(const std::string& name, Shape shape,
                             const std::vector<int>& sender_ranks,
                             const std::vector<Receiver>& receivers, Transport& transport,
                             int first_tag, nvtxStringHandle_t codec)
    : Link(name, shape, sender_ranks.size(), receivers.size()),
      transport_(transport),
      first_tag_(first_tag),
      codec_(codec),
      shaped_(shape.bytes_per_second > 0 || shape.latency_ns > 0),
      lanes_in_all_(shape.lanes *
                    (shaped_ ? 1 : std::set<int>(sender_ranks.begin(), sender_ranks.end()).size())),
      depth_counter_(poolscope_counter((name + ".depth").c_str())),
      lanes_(shape.lanes, shape.bytes_per_second) {
  for (const Receiver& each : receivers) {
    homes_.push_back(
        {each.rank, each.signal ? std::make_unique<Buffer>(shape.depth, *each.signal) : nullptr});
  }
  Listen();
}

TransportLink::~TransportLink() = default;

void TransportLink::Listen() {
  transport_.On(first_tag_ + kSlot, [this](int source, const Transport::Bytes& bytes) {
    PacketReader reader(bytes);
    const auto destination = reader.Get<uint64_t>();
    const auto token = reader.Get<uint64_t>();
    auto& sender = senders_[{source, destination, token}];
    if (!sender) sender = std::make_unique<RemoteSender>(*this, source, destination, token);
    sender->waiting = true;
    Grant(*sender);
  });
  transport_.On(first_tag_ + kAnswer, [this](int, const Transport::Bytes& bytes) {
    PacketReader reader(bytes);
    const auto destination = reader.Get<uint64_t>();
    auto* const sender = reinterpret_cast<Signal*>(reader.Get<uint64_t>());  // its own token
    {
      std::lock_guard lock(mutex_);
      answers_[{destination, sender}] = reader.Get<Answer>();
    }
    sender->Notify();
  });
  transport_.On(first_tag_ + kLane, [this](int source, const Transport::Bytes& bytes) {
    PacketReader reader(bytes);
    const auto number = reader.Get<uint64_t>();
    const int64_t now = NowNs();
    const LaneClock::Turn turn = lanes_.Take(reader.Get<uint64_t>(), now);
    transport_.Send(source, first_tag_ + kTurn,
                    PacketOf(number, turn.begin_ns - now, turn.end_ns - now));
  });
  // Times are relative to the hand-over: the clocks of two hosts are not the same, and the way to
  // process 0 and back is no part of the shape.
  transport_.On(first_tag_ + kTurn, [this](int, const Transport::Bytes& bytes) {
    PacketReader reader(bytes);
    const auto number = reader.Get<uint64_t>();
    const int64_t from = outgoing_.at(number)->handed_over_ns;
    const int64_t begin = from + reader.Get<int64_t>();
    Travel(number, {begin, from + reader.Get<int64_t>()});
  });
  transport_.On(first_tag_ + kAnnounce, [this](int source, const Transport::Bytes& bytes) {
    PacketReader reader(bytes);
    Message message;
    static_cast<MessageFields&>(message) = reader.Get<MessageFields>();
    poolscope_transfer receive = message.Annotation(POOLSCOPE_RECEIVE);
    receive.raw_bytes = receive.wire_bytes = POOLSCOPE_NO_VALUE;  // counted at the sender
    incoming_[source].push_back(
        {reader.Get<uint64_t>(), poolscope_queue_begin(annotation(), &receive)});
  });
  transport_.On(first_tag_ + kClose, [this](int, const Transport::Bytes& bytes) {
    Close(PacketReader(bytes).Get<uint64_t>());
  });
  transport_.On(first_tag_ + kBlock, [this](int source, Transport::Bytes bytes) {
    const Incoming incoming = incoming_[source].front();
    incoming_[source].pop_front();
    poolscope_queue_end(incoming.range);
    bytes.resize(incoming.packed_bytes);
    auto message = std::make_unique<Message>();
    (void)Unpack(bytes, *message);  // it comes from this program, over a wire that is reliable
    if (message->block.codec != Codec::kNone) message->codec_name = codec_;
    Arrive(std::move(message));
  });
}

void TransportLink::Count(int change) {
  std::lock_guard lock(depth_mutex_);
  depth_ += change;
  poolscope_sample(depth_counter_, static_cast<double>(depth_));
}

Reserved TransportLink::TryReserve(size_t destination, Signal& sender) {
  const Home& home = homes_[destination];
  if (home.buffer) return home.buffer->TryReserve(sender);
  std::lock_guard lock(mutex_);
  const auto [answer, fresh] = answers_.try_emplace({destination, &sender}, Answer::kAsked);
  if (answer->second == Answer::kClosed) return Reserved::kClosed;
  if (answer->second == Answer::kYes) {
    answers_.erase(answer);
    return Reserved::kYes;
  }
  if (fresh) {
    transport_.Send(home.rank, first_tag_ + kSlot,
                    PacketOf(uint64_t{destination}, reinterpret_cast<uint64_t>(&sender)));
  }
  return Reserved::kFull;
}

void TransportLink::Grant(RemoteSender& sender) {
  if (!sender.waiting) return;
  const Reserved reserved = homes_[sender.destination].buffer->TryReserve(sender);
  if (reserved == Reserved::kFull) return;
  sender.waiting = false;
  if (reserved == Reserved::kYes) Count(+1);
  transport_.Send(sender.rank, first_tag_ + kAnswer,
                  PacketOf(uint64_t{sender.destination}, sender.token,
                           reserved == Reserved::kYes ? Answer::kYes : Answer::kClosed));
}

void TransportLink::HandOver(MessagePtr message) {
  if (homes_[message->destination].buffer) Count(+1);
  BeginQueued(*message);
  message->handed_over_ns = NowNs();
  {
    std::lock_guard lock(mutex_);
    if (!message->probe()) {
      traffic_.raw_bytes += message->raw_bytes;
      traffic_.wire_bytes += message->wire_bytes;
    }
    handed_over_.push_back(std::move(message));
  }
  transport_.Post([this] { TakeHandedOver(); });
}

void TransportLink::TakeHandedOver() {
  std::deque<MessagePtr> fresh;
  {
    std::lock_guard lock(mutex_);
    fresh.swap(handed_over_);
  }
  for (MessagePtr& message : fresh) {
    const uint64_t number = next_number_++;
    const int64_t from = message->handed_over_ns;
    const uint64_t bytes = message->wire_bytes;
    outgoing_[number] = std::move(message);
    if (!shaped_) {
      waiting_.push_back(number);
    } else if (shape().bytes_per_second > 0) {
      transport_.Send(0, first_tag_ + kLane, PacketOf(number, bytes));
    } else {
      Travel(number, {from, from});
    }
  }
  while (!waiting_.empty() && on_wire_ < shape().lanes) {
    const uint64_t number = waiting_.front();
    waiting_.pop_front();
    ++on_wire_;
    BeginWire(*outgoing_[number]);
    SendOut(number);
  }
}

void TransportLink::Travel(uint64_t number, LaneClock::Turn turn) {
  transport_.At(turn.begin_ns, [this, number] { BeginWire(*outgoing_[number]); });
  transport_.At(turn.end_ns + shape().latency_ns, [this, number] { SendOut(number); });
}

void TransportLink::SendOut(uint64_t number) {
  const auto sent = [this, number] {
    poolscope_queue_end(outgoing_[number]->range);
    MessagePtr message = std::move(outgoing_[number]);
    outgoing_.erase(number);
    if (homes_[message->destination].buffer) Arrive(std::move(message));
    if (shaped_) return;
    --on_wire_;
    TakeHandedOver();
  };
  const Message& message = *outgoing_[number];
  const Home& home = homes_[message.destination];
  if (home.buffer) return sent();
  Transport::Bytes packed = Pack(message);
  const MessageFields& fields = message;
  transport_.Send(home.rank, first_tag_ + kAnnounce,
                  PacketOf(fields, static_cast<uint64_t>(packed.size())));
  if (!shaped_) packed.resize(std::max<size_t>(packed.size(), message.wire_bytes));
  transport_.Send(home.rank, first_tag_ + kBlock, std::move(packed), sent);
}

void TransportLink::Arrive(MessagePtr message) {
  if (!homes_[message->destination].buffer->Deliver(std::move(message))) Count(-1);
}

MessagePtr TransportLink::TryTake(size_t destination) {
  // Locked around both: the sender that gets the slot must not be counted first.
  std::lock_guard lock(depth_mutex_);
  MessagePtr message = homes_[destination].buffer->TryTake();
  if (message) poolscope_sample(depth_counter_, static_cast<double>(--depth_));
  return message;
}

void TransportLink::Close(size_t destination) {
  const Home& home = homes_[destination];
  if (!home.buffer) {
    return transport_.Send(home.rank, first_tag_ + kClose, PacketOf(uint64_t{destination}));
  }
  if (const size_t dropped = home.buffer->Close(); dropped > 0) Count(-static_cast<int>(dropped));
}

Link::Traffic TransportLink::traffic() {
  std::lock_guard lock(mutex_);
  return traffic_;
}

}  // namespace poolscope::trainer
