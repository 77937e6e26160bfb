#include "reference-trainer/worker.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "reference-trainer/timing.h"

namespace poolscope::trainer {
namespace {

constexpr uint64_t kProbeBytes = 1024;

}  // namespace

bool Worker::Staged(const Codec& codec) const {
  // Without a codec an emulated device has nothing to do; a real one copies and checksums.
  return codec != Codec::kNone || !job_.options().devices.emulated();
}

CodecUse Worker::UseOf(const Link& link) const {
  return &link == job_.gradients.get() ? CodecUse::kGradients : CodecUse::kWeights;
}

bool Worker::Send(Link& link, const Codec& codec, MessagePtr message, const Values& values,
                  const std::function<void(OpenWait&)>& meanwhile) {
  Encode(link, codec, *message, values);
  return HandOver(link, std::move(message), meanwhile, true);
}

void Worker::Encode(Link& link, const Codec& codec, Message& message, const Values& values,
                    double extra_seconds) {
  message.source = index_;
  message.sequence = link.NextSequence(index_);
  message.codec_name = codec == Codec::kNone           ? nullptr
                       : &link == job_.gradients.get() ? job_.annotations.gradients_codec
                                                       : job_.annotations.weights_codec;
  const bool staged = Staged(codec) || extra_seconds > 0;
  const double raw = static_cast<double>(message.raw_bytes);
  const double seconds =
      extra_seconds + raw / job_.StatedCodec(codec, UseOf(link)).encode_bytes_per_second;
  device_->AwaitTurn(seconds);
  if (staged) poolscope_begin(POOLSCOPE_TRANSFER, link.annotation());
  Encoder& encoder =
      encoders_.try_emplace({message.destination, message.part}, codec).first->second;
  device_->Run(seconds, [&] { message.block = encoder.Encode(values()); });
  message.wire_bytes = WireBytes(codec, message.raw_bytes);
  if (message.block.count > 0) {  // as many as the real payload's ratio makes of the raw bytes
    const auto wire = static_cast<double>(message.block.bytes.size());
    const auto values_bytes = static_cast<double>(message.block.count * sizeof(float));
    message.wire_bytes = static_cast<uint64_t>(std::ceil(raw * (wire / values_bytes)));
  }
  if (staged) {
    const poolscope_transfer encode = message.Annotation(POOLSCOPE_ENCODE);
    poolscope_end_transfer(&encode);
  }
}

bool Worker::HandOver(Link& link, MessagePtr message,
                      const std::function<void(OpenWait&)>& meanwhile, bool annotate) {
  if (annotate) Pause(job_.options().slowness.Before(link.name()));
  OpenWait wait;
  for (;;) {
    const uint64_t ticket = signal_.Ticket();
    job_.CheckRunning();
    const Reserved reserved = link.TryReserve(message->destination, signal_);
    if (reserved == Reserved::kClosed) return false;
    if (reserved == Reserved::kYes) break;
    if (meanwhile) meanwhile(wait);
    if (annotate) wait.Begin(POOLSCOPE_BLOCKED_LINK, link.annotation());
    device_->Waited();
    signal_.WaitPast(ticket);
  }
  wait.End();
  link.HandOver(std::move(message));
  return true;
}

MessagePtr Worker::TryReceive(Link& link, OpenWait& wait) {
  MessagePtr message = link.TryTake(index_);
  if (!message) return nullptr;
  wait.End(message->source, message->sequence);
  Pause(job_.options().slowness.After(link.name()));
  return message;
}

void Worker::WaitOrWork(OpenWait& wait, poolscope_category category, const Link& link,
                        uint64_t ticket, int64_t until_ns) {
  if (side_work_ && side_work_->Do(*device_, wait)) return;
  wait.Begin(category, link.annotation());
  device_->Waited();
  signal_.WaitPast(ticket, until_ns);
}

void Worker::Pause(double seconds) {
  if (seconds <= 0) return;
  SleepUntilNs(NowNs() + std::llround(seconds * 1e9));
  device_->Waited();
}

void Worker::Open(const Link& link, Message& message, size_t count) {
  const Codec& codec = message.block.codec;
  const bool staged = Staged(codec);
  bool good = true;
  std::string error;
  const double seconds = static_cast<double>(message.raw_bytes) /
                         job_.StatedCodec(codec, UseOf(link)).decode_bytes_per_second;
  device_->AwaitTurn(seconds);
  if (staged) poolscope_begin(POOLSCOPE_TRANSFER, link.annotation());
  device_->Run(seconds, [&] {
    good = decoders_[{message.source, message.part}].Decode(message.block, count, message.values,
                                                            error);
  });
  if (staged) {
    const poolscope_transfer decode = message.Annotation(POOLSCOPE_DECODE);
    poolscope_end_transfer(&decode);
  }
  if (good) return;
  job_.coordinator->Fail(fmt::format("message {} of worker {} on link {} is damaged: {}",
                                     message.sequence, message.source, link.name(), error));
  throw Abandoned{};
}

void Worker::Apply(const Link& link, const Message& message, const std::function<void()>& math) {
  poolscope_begin(POOLSCOPE_TRANSFER, link.annotation());
  math();
  const poolscope_transfer apply = message.Annotation(POOLSCOPE_APPLY);
  poolscope_end_transfer(&apply);
}

void Worker::CopyMemories(std::span<float> all) const {
  for (const auto& [stream, encoder] : encoders_) {
    Scatter(encoder.memory(), job_.PieceRanges(stream.first, stream.second), all);
  }
}

void Worker::RestoreResidual(const Codec& codec, std::span<const float> all) {
  std::vector<float> gathered;
  for (uint64_t shard = 0; !all.empty() && shard < job_.options().update_workers; ++shard) {
    for (uint64_t piece = 0; piece < job_.Pieces(shard); ++piece) {
      Encoder& encoder = encoders_.try_emplace({shard, piece}, codec).first->second;
      encoder.Remember(Gather(all, job_.PieceRanges(shard, piece), gathered));
    }
  }
}

std::span<const float> Worker::SentValues() const {
  return encoders_.empty() ? std::span<const float>{} : encoders_.begin()->second.memory();
}

void Worker::SendProbes(Link& link) {
  for (uint64_t i = 0; i < job_.options().link_probes; ++i) {
    auto message = std::make_unique<Message>();
    message->source = index_;
    message->sequence = link.NextSequence(index_);
    message->raw_bytes = message->wire_bytes = kProbeBytes;
    HandOver(link, std::move(message), {}, false);
  }
}

void Worker::ReceiveProbes(Link& link) {
  for (uint64_t i = 0; i < job_.options().link_probes;) {
    const uint64_t ticket = signal_.Ticket();
    job_.CheckRunning();
    if (link.TryTake(index_)) {
      ++i;
    } else {
      signal_.WaitPast(ticket);
    }
  }
}

}  // namespace poolscope::trainer
