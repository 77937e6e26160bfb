#include <fmt/format.h>

#include <algorithm>

#include "advisor/rules/rule.h"

namespace poolscope {
namespace {

constexpr double kApart = 0.20;

}  // namespace

std::vector<Finding> PoolImbalance(const RuleInput& input) {
  std::vector<const PoolTotals*> pools;
  for (const PoolTotals& pool : input.totals.pools) {
    if (pool.end_ns > pool.begin_ns) pools.push_back(&pool);
  }
  if (pools.size() < 2) return {};
  if (input.span.lossy) return {Abstain("pool_imbalance", input)};
  const auto by_busy = [](const PoolTotals* a, const PoolTotals* b) {
    return a->busy_ratio < b->busy_ratio;
  };
  const auto [idlest_at, busiest_at] = std::minmax_element(pools.begin(), pools.end(), by_busy);
  const PoolTotals& busiest = **busiest_at;
  const PoolTotals& idlest = **idlest_at;
  const double apart = busiest.busy_ratio - idlest.busy_ratio;
  if (apart <= kApart) return {};

  Finding finding;
  finding.rule = "pool_imbalance";
  finding.subject = busiest.pool;
  finding.evidence.push_back(
      {.text = fmt::format("{} was busy {} of its time, {} {}", busiest.pool,
                           Percent(busiest.busy_ratio), idlest.pool, Percent(idlest.busy_ratio)),
       .subject = busiest.pool,
       .begin_ns = std::max(busiest.begin_ns, idlest.begin_ns),
       .end_ns = std::min(busiest.end_ns, idlest.end_ns),
       .numbers = {{busiest.pool + "_busy_ratio", busiest.busy_ratio},
                   {idlest.pool + "_busy_ratio", idlest.busy_ratio},
                   {"difference_ratio", apart}}});
  Conclude(finding, input, &input.advice.pool_ratio);
  finding.summary =
      finding.recommendation
          ? fmt::format("{} is short of workers: busy {} while {} is busy {}", busiest.pool,
                        Percent(busiest.busy_ratio), idlest.pool, Percent(idlest.busy_ratio))
          : fmt::format("the pools are unevenly busy: {} {}, {} {}", busiest.pool,
                        Percent(busiest.busy_ratio), idlest.pool, Percent(idlest.busy_ratio));
  return {finding};
}

}  // namespace poolscope
