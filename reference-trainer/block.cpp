#include "reference-trainer/block.h"

#include <cmath>

#include "reference-trainer/codec_stream.h"

namespace poolscope::trainer {

uint64_t WireBytes(const Codec& codec, uint64_t raw_bytes) {
  return static_cast<uint64_t>(
      std::ceil(StatedFigures(codec).ratio * static_cast<double>(raw_bytes)));
}

Block Encode(const Codec& codec, std::span<const float> values) {
  return Encoder(codec).Encode(values);
}

bool Decode(const Block& block, std::vector<float>& values, std::string& error) {
  return Decoder().Decode(block, block.count, values, error);
}

}  // namespace poolscope::trainer
