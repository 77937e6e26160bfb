#include "reference-trainer/membership.h"

#include <gtest/gtest.h>

namespace poolscope::trainer {
namespace {

using Workers = std::vector<uint64_t>;

TEST(Membership, WhoJoinsAndLeaves_ComputesFromAndUpToThatStep) {
  Membership membership(2, {{2, 5}, {1, 3}}, {{1, 4, 0}});
  EXPECT_EQ(membership.workers(), 5u);
  EXPECT_EQ(membership.Members(2), (Workers{0, 1}));
  EXPECT_EQ(membership.Of(2), Presence::kAway);
  EXPECT_EQ(membership.Members(3), (Workers{0, 1, 2}));
  EXPECT_EQ(membership.Of(2), Presence::kPresent);
  EXPECT_EQ(membership.Members(4), (Workers{0, 2}));
  EXPECT_EQ(membership.Of(1), Presence::kGone);
  EXPECT_EQ(membership.Members(5), (Workers{0, 2, 3, 4}));
  EXPECT_EQ(membership.FirstStep(2), 3u);
  EXPECT_EQ(membership.FirstStep(4), 5u);
}

TEST(Membership, OnceDecided_StaysWhateverHappens) {
  Membership membership(3, {}, {});
  EXPECT_EQ(membership.Members(1).size(), 3u);
  EXPECT_TRUE(membership.Drop(1));
  EXPECT_FALSE(membership.Drop(1));
  EXPECT_EQ(membership.Members(1).size(), 3u);
  EXPECT_EQ(membership.Members(2), (Workers{0, 2}));
}

TEST(Membership, LeaveInTheMiddleOfAStep_IsTheWorkersOwnDoing) {
  Membership membership(2, {}, {{1, 4, 0.5}});
  EXPECT_EQ(membership.Members(5).size(), 2u);
}

TEST(Membership, Leases_RunOutOnlyForThosePresentThatOnceBeat) {
  Membership membership(3, {{1, 9}}, {});
  membership.Beat(0, 100);
  membership.Beat(1, 150);
  EXPECT_EQ(membership.Expired(199, 100), (Workers{}));
  EXPECT_EQ(membership.Expired(200, 100), (Workers{0}));
  membership.Beat(0, 201);
  membership.Drop(1);
  EXPECT_EQ(membership.Expired(300, 100), (Workers{}));
}

}  // namespace
}  // namespace poolscope::trainer
