#include "reference-trainer/codec_one_bit.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace poolscope::trainer {
namespace {

size_t Groups(size_t count) { return (count + kOneBitGroup - 1) / kOneBitGroup; }

}  // namespace

void EncodeOneBit(std::span<const float> values, std::vector<uint8_t>& wire) {
  const size_t groups = Groups(values.size());
  wire.assign(groups * sizeof(float) + (values.size() + 7) / 8, 0);
  uint8_t* signs = wire.data() + groups * sizeof(float);
  for (size_t group = 0; group < groups; ++group) {
    const size_t begin = group * kOneBitGroup;
    const size_t end = std::min(values.size(), begin + kOneBitGroup);
    float sum = 0;
    for (size_t i = begin; i < end; ++i) sum += std::abs(values[i]);
    const float scale = sum / static_cast<float>(end - begin);
    std::memcpy(wire.data() + group * sizeof(float), &scale, sizeof(float));
    for (size_t i = begin; i < end; ++i) {
      const uint32_t negative = std::bit_cast<uint32_t>(values[i]) >> 31;
      signs[i / 8] = static_cast<uint8_t>(signs[i / 8] | (negative << (i % 8)));
    }
  }
}

bool DecodeOneBit(std::span<const uint8_t> wire, std::span<float> values, std::string& error) {
  const size_t groups = Groups(values.size());
  if (wire.size() != groups * sizeof(float) + (values.size() + 7) / 8) {
    error = fmt::format("{} bytes of 1bit for {} values", wire.size(), values.size());
    return false;
  }
  const uint8_t* signs = wire.data() + groups * sizeof(float);
  for (size_t i = 0; i < values.size(); ++i) {
    uint32_t scale;
    std::memcpy(&scale, wire.data() + i / kOneBitGroup * sizeof(float), sizeof(scale));
    const uint32_t negative = (signs[i / 8] >> (i % 8)) & 1U;
    values[i] = std::bit_cast<float>(scale ^ (negative << 31));
  }
  return true;
}

}  // namespace poolscope::trainer
