#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace poolscope::trainer {

// The largest ⌈fraction × values.size()⌉ values by magnitude (NaN counts as the largest), the
// earlier ones where several are equal; the others decode to 0.
//
//   u32 k | u32 × k indexes, ascending | f32 × k values       little endian
void EncodeTopK(double fraction, std::span<const float> values, std::vector<uint8_t>& wire);

// Fills values[count of the message]. False, and `error` says why, where the wire is malformed.
bool DecodeTopK(std::span<const uint8_t> wire, std::span<float> values, std::string& error);

}  // namespace poolscope::trainer
