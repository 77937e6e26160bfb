#include "reference-trainer/routing.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace poolscope::trainer {

double Distance(size_t compute, size_t compute_workers, size_t update, size_t update_workers) {
  const auto place = [](size_t i, size_t n) {
    return (static_cast<double>(i) + 0.5) / static_cast<double>(n);
  };
  const double arc = std::abs(place(compute, compute_workers) - place(update, update_workers));
  return std::min(arc, 1 - arc);
}

std::vector<size_t> HoldersOf(size_t owner, size_t replication, size_t update_workers) {
  std::vector<size_t> holders;
  for (size_t i = 0; i < replication; ++i) holders.push_back((owner + i) % update_workers);
  return holders;
}

size_t Route(Routing routing, size_t compute, size_t compute_workers,
             std::span<const size_t> holders, std::span<const uint64_t> load) {
  const auto cost = [&](size_t holder) {
    return std::pair(routing == Routing::kLeastLoaded ? load[holder] : 0,
                     Distance(compute, compute_workers, holder, load.size()));
  };
  return *std::min_element(holders.begin(), holders.end(),
                           [&](size_t a, size_t b) { return cost(a) < cost(b); });
}

}  // namespace poolscope::trainer
