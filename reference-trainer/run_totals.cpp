#include "reference-trainer/run_totals.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace poolscope::trainer {

std::string Text(const RunTotals& totals) {
  const std::vector<uint64_t>& tokens = totals.expert_tokens;
  const auto sum = static_cast<double>(std::accumulate(tokens.begin(), tokens.end(), 0ULL));
  if (sum == 0) return "";
  std::string text = "experts, share of tokens:";
  for (const uint64_t each : tokens) {
    text += fmt::format(" {:.1f} %", 100 * static_cast<double>(each) / sum);
  }
  return text + "\n";
}

std::string Json(const RunTotals& totals) {
  if (totals.expert_tokens.empty()) return "";
  return fmt::format(",\"expert_tokens\":[{}]", fmt::join(totals.expert_tokens, ","));
}

}  // namespace poolscope::trainer
