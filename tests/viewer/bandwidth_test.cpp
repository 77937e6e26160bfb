#include "viewer/bandwidth.h"

#include <gtest/gtest.h>

#include <numeric>

namespace poolscope {
namespace {

constexpr int64_t kMs = 1'000'000;

double BytesIn(const std::vector<WireRate>& rates) {
  return std::accumulate(rates.begin(), rates.end(), 0.0, [](double sum, const WireRate& rate) {
    return sum + rate.bytes_per_ns * static_cast<double>(rate.end_ns - rate.begin_ns);
  });
}

// Pieces in order, apart from one another, no byte lost, none above `limit` bytes/ns.
void ExpectSound(const std::vector<WireMessage>& messages, double limit) {
  const std::vector<WireRate> rates = RatesOf(messages);
  double bytes = 0;
  for (const WireMessage& message : messages) bytes += message.bytes;
  EXPECT_NEAR(BytesIn(rates), bytes, bytes * 1e-9);
  for (size_t i = 0; i < rates.size(); ++i) {
    EXPECT_LE(rates[i].bytes_per_ns, limit) << i;
    EXPECT_LE(i > 0 ? rates[i - 1].end_ns : INT64_MIN, rates[i].begin_ns) << i;
  }
}

TEST(Bandwidth, MessagesThatAreSeenLateStayAtTheLinksRate) {
  // 1 MB each ms at 1 GB/s; the sending thread wakes up 0.3 ms late for every other one.
  std::vector<WireMessage> messages;
  for (int64_t i = 0; i < 200; ++i) {
    messages.push_back({i * kMs + (i % 2) * 300'000, (i + 1) * kMs, 1e6});
  }
  ExpectSound(messages, 1.0 + 1e-9);
}

TEST(Bandwidth, MessageThatCatchesUpIsNoSpike) {
  // The thread wakes up 0.8 ms late for one message, after a piece has just been closed.
  std::vector<WireMessage> messages;
  for (int64_t i = 0; i < 60; ++i) messages.push_back({i * kMs, (i + 1) * kMs, 1e6});
  messages[20].begin_ns += 800'000;
  ExpectSound(messages, 1.0 + 1e-9);
}

TEST(Bandwidth, LatencyIsNotCountedAsSending) {
  // 1 ms of sending and 10 ms of latency: eleven are on the wire at once.
  std::vector<WireMessage> messages;
  for (int64_t i = 0; i < 200; ++i) messages.push_back({i * kMs, (i + 11) * kMs, 1e6});
  ExpectSound(messages, 1.0 + 1e-9);
  const std::vector<WireRate> rates = RatesOf(messages);
  EXPECT_NEAR(rates[rates.size() / 2].bytes_per_ns, 1.0, 1e-9);
}

TEST(Bandwidth, SlowMessagesKeepTheirOwnRates) {
  const std::vector<WireRate> rates =
      RatesOf({{0, 100 * kMs, 100e6}, {100 * kMs, 200 * kMs, 50e6}, {900 * kMs, 950 * kMs, 50e6}});
  ASSERT_EQ(rates.size(), 3u);
  EXPECT_DOUBLE_EQ(rates[0].bytes_per_ns, 1.0);
  EXPECT_DOUBLE_EQ(rates[1].bytes_per_ns, 0.5);
  EXPECT_EQ(rates[2].begin_ns, 900 * kMs);
}

TEST(Bandwidth, BucketsHoldEachByteOnce) {
  BandwidthBuckets buckets(1000, 300, 4);
  buckets.Add({0, 2500, 2.0});
  for (size_t i = 0; i < 4; ++i) EXPECT_DOUBLE_EQ(buckets.PerSecond(i), 2e9);
}

TEST(Bandwidth, ColumnsShareMessagesThatBeganBeforeThem) {
  // Messages of 0.6 s at 1 GB/s in columns of 1 s: one or two end in each.
  std::vector<LinkColumn> columns;
  int64_t ended = 0;
  for (int64_t i = 0; i < 30; ++i) {
    const int64_t ends = (i + 1) * 1000 / 600;
    const int64_t messages = ends - ended;
    ended = ends;
    columns.push_back({i * 1000 * kMs, (i + 1) * 1000 * kMs, messages, messages * 600'000'000,
                       messages * 600 * kMs, 0, 0});
  }
  const std::vector<double> rates = RatesOfColumns(columns, 1);
  double sum = 0;
  for (const double rate : rates) {
    EXPECT_LE(rate, 1e9 + 1);
    EXPECT_GE(rate, 1e9 - 1);
    sum += rate;
  }
  EXPECT_NEAR(sum, static_cast<double>(ended) * 0.6e9, 1e3);
}

TEST(Bandwidth, ShortLastColumnDoesNotConcentrateALongMessage) {
  // A message of 1 s ends 10 ms into the last, short column.
  const std::vector<LinkColumn> columns = {{0, 1000 * kMs, 0, 0, 0, 0, 0},
                                           {1000 * kMs, 1010 * kMs, 1, 1000, 1000 * kMs, 0, 0}};
  const std::vector<double> rates = RatesOfColumns(columns, 1);
  EXPECT_NEAR(rates[0], 990, 1);
  EXPECT_NEAR(rates[1], 1000, 1);
}

}  // namespace
}  // namespace poolscope
