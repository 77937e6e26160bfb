#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "advisor/report.h"
#include "store/rows.h"

namespace poolscope {

// Findings of one run over time: each appears when it is first found and clears only when several
// evaluations in a row did not find it, so that one at its threshold does not flicker.
class FindingTracker {
 public:
  static constexpr int kMissesToClear = 3;

  explicit FindingTracker(std::string run_id) : run_id_(std::move(run_id)) {}

  // Takes up the episodes that an earlier collector left active.
  void Load(const std::vector<FindingRow>& stored);
  // One evaluation at `now_ns`. Returns the rows to store: what holds, and what cleared just now.
  std::vector<FindingRow> Update(const std::vector<Finding>& found, int64_t now_ns);

 private:
  struct Episode {
    FindingRow row;
    int misses = 0;
  };
  std::string run_id_;
  std::map<std::pair<std::string, std::string>, Episode> active_;  // by (rule, subject)
};

}  // namespace poolscope
