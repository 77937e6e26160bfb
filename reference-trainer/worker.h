#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include "reference-trainer/codec_stream.h"
#include "reference-trainer/job.h"
#include "reference-trainer/memory.h"

namespace poolscope::trainer {

// What compute and update workers have in common: a device, and the two ends of a link. Lives on
// its own thread. Waits throw Abandoned when the run has failed.
class Worker {
 public:
  virtual ~Worker() = default;

  // On the worker's own thread: what precedes step 0 (the probe of the links), then the run.
  virtual void Probe() = 0;
  virtual void Run() = 0;

  // Values on the host, empty where nothing is computed. Where a device has them this copies them,
  // which is part of encoding.
  using Values = std::function<std::span<const float>()>;

  // Encodes `values` into the message, waits for a slot of its destination and hands it over.
  // While blocked, `meanwhile` (may be empty) is called whenever something has changed; it may end
  // the wait. False: the receiver has gone.
  bool Send(Link& link, const Codec& codec, MessagePtr message, const Values& values,
            const std::function<void(OpenWait&)>& meanwhile);

  // The next message that has arrived, or null; ends the wait.
  MessagePtr TryReceive(Link& link, OpenWait& wait);

  // Decodes into message.values[count], 0 where nothing is computed; fails the run where the block
  // is damaged.
  void Open(const Link& link, Message& message, size_t count);

  // Runs `math` as the message's apply stage.
  void Apply(const Link& link, const Message& message, const std::function<void()>& math);

  // Hands over a message that is ready, as Send does.
  bool HandOver(Link& link, MessagePtr message, const std::function<void(OpenWait&)>& meanwhile,
                bool annotate);
  // Gives the message its source, sequence, codec and encoded values; `extra_seconds`: what it
  // costs on an emulated device beside the codec.
  void Encode(Link& link, const Codec& codec, Message& message, const Values& values,
              double extra_seconds = 0);
  // What the encoders of the links to all destinations keep (see Encoder), by the shards they go
  // to.
  void CopyMemories(std::span<float> all) const;
  // Goes on with error feedback all[parameters]; empty: with none.
  void RestoreResidual(const Codec& codec, std::span<const float> all);
  // The next operation does not directly follow the one before.
  void Waited() { device_->Waited(); }

 protected:
  Worker(Job& job, size_t index, PoolRole pool, Signal& signal)
      : job_(job),
        index_(index),
        signal_(signal),
        device_(job.MakeDevice(pool, index)),
        memory_(job.options(), pool, index),
        side_work_(job.SideWorkOf(pool)) {}
  // What the receivers of a stream hold; empty where the codec does not tell.
  std::span<const float> SentValues() const;

  // Until something has changed since `ticket`, or `until_ns`: waits, or does a slice of side work.
  void WaitOrWork(OpenWait& wait, poolscope_category category, const Link& link, uint64_t ticket,
                  int64_t until_ns = INT64_MAX);

  // Small messages that show the link's latency and bandwidth before step 0.
  void SendProbes(Link& link);
  void ReceiveProbes(Link& link);

  Job& job_;
  const size_t index_;
  Signal& signal_;
  const std::unique_ptr<Device> device_;
  MemoryUse memory_;
  SideWork* const side_work_;  // null: none

 private:
  CodecUse UseOf(const Link& link) const;
  // The pause that the options put before a hand-over, or after a message was taken out.
  void Pause(double seconds);
  // Whether encode and decode are stages of their own.
  bool Staged(const Codec& codec) const;

  // Of the one link that a worker sends values on, and the one that it receives them on: its
  // streams to each destination or from each source, and of gradients each piece of it.
  using Stream = std::pair<uint64_t, uint64_t>;
  std::map<Stream, Encoder> encoders_;
  std::map<Stream, Decoder> decoders_;
};

}  // namespace poolscope::trainer
