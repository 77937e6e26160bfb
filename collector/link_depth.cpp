#include "collector/link_depth.h"

#include <algorithm>

namespace poolscope {

void LinkDepth::EndSource(const std::string& source, int64_t ns) {
  const auto found = sources_.find(source);
  if (found != sources_.end()) found->second.samples.push_back({-1, ns, 0});
}

LinkDepth::Window LinkDepth::Close(int64_t begin_ns, int64_t end_ns) {
  double depth = 0;
  std::vector<std::pair<int64_t, double>> changes;
  for (auto& [name, source] : sources_) {
    depth += source.now;
    std::stable_sort(source.samples.begin(), source.samples.end(),
                     [](const auto& a, const auto& b) { return a.at_ns < b.at_ns; });
    for (const DepthSample& sample : source.samples) {
      if (sample.at_ns >= end_ns) break;
      changes.emplace_back(sample.at_ns, sample.depth - source.now);
      source.now = sample.depth;
    }
    std::erase_if(source.samples, [&](const auto& sample) { return sample.at_ns < end_ns; });
  }
  std::erase_if(sources_, [](const auto& entry) {
    return entry.second.now == 0 && entry.second.samples.empty();
  });
  std::stable_sort(changes.begin(), changes.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  Window window{0, depth};
  int64_t at = begin_ns;
  for (const auto& [ns, change] : changes) {
    if (ns > at) {
      window.mean += depth * static_cast<double>(ns - at);
      at = ns;
    }
    depth += change;
    window.max = ns < begin_ns ? depth : std::max(window.max, depth);
  }
  window.mean += depth * static_cast<double>(end_ns - at);
  window.mean /= static_cast<double>(end_ns - begin_ns);
  return window;
}

}  // namespace poolscope
