#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace poolscope::trainer {

// IEEE 754 binary16, rounded to nearest, ties to even; infinite from 65520. NaN stays NaN.
uint16_t ToFp16(float value);
float FromFp16(uint16_t bits);

// Values × a power of two of the message's own that brings the largest finite one into [2¹⁴, 2¹⁵):
// none overflows, and those down to 2⁻²⁸ of the largest keep all 11 bits.
//
//   i32 exponent of the power of two | u16 × values.size()       little endian
void EncodeFp16(std::span<const float> values, std::vector<uint8_t>& wire);

// Fills values[count of the message]. False, and `error` says why, where the wire is malformed.
bool DecodeFp16(std::span<const uint8_t> wire, std::span<float> values, std::string& error);

}  // namespace poolscope::trainer
