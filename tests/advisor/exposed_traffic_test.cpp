#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "advisor/rules/rule.h"

// What the rule says when a change of a link pays that makes nobody wait.
namespace poolscope {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

std::vector<Finding> FindingsOf(double exposed_share, const std::string& gain_from,
                                const std::string& to_pool = "update") {
  RunData run;
  run.pools = {{"r", "compute", "compute", 4}, {"r", "update", "update", 1}};
  run.links = {{"r", "gradients", "compute", to_pool, 8, 1}};
  WindowTotals totals;
  totals.links.push_back({.link = "gradients"});
  totals.links[0].transfers = 9;
  totals.links[0].traffic_share = 0.4;
  totals.links[0].exposed_share = exposed_share;
  totals.links[0].end_ns = 1;
  Advice advice;
  advice.producer = "compute";
  Option& option = advice.compression["gradients"];
  option.recommendation.emplace();
  option.recommendation->predicted_speedup = 1.3;
  option.gain_from = gain_from;
  const AnalysedSpan span;
  return ExposedTraffic({run, span, totals, advice});
}

Finding FindingOf(double exposed_share, const std::string& gain_from) {
  return FindingsOf(exposed_share, gain_from).at(0);
}

TEST(ExposedTraffic, NothingExposed_SaysWhatTheGainComesFrom) {
  const Finding finding = FindingOf(0, "discarded work (24.0 ms)");
  EXPECT_THAT(finding.summary, Not(HasSubstr("too much")));
  EXPECT_EQ(finding.summary,
            "gradients traffic: 40.0 % of the senders' time on it, 0.0 % exposed; less of it would "
            "save discarded work (24.0 ms)");
  EXPECT_EQ(finding.evidence.back().text,
            "the gain: per step, a worker of compute would save discarded work (24.0 ms)");
}

TEST(ExposedTraffic, Exposed_IsTooMuch) {
  EXPECT_THAT(FindingOf(0.2, "waiting for weights (9.0 ms)").summary,
              StartsWith("too much gradients traffic"));
}

TEST(ExposedTraffic, InsideAPool_IsNoTrafficBetweenPools) {
  EXPECT_THAT(FindingsOf(0.2, "waiting", "compute"), IsEmpty());
}

}  // namespace
}  // namespace poolscope
