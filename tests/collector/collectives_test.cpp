#include "collector/collectives.h"

#include <gtest/gtest.h>

namespace poolscope {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr uint64_t kMiB = 1 << 20;

// Ranks 0 and 1 compute, rank 2 updates.
class CollectivesTest : public ::testing::Test {
 protected:
  CollectivesTest() {
    for (const auto& [pool, index] : {std::pair{"compute", 0}, {"compute", 1}, {"update", 0}}) {
      workers_.push_back(model_.AddWorker(pool, index, pool, std::string(pool) + "'s"));
    }
  }
  void Call(const char* function, int64_t rank, int64_t from_ms, int64_t to_ms, int64_t ranks,
            uint64_t sequence = 0, uint64_t communicator = 0xabc, int64_t peer = 0) {
    NcclOperation operation;
    operation.function = NcclFunctionOf(function);
    operation.timed = true;
    operation.worker = workers_[static_cast<size_t>(rank)];
    operation.communicator = communicator;
    operation.rank = rank;
    operation.ranks = ranks;
    operation.sequence = sequence;
    operation.peer = peer;
    operation.bytes = kMiB;
    operation.begin_ns = from_ms * kMs;
    operation.end_ns = to_ms * kMs;
    collectives_.Add(operation);
  }
  std::vector<Activity> Waits(int64_t until_ms = 0) {
    std::vector<Activity> waits;
    for (const Activity& activity : collectives_.Take(until_ms * kMs)) {
      (activity.category == Category::kTransfer ? transfers_ : waits).push_back(activity);
    }
    return waits;
  }
  CollectiveWindowRow Row() {
    const auto rows = collectives_.Rows(0);
    EXPECT_EQ(rows.size(), 1u);
    return rows.empty() ? CollectiveWindowRow{} : rows[0];
  }

  RunModel model_{"run"};
  std::vector<int> workers_;
  Collectives collectives_{model_};
  std::vector<Activity> transfers_;
};

TEST_F(CollectivesTest, RanksOfOnePool_WaitForTheirPeers) {
  Call("AllReduce", 0, 100, 500, 2);
  EXPECT_TRUE(Waits().empty());  // the other may come
  Call("AllReduce", 1, 400, 510, 2);
  const auto waits = Waits();
  ASSERT_EQ(waits.size(), 2u);
  EXPECT_EQ(waits[0].category, Category::kWaitPeer);
  EXPECT_EQ(waits[0].worker, workers_[0]);
  EXPECT_EQ(waits[0].begin_ns, 100 * kMs);
  EXPECT_TRUE(transfers_.empty());
  const auto row = Row();
  EXPECT_EQ(row.pools, "compute");
  EXPECT_EQ(row.communicator, "0000000000000abc");
  EXPECT_EQ(row.wire_ns, 110 * kMs);
  EXPECT_EQ(row.wait_ns, 300 * kMs);
}

TEST_F(CollectivesTest, RanksOfTwoPools_WaitForTheirLinkWhichGetsTheBytes) {
  const int link = model_.DescribeLink("weights", "update", "compute", 4, 1);
  Call("Broadcast", 2, 0, 300, 3, 7, 1, 2);
  Call("Broadcast", 0, 200, 310, 3, 7, 1, 2);
  Call("Broadcast", 1, 100, 305, 3, 7, 1, 2);
  const auto waits = Waits();
  ASSERT_EQ(waits.size(), 3u);
  ASSERT_EQ(transfers_.size(), 1u);
  EXPECT_EQ(transfers_[0].link, link);
  EXPECT_EQ(transfers_[0].source, 0u);  // the update worker
  EXPECT_EQ(transfers_[0].begin_ns, 200 * kMs);
  EXPECT_EQ(transfers_[0].end_ns, 310 * kMs);
  EXPECT_EQ(transfers_[0].wire_bytes, kMiB);
  for (const Activity& wait : waits) {
    EXPECT_EQ(wait.category, Category::kWaitLink);
    EXPECT_EQ(wait.link, link);
    EXPECT_EQ(wait.sequence, transfers_[0].sequence);  // so that the wait is split along it
  }
  EXPECT_EQ(Row().pools, "compute+update");
}

TEST_F(CollectivesTest, LinkThatNobodyDescribed_IsMadeInTheDirectionOfTheBytes) {
  Call("Reduce", 0, 0, 10, 3, 0, 1, 2);
  Call("Reduce", 1, 0, 10, 3, 0, 1, 2);
  Call("Reduce", 2, 0, 10, 3, 0, 1, 2);
  Call("Send", 2, 20, 30, 3, kNoValue, 1, 0);
  Call("Recv", 0, 20, 30, 3, kNoValue, 1, 2);
  EXPECT_EQ(Waits().size(), 5u);
  ASSERT_EQ(model_.links().size(), 2u);
  EXPECT_EQ(model_.links()[0].name, "nccl.compute.update");
  EXPECT_EQ(model_.links()[1].from_pool, "update");
  EXPECT_EQ(model_.links()[1].to_pool, "compute");
}

TEST_F(CollectivesTest, LinkThatTheJobMarksItself_GetsNoTransfer) {
  model_.ReadResource("link gradients compute update 4 1", "");
  Call("Send", 0, 0, 30, 3, kNoValue, 1, 2);
  Call("Recv", 2, 20, 30, 3, kNoValue, 1, 0);
  EXPECT_EQ(Waits().size(), 2u);
  EXPECT_TRUE(transfers_.empty());
}

TEST_F(CollectivesTest, SendsAndReceives_MatchInOrderAndRecoverFromAMissingOne) {
  for (int i = 0; i < 10; ++i) {
    Call("Recv", 2, i * 100, i * 100 + 50, 3, kNoValue, 1, 0);
    if (i != 3) Call("Send", 0, i * 100 + 20, i * 100 + 50, 3, kNoValue, 1, 2);
  }
  EXPECT_EQ(Waits().size(), 19u);
  const auto row = Row();
  EXPECT_EQ(row.function, "SendRecv");
  EXPECT_EQ(row.operations, 10);
  EXPECT_EQ(row.wait_ns, 9 * 20 * kMs);
}

TEST_F(CollectivesTest, OperationWhoseOtherRanksAreNotSeen_IsGivenUpOnAtTheWatermark) {
  Call("AllReduce", 0, 100, 500, 64);
  EXPECT_TRUE(Waits(400).empty());
  const auto waits = Waits(501);
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_EQ(waits[0].category, Category::kWaitPeer);
}

// Receives end long after their sends; the second and the third send end together.
TEST_F(CollectivesTest, MarkOfAPair_LeavesWhatASuccessorMustMatchBehindIt) {
  const std::pair<int, int> ends[] = {{10, 30}, {20, 40}, {20, 50}, {35, 60}};
  for (const auto& [sent, received] : ends) {
    Call("Send", 0, 1, sent, 2, kNoValue, 0xabc, 2);
    Call("Recv", 2, 2, received, 2, kNoValue, 0xabc, 0);
  }
  Waits();
  EXPECT_TRUE(collectives_.Marks(30 * kMs).empty());
  const auto first = collectives_.Marks(45 * kMs);  // two are closed, of which one cannot be told
  ASSERT_EQ(first.size(), 1u);
  const Collectives::Mark mark = first.begin()->second;
  EXPECT_EQ(mark.sent_ns, 10 * kMs);
  EXPECT_EQ(mark.received_ns, 30 * kMs);
  EXPECT_TRUE(collectives_.Marks(45 * kMs).empty()) << "nothing new";

  Collectives successor(model_);
  for (const auto& [sent, received] : ends) {
    NcclOperation send, receive;
    send.function = NcclFunction::kSend;
    receive.function = NcclFunction::kRecv;
    send.peer = receive.rank = 2;
    send.rank = receive.peer = 0;
    send.end_ns = sent * kMs;
    receive.end_ns = received * kMs;
    successor.AddStored(send, mark);
    successor.AddStored(receive, mark);
  }
  successor.Settle(45 * kMs);  // the second pair counts in the window that is closed
  successor.Take(0);
  const auto rows = successor.Rows(45 * kMs);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].operations, 2);
  EXPECT_EQ(rows[0].ranks, 2);
}

// By hand from doc/PERFORMANCE.md of NVIDIA/nccl-tests, 4 ranks.
TEST(NcclSize, BusBandwidth_IsThatOfNcclTests) {
  const double mib = kMiB;
  const std::tuple<const char*, double, double> expected[] = {{"AllReduce", mib, 1.5},
                                                              {"ReduceScatter", 4 * mib, 0.75},
                                                              {"AllGather", 4 * mib, 0.75},
                                                              {"AlltoAll", 4 * mib, 0.75},
                                                              {"Broadcast", mib, 1},
                                                              {"Reduce", mib, 1},
                                                              {"Send", mib, 1},
                                                              {"something new", mib, 1}};
  for (const auto& [function, bytes, factor] : expected) {
    const NcclSize size = SizeOf(NcclFunctionOf(function), kMiB, 4);
    EXPECT_DOUBLE_EQ(size.bytes, bytes) << function;
    EXPECT_DOUBLE_EQ(size.bus_factor, factor) << function;
  }
}

TEST_F(CollectivesTest, Rows_SumTheOperationsOfAWindow) {
  for (uint64_t i = 0; i < 3; ++i) {
    const int64_t at = static_cast<int64_t>(i) * 10;
    Call("AllGather", 0, at, at + 4, 2, i);
    Call("AllGather", 1, at + 2, at + 4, 2, i);
  }
  Waits();
  const auto row = Row();
  EXPECT_EQ(row.operations, 3);
  EXPECT_EQ(row.bytes, 3 * 2 * static_cast<int64_t>(kMiB));
  EXPECT_EQ(row.bus_bytes, 3 * static_cast<int64_t>(kMiB));
  EXPECT_EQ(row.wire_ns, 6 * kMs);
  EXPECT_TRUE(collectives_.Rows(0).empty());
}

}  // namespace
}  // namespace poolscope
