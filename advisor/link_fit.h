#pragma once

#include <cstdint>
#include <vector>

#include "advisor/event_records.h"

// Latency and bandwidth of one link from its transfers' wire stages.
namespace poolscope {

struct LinkFit {
  double ns_per_byte = 0;
  double latency_ns = 0;
  // Set where one size of message and no backlog leave open which of the two it is: the truth lies
  // between all latency and all bandwidth.
  bool ambiguous = false;
  double typical_ns = 0;     // wire time of the usual message
  double typical_bytes = 0;  // its wire bytes
  int64_t transfers = 0;     // fitted, without probes
};

// `transfers`: of this link alone, probes included (they have no step). Robust: medians. A
// message that waited for the lane shows the bytes' share directly, since it starts when the one
// before it has left; where none waited, two sizes of message tell.
LinkFit FitLink(const std::vector<TransferRecord>& transfers, int lanes);

}  // namespace poolscope
