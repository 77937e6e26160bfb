#pragma once

#include <cstdint>

namespace poolscope::trainer {

// Which process (rank) does the work of which worker: compute workers first, then update workers,
// each process about as many as the others; those that join later count from the start. At most as
// many processes as workers.
struct Placement {
  int rank = 0, ranks = 1;
  uint64_t compute_workers = 0, update_workers = 0;

  int OfCompute(uint64_t index) const { return Of(index); }
  int OfUpdate(uint64_t index) const { return Of(compute_workers + index); }

 private:
  int Of(uint64_t worker) const {
    return static_cast<int>(worker * static_cast<uint64_t>(ranks) /
                            (compute_workers + update_workers));
  }
};

}  // namespace poolscope::trainer
