#include "reference-trainer/model/ranges.h"

#include <algorithm>

namespace poolscope::trainer {

Part PartOf(size_t total, size_t index, size_t count) {
  return {total * index / count, total * (index + 1) / count};
}

size_t SizeOf(const Ranges& ranges) {
  size_t size = 0;
  for (const Part& part : ranges) size += part.size();
  return size;
}

std::span<const float> Gather(std::span<const float> all, const Ranges& ranges,
                              std::vector<float>& out) {
  if (ranges.size() == 1) return all.subspan(ranges[0].begin, ranges[0].size());
  out.clear();
  for (const Part& part : ranges) {
    const auto values = all.subspan(part.begin, part.size());
    out.insert(out.end(), values.begin(), values.end());
  }
  return out;
}

void Scatter(std::span<const float> values, const Ranges& ranges, std::span<float> all) {
  for (const Part& part : ranges) {
    std::copy_n(values.begin(), part.size(), all.begin() + static_cast<std::ptrdiff_t>(part.begin));
    values = values.subspan(part.size());
  }
}

}  // namespace poolscope::trainer
