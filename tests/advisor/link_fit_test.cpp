#include "advisor/link_fit.h"

#include <gtest/gtest.h>

// Wire times are made from a known latency and bandwidth, which the fit must find.
namespace poolscope {
namespace {

constexpr double kLatencyNs = 3e6;
constexpr double kNsPerByte = 2;

TransferRecord Message(int64_t bytes, int64_t handed_over, int64_t wire_start, uint64_t step) {
  TransferRecord t;
  t.wire_bytes = t.raw_bytes = bytes;
  t.step = step;
  const auto wire = static_cast<int64_t>(kLatencyNs + kNsPerByte * static_cast<double>(bytes));
  t.stages[0] = {handed_over, wire_start};
  t.stages[2] = {wire_start, wire_start + wire};
  return t;
}

// `count` messages of one size, far apart from each other.
std::vector<TransferRecord> Apart(int count, int64_t bytes, uint64_t step) {
  std::vector<TransferRecord> transfers;
  for (int i = 0; i < count; ++i) {
    const int64_t at = 1'000'000'000LL * (i + 1);
    transfers.push_back(Message(bytes, at, at, step));
  }
  return transfers;
}

TEST(LinkFit, TwoSizes_GiveLatencyAndBandwidth) {
  std::vector<TransferRecord> transfers = Apart(20, 1'000'000, 1);
  for (const TransferRecord& probe : Apart(3, 1024, kNoValue)) transfers.push_back(probe);
  const LinkFit fit = FitLink(transfers, 1);
  EXPECT_FALSE(fit.ambiguous);
  EXPECT_NEAR(fit.ns_per_byte, kNsPerByte, 0.01);
  EXPECT_NEAR(fit.latency_ns, kLatencyNs, 1e4);
  EXPECT_EQ(fit.transfers, 20);
}

TEST(LinkFit, AFewLateMessages_DoNotMoveIt) {
  std::vector<TransferRecord> transfers = Apart(21, 1'000'000, 1);
  for (const TransferRecord& probe : Apart(3, 1024, kNoValue)) transfers.push_back(probe);
  for (size_t i = 0; i < 5; ++i) transfers[i * 4].stages[2].end_ns += 500'000'000;
  EXPECT_NEAR(FitLink(transfers, 1).ns_per_byte, kNsPerByte, 0.01);
}

TEST(LinkFit, OneSizeApart_IsAmbiguous) {
  const LinkFit fit = FitLink(Apart(20, 1'000'000, 1), 1);
  EXPECT_TRUE(fit.ambiguous);
  EXPECT_NEAR(fit.typical_ns, kLatencyNs + kNsPerByte * 1e6, 1);
}

TEST(LinkFit, OneSizeInARow_ShowsTheBytesShare) {
  std::vector<TransferRecord> transfers;
  transfers.reserve(20);
  for (int i = 0; i < 20; ++i) {
    transfers.push_back(Message(1'000'000, 0, static_cast<int64_t>(i * kNsPerByte * 1e6), 1));
  }
  const LinkFit fit = FitLink(transfers, 1);
  EXPECT_FALSE(fit.ambiguous);
  EXPECT_NEAR(fit.ns_per_byte, kNsPerByte, 0.01);
  EXPECT_NEAR(fit.latency_ns, kLatencyNs, 1e4);
}

// As on a machine without a free core: marked on the wire 0.5 ms late, arrived when it is due.
TEST(LinkFit, LateWakeUpsInARow_DoNotMakeTheLinkFaster) {
  std::vector<TransferRecord> transfers;
  for (int i = 0; i < 20; ++i) {
    const auto due = static_cast<int64_t>(i * kNsPerByte * 1e6);
    TransferRecord t = Message(1'000'000, 0, due + 500'000, 1);
    t.stages[2].end_ns = due + static_cast<int64_t>(kNsPerByte * 1e6);
    transfers.push_back(t);
  }
  const LinkFit fit = FitLink(transfers, 1);
  EXPECT_NEAR(fit.ns_per_byte, kNsPerByte, 0.01);
  EXPECT_NEAR(fit.latency_ns, 0, 1);
}

TEST(LinkFit, NoTransfers_FitNothing) { EXPECT_EQ(FitLink({}, 1).transfers, 0); }

}  // namespace
}  // namespace poolscope
