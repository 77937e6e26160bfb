#include "reference-trainer/hotness.h"

#include <algorithm>
#include <numeric>

namespace poolscope::trainer {

std::vector<size_t> Hotness::Hottest(size_t count) const {
  std::vector<size_t> order(blocks());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return scores_[a] > scores_[b]; });
  order.resize(std::min(count, order.size()));
  return order;
}

}  // namespace poolscope::trainer
