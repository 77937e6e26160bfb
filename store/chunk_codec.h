#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "trace/event.h"
#include "trace/limits.h"
#include "trace/result.h"

// The bytes of one chunk: up to kMaxEventsPerChunk events of one track, column by column.
//
//   byte 0     kChunkFormat
//   byte 1..   one Zstandard frame (RFC 8878) with content size and checksum; inside, the body:
//
//   body   = events groups {group} shapes {shape} forms {form}
//            column(form) column(end) column(duration) column(value) {column(field)}
//   events, groups, shapes, forms = varint: how many follow
//   group  = schema fields        a payload schema (string id) and its number of value words
//   shape  = n {group}            the payload groups that an event carries, as group indices;
//                                 shapes count from 1, shape 0 is "no payload"
//   form   = name domain category depth kind flags value shape
//                                 what many events have in common; value: 1 if one is in the column
//   column = varint bytes, then that many bytes, one item an event in the order of the events:
//     form      varint form index
//     end       varint ZigZag(end_ns - end_ns of the event before, or 0)
//     duration  varint duration_ns, as unsigned
//     value     only events whose form says so: varint ZigZag(value - integer value before), or,
//               for kEventFloat, varint of the byte-swapped (value XOR float value before)
//     field     for each group in turn, for each of its fields: one mode byte, then an item for
//     each
//               occurrence of the group: kColumnDelta: varint ZigZag(value - the one before),
//               kColumnRaw: the value, 8 bytes
// All numbers of groups, shapes and forms are varints; differences wrap at 2^64, "before" starts
// at 0, and the frame's checksum guards the whole body.
//
// Worked example (a test decodes it byte by byte): one transfer, kRange, name 5, domain 2,
// category 2, depth 1, 1000 ns to 1300 ns, payload schema 7 with the values {2, 0}:
//   01                                        format
//   28 b5 2f fd 24 1f                         Zstandard: magic, descriptor, 31 bytes of content
//   f9 00 00                                  last block, raw, 31 bytes
//   01                                        1 event
//   01 07 02                                  1 group: schema 7, 2 fields
//   01 01 00                                  1 shape: 1 group, group 0
//   01 05 02 02 01 01 00 00 01                1 form: name 5, domain 2, category 2, depth 1,
//                                             kind 1, flags 0, no value, shape 1
//   01 00                                     form column, 1 byte: form 0
//   02 a8 14                                  end column: ZigZag(1300) = 2600
//   02 ac 02                                  duration column: 300
//   00                                        value column, empty
//   02 00 04                                  field 0, delta: ZigZag(2) = 4
//   02 00 00                                  field 1, delta: 0
//   57 b5 c1 2c                               checksum: low half of XXH64 of the body
namespace poolscope {

inline constexpr uint8_t kChunkFormat = 1;
inline constexpr uint8_t kColumnDelta = 0;
inline constexpr uint8_t kColumnRaw = 1;
// Payload words of a chunk, headers included; a writer starts a new chunk before it gets there.
inline constexpr size_t kMaxWordsPerChunk = size_t{4} << 20;
static_assert(kMaxWordsPerChunk * 8 + size_t{kMaxEventsPerChunk} * 128 <= kMaxChunkBytes,
              "the largest chunk that may be written can be read");

// Codes batches. Keeps its working memory from call to call: one per thread.
class ChunkEncoder {
 public:
  ChunkEncoder();
  ~ChunkEncoder();
  ChunkEncoder(ChunkEncoder&&) noexcept;
  ChunkEncoder& operator=(ChunkEncoder&&) noexcept;

  // The chunk's bytes, valid until the next call. Error: too many events or words, or a payload
  // that is not made of whole groups.
  Result<std::span<const uint8_t>> Encode(const EventBatch& batch);

 private:
  struct Work;
  std::unique_ptr<Work> work_;
};

// Bytes from a file: any content gives either events or an Error, in bounded time and memory.
// Replaces the content of `batch`; payload offsets follow one another.
Status DecodeChunk(std::span<const uint8_t> bytes, EventBatch& batch);

// The body of a chunk alone, as inside the frame (for tests and the fuzzer).
Status DecodeChunkBody(std::span<const uint8_t> body, EventBatch& batch);

}  // namespace poolscope
