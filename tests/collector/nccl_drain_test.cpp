// NCCL's operations in progress and of the dead, from the table of open ranges to windows.
#include "tests/collector/device_session.h"

namespace poolscope {
namespace {

class NcclDrain : public Drain {
 protected:
  static constexpr int64_t kMs = 1'000'000;
  static constexpr uint32_t kThread = 7;
  static constexpr uint64_t kHash = 0xabc;

  // A rank of a communicator of two, whose thread works for the pool.
  struct Rank {
    Rank(FakeSession::Options options, const char* pool, int64_t of) : rank(of), session(options) {
      session.Resource(session.Domain("poolscope"), kThread,
                       std::string("worker ") + pool + " 0 " + pool);
      nccl = session.Domain("nccl");
      std::vector<SchemaFieldDef> fields;
      for (const char* name :
           {"communicator", "rank", "ranks", "sequence", "bytes", "count", "datatype", "peer",
            "algorithm", "protocol", "channels", "tid", "called_ns", "timing", "open_id"}) {
        const bool text = std::string(name) == "timing";
        fields.push_back({session.Name(name), static_cast<uint16_t>(text ? 4 : 1), 0});
      }
      schema = session.Schema("nccl.operation", fields);
      session.Lane(0, {session.Name("NCCL world rank " + std::to_string(rank)),
                       LaneKind::kCommunicator, kNoDevice, kHash, static_cast<uint64_t>(rank)});
    }
    std::vector<uint64_t> Payload(const char* timing, uint64_t open_id) {
      return {schema | uint64_t{15} << 32,
              kHash,
              static_cast<uint64_t>(rank),
              2,
              1,
              1000,
              250,
              0,
              0,
              0,
              0,
              1,
              kThread,
              0,
              session.Name(timing),
              open_id};
    }
    uint64_t Open(int64_t at, const char* timing = "kernel") {
      return session.Start(kThread, at, session.Name("AllReduce"), 0, nccl, Payload(timing, 0));
    }
    void End(int64_t begin, int64_t end, uint64_t open_id) {
      session.Activity(kThread, 0, begin, end, session.Name("AllReduce"), kRecordMonotonic, nccl,
                       Payload("kernel", open_id));
    }
    // Its table holds it no more.
    void Close(uint64_t open_id) { session.Forget(open_id); }

    int64_t rank;
    FakeSession session;
    uint32_t nccl = 0, schema = 0;
  };

  double StateMs(const std::string& pool, State state) {
    int64_t ns = 0;
    auto store = OpenStore();
    const auto rows = store->WorkerWindows(store->FindRun("")->run_id, {});
    for (const WorkerWindowRow& row : *rows) {
      if (row.pool == pool) ns += row.state_ns[static_cast<size_t>(state)];
    }
    return static_cast<double>(ns) / kMs;
  }
  // Beside them stand the waits that they were found to be.
  int64_t OperationsStored() {
    auto store = OpenStore();
    const uint32_t nccl = *store->FindString("nccl");
    const auto events = Stored();
    return std::count_if(events.begin(), events.end(),
                         [&](const StoredEvent& stored) { return stored.event.domain == nccl; });
  }
  int64_t Ago(int64_t ms) const { return now_ns_ - ms * kMs; }

  const int64_t now_ns_ = MonotonicNs();
};

TEST_F(NcclDrain, OperationThatEndsAfterItsWindowsClosed_CountsOnceAndIsNotLate) {
  Rank rank(Session(), "compute", 0);
  auto collector = Open();
  const uint64_t id = rank.Open(Ago(5000));
  DrainOnce(*collector);
  const double live_ms = StateMs("compute", State::kWaitPeer);
  EXPECT_GT(live_ms, 3400);  // of closed windows
  EXPECT_LE(live_ms, 4700);
  const int64_t end_ns = MonotonicNs();
  rank.End(Ago(5000), end_ns, id);
  rank.Close(id);
  DrainOnce(*collector);
  rank.session.Exit();
  DrainOnce(*collector);
  EXPECT_NEAR(StateMs("compute", State::kWaitPeer), static_cast<double>(end_ns - Ago(5000)) / kMs,
              1);
  EXPECT_EQ(OpenStore()->EventLosses(OpenStore()->FindRun("")->run_id)->size(), 0u);
}

TEST_F(NcclDrain, CollectorStartedAgain_GoesOnCountingWhatIsOpen) {
  Rank rank(Session(), "compute", 0);
  const uint64_t id = rank.Open(Ago(5000));
  auto collector = Open();
  DrainOnce(*collector);
  collector.reset();
  collector = Open();
  DrainOnce(*collector);
  const int64_t end_ns = MonotonicNs();
  rank.End(Ago(5000), end_ns, id);
  rank.session.KillWriter();  // before it could be taken out
  DrainOnce(*collector);
  EXPECT_EQ(OperationsStored(), 1);
  EXPECT_NEAR(StateMs("compute", State::kWaitPeer), static_cast<double>(end_ns - Ago(5000)) / kMs,
              1);
  EXPECT_EQ(OpenStore()->EventLosses(OpenStore()->FindRun("")->run_id)->size(), 0u);
}

TEST_F(NcclDrain, EnqueuedOperation_IsNoWait) {
  Rank rank(Session(), "compute", 0);
  auto collector = Open();
  rank.Open(Ago(3000), "enqueued");
  rank.session.Range(kThread, Ago(3000), Ago(10), rank.session.Name("w"),
                     static_cast<uint32_t>(Category::kWork), rank.session.Domain("poolscope"));
  DrainOnce(*collector);
  rank.session.KillWriter();
  DrainOnce(*collector);
  EXPECT_EQ(StateMs("compute", State::kWaitPeer), 0);
  EXPECT_NEAR(StateMs("compute", State::kBusy), 2990, 1);
}

TEST_F(NcclDrain, OperationOfTwoPoolsInProgress_IsAWaitForTheirLink) {
  Rank compute(Session(1), "compute", 0);
  Rank update(Session(2), "update", 1);
  auto collector = Open();
  const uint64_t first = compute.Open(Ago(5000));
  const uint64_t second = update.Open(Ago(2000));
  DrainOnce(*collector);
  EXPECT_GT(StateMs("compute", State::kWaitLink), 3400);
  EXPECT_EQ(StateMs("compute", State::kWaitPeer), 0);
  const int64_t end_ns = MonotonicNs();
  compute.End(Ago(4990), end_ns, first);  // by the device's clock
  update.End(Ago(2000), end_ns, second);
  compute.Close(first);
  update.Close(second);
  DrainOnce(*collector);
  compute.session.Exit();
  update.session.Exit();
  DrainOnce(*collector);
  // Until the other rank came it was busy upstream, from then on the link was.
  auto store = OpenStore();
  const auto rows = store->WorkerLinkWindows(store->FindRun("")->run_id, {});
  double upstream_ms = 0, wire_ms = 0, unattributed_ms = 0;
  for (const WorkerLinkWindowRow& row : *rows) {
    if (row.pool != "compute") continue;
    upstream_ms += static_cast<double>(row.upstream_busy_ns) / kMs;
    wire_ms += static_cast<double>(row.wire_ns) / kMs;
    unattributed_ms += static_cast<double>(row.unattributed_ns) / kMs;
  }
  EXPECT_NEAR(upstream_ms, 3000, 1);
  EXPECT_NEAR(wire_ms, static_cast<double>(end_ns - Ago(2000)) / kMs, 1);
  EXPECT_EQ(unattributed_ms, 0);
}

TEST_F(NcclDrain, OperationKilledBetweenItsRecordAndItsRemoval_IsOneEvent) {
  Rank rank(Session(), "compute", 0);
  const uint64_t id = rank.Open(Ago(2000));
  rank.End(Ago(2000), Ago(1000), id);
  rank.session.KillWriter();
  auto collector = Open();
  DrainOnce(*collector);
  EXPECT_EQ(OperationsStored(), 1);
  EXPECT_NEAR(StateMs("compute", State::kWaitPeer), 1000, 1);
}

}  // namespace
}  // namespace poolscope
