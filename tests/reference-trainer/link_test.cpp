#include <gtest/gtest.h>

#include <algorithm>

#include "reference-trainer/shaped_link.h"
#include "reference-trainer/timing.h"

namespace poolscope::trainer {
namespace {

constexpr double kBandwidth = 1e9;
constexpr uint64_t kBytes = 2'000'000;  // 2 ms each
constexpr int64_t kWireNs = 2'000'000;

struct Arrival {
  uint64_t sequence;
  int64_t at_ns;
};

MessagePtr Of(ShapedLink& link, uint64_t source) {
  auto message = std::make_unique<Message>();
  message->source = source;
  message->sequence = link.NextSequence(source);
  message->raw_bytes = message->wire_bytes = kBytes;
  return message;
}

// Hands `count` messages over at once and takes them as they arrive.
std::vector<Arrival> SendAll(ShapedLink& link, Signal& receiver, size_t count) {
  Signal sender;
  for (size_t i = 0; i < count; ++i) {
    EXPECT_EQ(link.TryReserve(0, sender), Reserved::kYes);
    link.HandOver(Of(link, 0));
  }
  std::vector<Arrival> arrivals;
  while (arrivals.size() < count) {
    const uint64_t ticket = receiver.Ticket();
    if (const MessagePtr message = link.TryTake(0)) {
      arrivals.push_back({message->sequence, NowNs()});
    } else {
      receiver.WaitPast(ticket);
    }
  }
  return arrivals;
}

TEST(Link, OnOneLane_SerializesAndKeepsTheOrder) {
  Signal receiver;
  ShapedLink link("test", {kBandwidth, 0, 1, 16}, 1, {&receiver});
  const int64_t begin = NowNs();
  const auto arrivals = SendAll(link, receiver, 8);
  for (size_t i = 0; i < arrivals.size(); ++i) {
    EXPECT_EQ(arrivals[i].sequence, i);
    EXPECT_GE(arrivals[i].at_ns - begin, static_cast<int64_t>(i + 1) * kWireNs);
  }
}

TEST(Link, Latency_IsAddedButDoesNotOccupyTheLane) {
  constexpr int64_t kLatencyNs = 50'000'000;
  Signal receiver;
  ShapedLink link("test", {kBandwidth, kLatencyNs, 1, 16}, 1, {&receiver});
  const int64_t begin = NowNs();
  const auto arrivals = SendAll(link, receiver, 8);
  for (size_t i = 0; i < arrivals.size(); ++i) {
    EXPECT_GE(arrivals[i].at_ns - begin, static_cast<int64_t>(i + 1) * kWireNs + kLatencyNs);
  }
  // A lane that latency occupies cannot do it in less; this one needs 66 of these 416 ms.
  EXPECT_LT(arrivals.back().at_ns - begin, 8 * (kWireNs + kLatencyNs));
}

TEST(Link, OfSeveralLanes_EachCarriesOneMessage) {
  Signal receiver;
  ShapedLink link("test", {kBandwidth, 0, 4, 16}, 1, {&receiver});
  const int64_t begin = NowNs();
  const auto arrivals = SendAll(link, receiver, 8);
  std::vector<int64_t> times;
  for (const Arrival& each : arrivals) times.push_back(each.at_ns - begin);
  EXPECT_GE(times[0], kWireNs);
  EXPECT_GE(times[4], 2 * kWireNs);
}

TEST(Link, Unlimited_DeliversEverything) {
  Signal receiver;
  ShapedLink link("test", {0, 0, 1, 64}, 1, {&receiver});
  EXPECT_EQ(SendAll(link, receiver, 64).size(), 64u);
}

TEST(Link, Depth_IsNeverExceeded) {
  constexpr size_t kDepth = 3, kMessages = 60;
  Signal receiver;
  ShapedLink link("test", {0, 0, 2, kDepth}, 4, {&receiver});
  std::vector<std::thread> senders;
  for (uint64_t source = 0; source < 4; ++source) {
    senders.emplace_back([&link, source] {
      Signal self;
      for (size_t i = 0; i < kMessages / 4; ++i) {
        for (;;) {
          const uint64_t ticket = self.Ticket();
          if (link.TryReserve(0, self) == Reserved::kYes) break;
          self.WaitPast(ticket);
        }
        link.HandOver(Of(link, source));
      }
    });
  }
  size_t taken = 0, most = 0;
  while (taken < kMessages) {
    const uint64_t ticket = receiver.Ticket();
    most = std::max(most, link.InUse(0));
    if (link.TryTake(0)) {
      ++taken;
    } else {
      receiver.WaitPast(ticket);
    }
  }
  for (std::thread& sender : senders) sender.join();
  EXPECT_LE(most, kDepth);
  EXPECT_EQ(link.InUse(0), 0u);
}

}  // namespace
}  // namespace poolscope::trainer
