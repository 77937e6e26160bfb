#include <fmt/format.h>

#include "advisor/rules/rule.h"

namespace poolscope {
namespace {

constexpr double kStallRatio = 0.05;

}  // namespace

std::vector<Finding> CheckpointStalls(const RuleInput& input) {
  std::vector<Finding> findings;
  for (const PoolTotals& pool : input.totals.pools) {
    if (pool.stall_ratio <= kStallRatio) continue;
    if (input.span.lossy) return {Abstain("checkpoint_stalls", input)};
    Finding finding;
    finding.rule = "checkpoint_stalls";
    finding.subject = pool.pool;
    finding.evidence.push_back(
        {.text = fmt::format("workers of {} spent {} of their time on it, most of that in {}",
                             pool.pool, Percent(pool.stall_ratio), pool.stall),
         .subject = pool.pool,
         .begin_ns = pool.begin_ns,
         .end_ns = pool.end_ns,
         .numbers = {{"stall_ratio", pool.stall_ratio}, {"busy_ratio", pool.busy_ratio}}});
    Conclude(finding, input, nullptr);
    finding.summary = fmt::format("{} stood still for {} {} of its time", pool.pool, pool.stall,
                                  Percent(pool.stall_ratio));
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace poolscope
