#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reference-trainer/codec.h"

namespace poolscope::trainer {

// Bytes on the wire for `raw_bytes` of floats by the codec's stated ratio.
uint64_t WireBytes(const Codec& codec, uint64_t raw_bytes);

// Values as they cross a link: encoded, with a checksum over the encoded bytes.
struct Block {
  std::vector<uint8_t> bytes;
  uint64_t count = 0;  // of values
  uint32_t crc32c = 0;
  Codec codec;
};

// The first message of a stream; see codec_stream.h for the later ones.
Block Encode(const Codec& codec, std::span<const float> values);

// Fills `values`. False, and `error` says why, where the checksum or the size is wrong.
bool Decode(const Block& block, std::vector<float>& values, std::string& error);

}  // namespace poolscope::trainer
