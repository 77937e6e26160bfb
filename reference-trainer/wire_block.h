#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace poolscope::trainer {

// Data carry contents; an acknowledgement answers data, a request asks for them.
enum class BlockKind : uint32_t { kData, kAcknowledgement, kRequest };

// What a block says of itself. The blocks of one message share its contents evenly: part k of n
// holds the bytes [size × k ÷ n, size × (k + 1) ÷ n). A stream is what one worker sends to another
// on one link.
struct BlockHeader {
  BlockKind kind = BlockKind::kData;
  uint32_t source = 0;
  uint32_t destination = 0;
  uint32_t attempt = 0;  // which try this is, from 0; of an acknowledgement: of what it answers
  uint64_t message = 0;  // number in its stream, from 0
  uint64_t version = 0;  // of the weights, as in Message
  uint64_t size = 0;     // bytes of the whole message's contents
  uint32_t part = 0;
  uint32_t parts = 1;

  uint64_t begin() const { return size * part / parts; }
  uint64_t end() const { return size * (part + uint64_t{1}) / parts; }
};
static_assert(sizeof(BlockHeader) == 48, "it has no padding: its bytes are what is sent");

inline constexpr uint32_t kMaxParts = 1 << 16;
// Header and checksum: what a block needs beside its share of the message.
inline constexpr uint64_t kBlockOverhead = sizeof(BlockHeader) + sizeof(uint32_t);

// The block as it crosses the wire: header | contents | CRC32C of both, little-endian. The checksum
// stands last, so that it detects any burst of up to 32 bits wherever it lies. `contents` are the
// block's own, none but of data.
std::vector<uint8_t> Seal(const BlockHeader& header, std::span<const uint8_t> contents);

// The reverse, of untrusted bytes. False: damaged, or no block.
[[nodiscard]] bool Unseal(std::span<const uint8_t> wire, BlockHeader& header,
                          std::span<const uint8_t>& contents);

}  // namespace poolscope::trainer
