#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace poolscope::trainer {

// Values that share one scale: 1 + 32 ÷ 128 = 1.25 bits a value.
inline constexpr size_t kOneBitGroup = 128;

// Of each value its sign, of each group of 128 the mean magnitude, with which the signs decode: the
// scale that makes the squared error least (Seide, Fu, Droppo, Li, Yu 2014).
//
//   f32 × ⌈n ÷ 128⌉ scales | ⌈n ÷ 8⌉ bytes of signs, first in bit 0, 1 is negative    little endian
void EncodeOneBit(std::span<const float> values, std::vector<uint8_t>& wire);

// Fills values[count of the message]. False, and `error` says why, where the wire is malformed.
bool DecodeOneBit(std::span<const uint8_t> wire, std::span<float> values, std::string& error);

}  // namespace poolscope::trainer
