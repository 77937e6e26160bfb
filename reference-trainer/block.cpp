#include "reference-trainer/block.h"

#include <fmt/format.h>

#include <cstring>

#include "reference-trainer/codec_bf16.h"
#include "reference-trainer/crc32c.h"

namespace poolscope::trainer {

uint64_t WireBytes(Codec codec, uint64_t raw_bytes) {
  return codec == Codec::kBf16 ? (raw_bytes + 1) / 2 : raw_bytes;
}

Block Encode(Codec codec, std::span<const float> values) {
  Block block;
  block.codec = codec;
  block.bytes.resize(WireBytes(codec, values.size_bytes()));
  if (codec == Codec::kBf16) {
    EncodeBf16(values, block.bytes);
  } else if (!values.empty()) {
    std::memcpy(block.bytes.data(), values.data(), values.size_bytes());
  }
  block.crc32c = Crc32c(block.bytes);
  return block;
}

bool Decode(const Block& block, std::vector<float>& values, std::string& error) {
  const uint32_t crc = Crc32c(block.bytes);
  if (crc != block.crc32c) {
    error = fmt::format("CRC32C is {:08X}, the sender wrote {:08X}", crc, block.crc32c);
    return false;
  }
  const size_t width = block.codec == Codec::kBf16 ? 2 : sizeof(float);
  if (block.bytes.size() % width != 0) {
    error = fmt::format("{} bytes are no whole number of values", block.bytes.size());
    return false;
  }
  values.resize(block.bytes.size() / width);
  if (block.codec == Codec::kBf16) {
    DecodeBf16(block.bytes, values);
  } else if (!values.empty()) {
    std::memcpy(values.data(), block.bytes.data(), block.bytes.size());
  }
  return true;
}

}  // namespace poolscope::trainer
