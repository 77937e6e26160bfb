#include "reference-trainer/codec_bf16.h"

#include <bit>
#include <cstring>

namespace poolscope::trainer {

static_assert(std::endian::native == std::endian::little);

uint16_t ToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

float FromBf16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

void EncodeBf16(std::span<const float> values, std::span<uint8_t> wire) {
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t bits = ToBf16(values[i]);
    std::memcpy(wire.data() + 2 * i, &bits, 2);
  }
}

void DecodeBf16(std::span<const uint8_t> wire, std::span<float> values) {
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t bits;
    std::memcpy(&bits, wire.data() + 2 * i, 2);
    values[i] = FromBf16(bits);
  }
}

}  // namespace poolscope::trainer
