#include "collector/finding_tracker.h"

#include <gtest/gtest.h>

namespace poolscope {
namespace {

Finding Of(const char* rule, const char* subject) {
  Finding finding;
  finding.rule = rule;
  finding.subject = subject;
  finding.severity = "warning";
  return finding;
}

TEST(FindingTracker, Finding_AppearsAtOnceAndClearsAfterSeveralMisses) {
  FindingTracker tracker("run");
  auto rows = tracker.Update({Of("exposed_traffic", "weights")}, 100);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_TRUE(rows[0].active);
  EXPECT_EQ(rows[0].first_ns, 100);
  for (int miss = 1; miss < FindingTracker::kMissesToClear; ++miss) {
    rows = tracker.Update({}, 100 + miss);
    ASSERT_EQ(rows.size(), 1u);
    EXPECT_TRUE(rows[0].active) << "after " << miss << " misses";
    EXPECT_EQ(rows[0].last_ns, 100) << "the last time it held";
  }
  rows = tracker.Update({}, 200);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_FALSE(rows[0].active);
  EXPECT_TRUE(tracker.Update({}, 300).empty());
}

TEST(FindingTracker, FindingAtItsThreshold_DoesNotFlicker) {
  FindingTracker tracker("run");
  for (int i = 0; i < 10; ++i) {
    std::vector<Finding> found;
    if (i % 2 == 0) found.push_back(Of("pool_imbalance", "update"));
    const auto rows = tracker.Update(found, i);
    ASSERT_EQ(rows.size(), 1u);
    EXPECT_TRUE(rows[0].active);
    EXPECT_EQ(rows[0].first_ns, 0) << "one episode";
  }
}

TEST(FindingTracker, SameRuleOnTwoLinks_AreTwoFindings) {
  FindingTracker tracker("run");
  EXPECT_EQ(
      tracker.Update({Of("exposed_traffic", "weights"), Of("exposed_traffic", "gradients")}, 1)
          .size(),
      2u);
}

TEST(FindingTracker, Restart_TakesUpTheEpisode) {
  FindingTracker first("run");
  const auto stored = first.Update({Of("pool_imbalance", "update")}, 10);
  FindingTracker second("run");
  second.Load(stored);
  const auto rows = second.Update({Of("pool_imbalance", "update")}, 50);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].first_ns, 10);
  EXPECT_EQ(rows[0].last_ns, 50);
}

}  // namespace
}  // namespace poolscope
