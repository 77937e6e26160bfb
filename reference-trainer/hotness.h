#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace poolscope::trainer {

// How often each block was used, and how hot it is: its uses, each of which counts a tenth less per
// micro-batch since. One thread.
class Hotness {
 public:
  static constexpr double kDecay = 0.9;

  explicit Hotness(size_t blocks) : uses_(blocks, 0), scores_(blocks, 0) {}

  void Count(size_t block) {
    ++uses_[block];
    scores_[block] += 1;
  }
  // A micro-batch begins.
  void Decay() {
    for (double& each : scores_) each *= kDecay;
  }

  size_t blocks() const { return uses_.size(); }
  uint64_t uses(size_t block) const { return uses_[block]; }
  double score(size_t block) const { return scores_[block]; }
  // The `count` hottest blocks, the hottest first.
  std::vector<size_t> Hottest(size_t count) const;

 private:
  std::vector<uint64_t> uses_;
  std::vector<double> scores_;
};

}  // namespace poolscope::trainer
