#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "advisor/run_data.h"
#include "store/store.h"
#include "trace/result.h"

namespace poolscope {

// What of a run belongs to no pool or means nothing to it, and what of its meaning was inferred.
struct Unattributed {
  struct Thread {
    std::string name;
    int64_t pid = 0, tid = 0;
    int64_t ranges = 0;
    double seconds = 0;  // in its outermost ranges
    double share = 0;    // of the time that all threads spent so
  };
  struct Range {  // of a kind, on threads of workers
    std::string domain, name;
    int64_t count = 0;
    double seconds = 0;  // sum over them, nested ones too
    double share = 0;    // of the time of the workers' threads that was looked at
  };
  struct Inferred {
    std::string what, how;
  };
  std::vector<Thread> threads;  // of no pool, most time first
  double threads_share = 0;     // sum over their shares
  std::vector<Range> ranges;    // most time first
  std::vector<Inferred> inferred;

  bool empty() const { return threads.empty() && ranges.empty() && inferred.empty(); }
};

// Looks at all threads, and for ranges at the newest events of workers' threads.
Result<Unattributed> FindUnattributed(const Store& store, const RunData& run);

}  // namespace poolscope
