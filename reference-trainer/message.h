#pragma once

#include <poolscope/annotate.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "reference-trainer/block.h"

namespace poolscope::trainer {

// What a message says beside its values. Trivially copyable: its bytes are what crosses a wire.
struct MessageFields {
  // What the annotations say of it; units and meaning as in poolscope_transfer.
  uint64_t source = 0;
  uint64_t destination = 0;
  uint64_t sequence = 0;
  uint64_t version = POOLSCOPE_NO_VALUE;
  uint64_t applied_version = POOLSCOPE_NO_VALUE;
  uint64_t raw_bytes = 0;
  uint64_t wire_bytes = 0;
  uint64_t step = POOLSCOPE_NO_VALUE;
  uint64_t micro_batch = POOLSCOPE_NO_VALUE;

  uint64_t weight_block = POOLSCOPE_NO_VALUE;  // parameter fetch: index in WeightBlocks
  uint64_t attempt = POOLSCOPE_NO_VALUE;       // gradients: see Admission
  double loss_sum = 0;                         // over its micro-batches, each × its sequences
  uint64_t first = 0, stride = 1;              // micro-batch i of them is first + i × stride
  uint64_t micro_batches = 0;
  uint64_t tokens = 0;
  // Of several messages that belong together: all-reduce: the hop; gradients in buckets: the piece.
  uint64_t part = 0;
  uint64_t epoch = 0;  // the link's own: how often it had been cleared

  bool probe() const { return step == POOLSCOPE_NO_VALUE; }
};

// One message on a link. Owned by one thread at a time: sender, lane, buffer, receiver.
struct Message : MessageFields {
  nvtxStringHandle_t codec_name = nullptr;

  // Values are empty where nothing is computed (--math none, a probe).
  Block block;
  std::vector<float> values;  // after decoding
  // Of gradients in buckets: what came before the piece that completes them.
  std::vector<std::unique_ptr<Message>> earlier;

  // The link's own: when it was handed over, and its open queued or wire range.
  int64_t handed_over_ns = 0;
  nvtxRangeId_t range = 0;

  poolscope_transfer Annotation(poolscope_stage stage) const {
    poolscope_transfer transfer = {};
    transfer.stage = stage;
    transfer.source = source;
    transfer.destination = destination;
    transfer.sequence = sequence;
    transfer.version = version;
    transfer.applied_version = applied_version;
    transfer.raw_bytes = raw_bytes;
    transfer.wire_bytes = wire_bytes;
    transfer.step = step;
    transfer.micro_batch = micro_batch;
    transfer.codec = codec_name;
    return transfer;
  }
};

using MessagePtr = std::unique_ptr<Message>;

// The fields and the block as bytes, and back; the rest of `message` is left as it is. False: these
// bytes are not a packed message.
std::vector<uint8_t> Pack(const Message& message);
[[nodiscard]] bool Unpack(std::span<const uint8_t> bytes, Message& message);

}  // namespace poolscope::trainer
