#include "collector/finding_tracker.h"

namespace poolscope {

void FindingTracker::Load(const std::vector<FindingRow>& stored) {
  for (const FindingRow& row : stored) {
    if (row.active) active_[{row.rule, row.subject}] = {row, 0};
  }
}

std::vector<FindingRow> FindingTracker::Update(const std::vector<Finding>& found, int64_t now_ns) {
  for (auto& [key, episode] : active_) ++episode.misses;
  for (const Finding& finding : found) {
    const auto [at, fresh] = active_.try_emplace({finding.rule, finding.subject});
    FindingRow& row = at->second.row;
    if (fresh) row = {run_id_, finding.rule, "", finding.subject, now_ns};
    row.severity = finding.severity;
    row.json = FindingAsJson(finding);
    row.last_ns = now_ns;
    row.active = true;
    at->second.misses = 0;
  }
  std::vector<FindingRow> rows;
  for (auto it = active_.begin(); it != active_.end();) {
    it->second.row.active = it->second.misses < kMissesToClear;
    rows.push_back(it->second.row);
    it = it->second.row.active ? std::next(it) : active_.erase(it);
  }
  return rows;
}

}  // namespace poolscope
