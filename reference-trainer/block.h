#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace poolscope::trainer {

enum class Codec { kNone, kBf16 };

// Bytes on the wire for `raw_bytes` of floats.
uint64_t WireBytes(Codec codec, uint64_t raw_bytes);

// Values as they cross a link: encoded, with a checksum over the encoded bytes.
struct Block {
  std::vector<uint8_t> bytes;
  uint32_t crc32c = 0;
  Codec codec = Codec::kNone;
};

Block Encode(Codec codec, std::span<const float> values);

// Fills `values`. False, and `error` says why, where the checksum or the size is wrong.
bool Decode(const Block& block, std::vector<float>& values, std::string& error);

}  // namespace poolscope::trainer
