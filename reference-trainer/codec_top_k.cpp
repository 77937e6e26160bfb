#include "reference-trainer/codec_top_k.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>

namespace poolscope::trainer {
namespace {

// Magnitudes in the order of their bits, in which NaN has a place too.
uint32_t Magnitude(float value) { return std::bit_cast<uint32_t>(value) & 0x7FFFFFFF; }

}  // namespace

void EncodeTopK(double fraction, std::span<const float> values, std::vector<uint8_t>& wire) {
  const size_t wanted =
      static_cast<size_t>(std::ceil(fraction * static_cast<double>(values.size())));
  const size_t k = std::min(values.size(), std::max<size_t>(wanted, 1));
  std::vector<uint32_t> magnitudes(values.size());
  std::transform(values.begin(), values.end(), magnitudes.begin(), Magnitude);
  const auto last = magnitudes.begin() + static_cast<std::ptrdiff_t>(k) - 1;
  std::nth_element(magnitudes.begin(), last, magnitudes.end(), std::greater<>());
  const uint32_t threshold = *last;
  // All above the threshold, and the first of those at it.
  size_t at_threshold =
      k - static_cast<size_t>(std::count_if(magnitudes.begin(), last,
                                            [&](uint32_t each) { return each > threshold; }));

  const auto count = static_cast<uint32_t>(k);
  wire.resize(sizeof(count) + k * (sizeof(uint32_t) + sizeof(float)));
  std::memcpy(wire.data(), &count, sizeof(count));
  uint8_t* indexes = wire.data() + sizeof(count);
  uint8_t* kept = indexes + k * sizeof(uint32_t);
  for (size_t i = 0; i < values.size(); ++i) {
    const uint32_t magnitude = Magnitude(values[i]);
    if (magnitude < threshold) continue;
    if (magnitude == threshold) {
      if (at_threshold == 0) continue;
      --at_threshold;
    }
    const auto index = static_cast<uint32_t>(i);
    std::memcpy(indexes, &index, sizeof(index));
    std::memcpy(kept, &values[i], sizeof(float));
    indexes += sizeof(index);
    kept += sizeof(float);
  }
}

bool DecodeTopK(std::span<const uint8_t> wire, std::span<float> values, std::string& error) {
  uint32_t k = 0;
  if (wire.size() >= sizeof(k)) std::memcpy(&k, wire.data(), sizeof(k));
  if (wire.size() != sizeof(k) + uint64_t{k} * (sizeof(uint32_t) + sizeof(float)) ||
      k > values.size()) {
    error = fmt::format("{} bytes of top-k for {} of {} values", wire.size(), k, values.size());
    return false;
  }
  const uint8_t* indexes = wire.data() + sizeof(k);
  const uint8_t* kept = indexes + k * sizeof(uint32_t);
  std::fill(values.begin(), values.end(), 0.0F);
  uint64_t next = 0;
  for (uint32_t i = 0; i < k; ++i) {
    uint32_t index;
    std::memcpy(&index, indexes + i * sizeof(index), sizeof(index));
    if (index < next || index >= values.size()) {
      error =
          fmt::format("top-k index {} of {} values is out of order or range", index, values.size());
      return false;
    }
    std::memcpy(&values[index], kept + i * sizeof(float), sizeof(float));
    next = uint64_t{index} + 1;
  }
  return true;
}

}  // namespace poolscope::trainer
