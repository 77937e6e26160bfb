#include "reference-trainer/codec_fp16.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace poolscope::trainer {
namespace {

constexpr uint32_t kInfinityBits = 0x7F800000;  // of float
constexpr uint32_t kRebias = 0x38000000;        // (127 − 15) << 23
constexpr int kTopExponent = 14;                // of the largest value once scaled
constexpr int kMaxExponent = 126;               // so that 2^±exponent are normal floats

// 2^exponent, exact.
float PowerOfTwo(int exponent) {
  return std::bit_cast<float>(static_cast<uint32_t>(exponent + 127) << 23);
}

int ExponentFor(std::span<const float> values) {
  uint32_t largest = 0;
  for (const float value : values) {
    const uint32_t magnitude = std::bit_cast<uint32_t>(value) & 0x7FFFFFFF;
    largest = std::max(largest, magnitude < kInfinityBits ? magnitude : 0);
  }
  if (largest == 0) return 0;
  const int exponent = kTopExponent - std::ilogb(std::bit_cast<float>(largest));
  return std::clamp(exponent, -kMaxExponent, kMaxExponent);
}

}  // namespace

uint16_t ToFp16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000, magnitude = bits & 0x7FFFFFFF;
  if (magnitude > kInfinityBits) return static_cast<uint16_t>(sign | 0x7E00);
  if (magnitude >= 0x47800000) return static_cast<uint16_t>(sign | 0x7C00);  // 2¹⁶ and above
  if (magnitude < 0x38800000) {  // below 2⁻¹⁴: added to ½, a float's last bit is 2⁻²⁴
    const float rounded = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(rounded) - 0x3F000000));
  }
  const uint32_t rounded = magnitude + 0xFFF + ((magnitude >> 13) & 1);
  return static_cast<uint16_t>(sign | ((rounded - kRebias) >> 13));
}

float FromFp16(uint16_t bits) {
  const uint32_t sign = uint32_t{bits & 0x8000U} << 16, magnitude = bits & 0x7FFF;
  if (magnitude >= 0x7C00) return std::bit_cast<float>(sign | kInfinityBits | (magnitude << 13));
  if (magnitude >= 0x0400) return std::bit_cast<float>(sign | ((magnitude << 13) + kRebias));
  const float subnormal = static_cast<float>(magnitude) * 0x1p-24F;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(subnormal));
}

void EncodeFp16(std::span<const float> values, std::vector<uint8_t>& wire) {
  const int32_t exponent = ExponentFor(values);
  const float scale = PowerOfTwo(exponent);
  wire.resize(sizeof(exponent) + 2 * values.size());
  std::memcpy(wire.data(), &exponent, sizeof(exponent));
  uint8_t* out = wire.data() + sizeof(exponent);
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t bits = ToFp16(values[i] * scale);
    std::memcpy(out + 2 * i, &bits, 2);
  }
}

bool DecodeFp16(std::span<const uint8_t> wire, std::span<float> values, std::string& error) {
  int32_t exponent = 0;
  if (wire.size() != sizeof(exponent) + 2 * values.size()) {
    error = fmt::format("{} bytes of fp16 for {} values", wire.size(), values.size());
    return false;
  }
  std::memcpy(&exponent, wire.data(), sizeof(exponent));
  if (exponent < -kMaxExponent || exponent > kMaxExponent) {
    error = fmt::format("fp16 scale 2^{} is out of range", exponent);
    return false;
  }
  const float scale = PowerOfTwo(-exponent);
  const uint8_t* in = wire.data() + sizeof(exponent);
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t bits;
    std::memcpy(&bits, in + 2 * i, 2);
    values[i] = FromFp16(bits) * scale;
  }
  return true;
}

}  // namespace poolscope::trainer
