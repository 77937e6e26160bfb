#include "reference-trainer/expert_load.h"

#include <fmt/format.h>
#include <poolscope/annotate.h>

namespace poolscope::trainer {

ExpertLoad::ExpertLoad(size_t experts) : tokens_(experts, 0) {
  for (size_t e = 0; e < experts; ++e) {
    counters_.push_back(poolscope_counter(fmt::format("experts.{}.tokens", e).c_str()));
  }
}

void ExpertLoad::Add(std::span<const uint64_t> load) {
  std::lock_guard lock(mutex_);
  for (size_t e = 0; e < load.size(); ++e) {
    tokens_[e] += load[e];
    poolscope_sample(counters_[e], static_cast<double>(tokens_[e]));
  }
}

std::vector<uint64_t> ExpertLoad::tokens() {
  std::lock_guard lock(mutex_);
  return tokens_;
}

}  // namespace poolscope::trainer
