#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace poolscope::trainer {

// [begin, end) of a flat array.
struct Part {
  size_t begin = 0;
  size_t end = 0;
  size_t size() const { return end - begin; }
};

// Part `index` of `count` of [0, total), as evenly as it goes.
Part PartOf(size_t total, size_t index, size_t count);

// Parts of a flat array in ascending order that do not overlap. The values of a shard are those of
// its ranges, one range after another.
using Ranges = std::vector<Part>;

size_t SizeOf(const Ranges& ranges);

// The values of `ranges` of `all`: a part of `all` where that is one range, else copied into `out`.
std::span<const float> Gather(std::span<const float> all, const Ranges& ranges,
                              std::vector<float>& out);

// Writes values[SizeOf(ranges)] to their places in `all`.
void Scatter(std::span<const float> values, const Ranges& ranges, std::span<float> all);

}  // namespace poolscope::trainer
