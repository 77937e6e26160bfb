#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace poolscope::trainer {

enum class Routing { kNearest, kLeastLoaded };

// The workers of both pools stand on a circle of circumference 1, those of each pool at equal
// distances: worker i of n at (i + ½) ÷ n. The distance between two of them is the shorter arc.
double Distance(size_t compute, size_t compute_workers, size_t update, size_t update_workers);

// Block owners' neighbours hold its copies: those of owner j are at j, j + 1, … modulo the workers.
std::vector<size_t> HoldersOf(size_t owner, size_t replication, size_t update_workers);

// Which of `holders` compute worker `compute` asks: the nearest, or the one with the least
// load[holder] and of several the nearest; the first of those at the same distance.
size_t Route(Routing routing, size_t compute, size_t compute_workers,
             std::span<const size_t> holders, std::span<const uint64_t> load);

}  // namespace poolscope::trainer
