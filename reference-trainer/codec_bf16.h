#pragma once

#include <cstdint>
#include <span>

namespace poolscope::trainer {

// bfloat16: the upper half of a float's bits, rounded to nearest, ties to even. NaN stays NaN.
uint16_t ToBf16(float value);
float FromBf16(uint16_t bits);

// wire[2 * values.size()], little endian.
void EncodeBf16(std::span<const float> values, std::span<uint8_t> wire);
void DecodeBf16(std::span<const uint8_t> wire, std::span<float> values);

}  // namespace poolscope::trainer
