// The protocol on a bad wire, event by event, without a clock.
#include "reference-trainer/crossing.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "reference-trainer/data.h"

namespace poolscope::trainer {
namespace {

constexpr int64_t kMs = 1'000'000;

struct Delivered {
  uint64_t source, sequence, version;
  std::vector<uint8_t> bytes;
};

// A crossing, what came out of it, and a clock that jumps to the next event.
class Wire : public Crossing::Ends {
 public:
  explicit Wire(const CrossingRules& rules) : crossing(rules, *this) {}

  void OnWire(Message&) override {}
  void Arrived(MessagePtr message) override {
    delivered.push_back(
        {message->source, message->sequence, message->version, message->block.bytes});
  }
  void Lost(MessagePtr message) override { lost.insert(message->sequence); }
  void AskedAgain(MessagePtr message) override {
    message->handed_over_ns = now_ns;
    crossing.Enter(std::move(message));
  }
  void Met(Crossing::Trouble trouble, const MessageFields&, uint64_t bytes) override {
    ++met[trouble];
    met_bytes[trouble] += bytes;
    if (trouble == Crossing::Trouble::kRetry) retries_ns.push_back(now_ns);
  }
  void Failed(const MessageFields& message, uint32_t tries) override {
    failed.emplace_back(message.sequence, tries);
  }

  void Send(uint64_t source, uint64_t sequence, size_t bytes, uint64_t wire_bytes) {
    auto message = std::make_unique<Message>();
    message->source = source;
    message->sequence = message->version = sequence;
    message->step = 0;
    message->wire_bytes = wire_bytes;
    message->block.bytes = Payload(source, sequence, bytes);
    message->handed_over_ns = now_ns;
    crossing.Enter(std::move(message));
  }

  static std::vector<uint8_t> Payload(uint64_t source, uint64_t sequence, size_t bytes) {
    std::vector<uint8_t> payload(bytes);
    for (size_t i = 0; i < bytes; ++i) payload[i] = uint8_t(source * 31 + sequence * 7 + i);
    return payload;
  }

  // Until nothing more happens, or `end_ns`.
  void Run(int64_t end_ns = INT64_MAX) {
    while (crossing.next_ns() != INT64_MAX && crossing.next_ns() <= end_ns) {
      now_ns = std::max(now_ns, crossing.next_ns());
      crossing.Advance(now_ns);
    }
  }

  // Every message once, as it was sent, in the order of its stream.
  void ExpectAll(uint64_t sources, uint64_t each, size_t bytes) const {
    ASSERT_EQ(delivered.size(), sources * each);
    std::map<uint64_t, uint64_t> next;
    for (const Delivered& message : delivered) {
      EXPECT_EQ(message.sequence, next[message.source]++);
      EXPECT_EQ(message.bytes, Payload(message.source, message.sequence, bytes));
    }
  }

  Crossing crossing;
  int64_t now_ns = 0;
  std::vector<Delivered> delivered;
  std::set<uint64_t> lost;
  std::map<Crossing::Trouble, uint64_t> met, met_bytes;
  std::vector<int64_t> retries_ns;
  std::vector<std::pair<uint64_t, uint32_t>> failed;
};

// 1 ms for 1000 bytes of the wire, 2 ms each way.
CrossingRules Rules(const Faults& faults) {
  CrossingRules rules;
  rules.bytes_per_second = 1e6;
  rules.latency_ns = 2 * kMs;
  rules.patience.timeout_ns = 40 * kMs;
  rules.faults = faults;
  rules.seed = 7;
  return rules;
}

TEST(Crossing, OverAPerfectWire_TakesItsTimeAndSendsNothingTwice) {
  CrossingRules rules = Rules({});
  rules.block_bytes = 100;
  Wire wire(rules);
  wire.Send(0, 0, 900, 1000);
  wire.Send(0, 1, 900, 1000);
  wire.Run(3 * kMs);
  EXPECT_EQ(wire.delivered.size(), 1u);  // 1 ms on the lane, 2 ms of latency
  wire.Run(4 * kMs - 1);
  EXPECT_EQ(wire.delivered.size(), 1u);
  wire.Run(4 * kMs);
  EXPECT_EQ(wire.delivered.size(), 2u);
  wire.Run();
  wire.ExpectAll(1, 2, 900);
  EXPECT_TRUE(wire.met.empty());
}

TEST(Crossing, OverABadWire_DeliversEachMessageOnceInOrder) {
  for (const uint64_t block_bytes : {0, 300}) {
    for (const size_t lanes : {1, 4}) {
      for (const size_t bytes : {0, 1, 1000}) {
        CrossingRules rules = Rules({0.2, 0.2, 0.3, 0.3, 3 * kMs});
        rules.block_bytes = block_bytes;
        rules.lanes = lanes;
        rules.patience.limit = 40;
        Wire wire(rules);
        for (uint64_t i = 0; i < 50; ++i) {
          for (uint64_t source = 0; source < 3; ++source) wire.Send(source, i, bytes, 1000);
        }
        wire.Run();
        wire.ExpectAll(3, 50, bytes);
        EXPECT_TRUE(wire.failed.empty());
        const FaultCounts& counts = wire.crossing.counts();
        EXPECT_GT(counts.duplicates, 20u);
        EXPECT_EQ(counts.corrupt, counts.corruptions);  // every one was caught
        EXPECT_GT(counts.corrupt, 20u);
      }
    }
  }
}

TEST(Crossing, Retries_AreAsManyAsFaultsWereInjected) {
  for (const Faults& faults :
       {Faults{0.1, 0, 0, 0, 0}, Faults{0, 0.1, 0, 0, 0}, Faults{0.1, 0.1, 0.3, 0, 0}}) {
    CrossingRules rules = Rules(faults);
    rules.block_bytes = 100;
    Wire wire(rules);
    for (uint64_t i = 0; i < 100; ++i) wire.Send(0, i, 1000, 1000);
    wire.Run();
    wire.ExpectAll(1, 100, 1000);
    const FaultCounts& counts = wire.crossing.counts();
    // A try fails where its block or its acknowledgement is lost or damaged; then, and only then,
    // it is made again. 1000 blocks of ten in a hundred to lose, twice.
    EXPECT_EQ(counts.retries, counts.losses + counts.corruptions);
    EXPECT_GT(counts.retries, 150u);
    EXPECT_EQ(counts.retried_bytes, counts.retries * 100);
    EXPECT_EQ(wire.met[Crossing::Trouble::kRetry], counts.retries);
    EXPECT_EQ(wire.met_bytes[Crossing::Trouble::kRetry], counts.retried_bytes);
    EXPECT_EQ(wire.met[Crossing::Trouble::kDuplicate], counts.duplicates);
  }
}

TEST(Crossing, Faults_DependOnTheBlocksAndNotOnWhoWasFirst) {
  const auto losses = [](bool turned) {
    CrossingRules rules = Rules({0.3, 0, 0, 0, 0});
    Wire wire(rules);
    for (uint64_t i = 0; i < 200; ++i) {
      wire.Send(turned ? 1 - i % 2 : i % 2, i / 2, 10, 10);
      if (i % 2 == 1) wire.Run(wire.now_ns + kMs);
    }
    wire.Run();
    return wire.crossing.counts().losses;
  };
  EXPECT_GT(losses(false), 50u);
  EXPECT_EQ(losses(false), losses(true));
}

TEST(Crossing, BackOff_DoublesUntilTheLimitEndsIt) {
  CrossingRules rules = Rules({1, 0, 0, 0, 0});
  rules.patience.limit = 6;
  Wire wire(rules);
  wire.Send(0, 17, 100, 0);
  wire.Run();
  EXPECT_EQ(wire.retries_ns,
            (std::vector<int64_t>{40 * kMs, 120 * kMs, 280 * kMs, 600 * kMs, 1240 * kMs}));
  EXPECT_EQ(wire.failed, (std::vector<std::pair<uint64_t, uint32_t>>{{17, 6}}));
  EXPECT_TRUE(wire.delivered.empty());
}

TEST(Crossing, InBestEffort_LosesWhatIsLostAndKnowsIt) {
  CrossingRules rules = Rules({0.2, 0.1, 0.2, 0.2, 3 * kMs});
  rules.reliable = false;
  rules.block_bytes = 500;  // both have to arrive
  Wire wire(rules);
  for (uint64_t i = 0; i < 200; ++i) {
    wire.Send(0, i, 1000, 1000);
    wire.Run(wire.now_ns + 5 * kMs);
  }
  wire.Run();
  std::set<uint64_t> arrived;
  for (const Delivered& message : wire.delivered) {
    EXPECT_TRUE(arrived.insert(message.sequence).second) << "twice";
    EXPECT_EQ(message.bytes, Wire::Payload(0, message.sequence, 1000));
  }
  EXPECT_EQ(arrived.size() + wire.lost.size(), 200u);
  EXPECT_GT(wire.lost.size(), 50u);  // 1 - (0.8 × 0.9)² of them, less what repeats save
  EXPECT_EQ(wire.crossing.counts().retries, 0u);
  EXPECT_EQ(wire.crossing.counts().lost, wire.lost.size());
}

TEST(Crossing, InBestEffort_WhatIsAskedForComesAgainIfItIsNewEnough) {
  CrossingRules rules = Rules({0.9, 0, 0, 0, 0});
  rules.reliable = false;
  Wire wire(rules);
  wire.Send(0, 5, 10, 10);
  wire.Run();
  ASSERT_EQ(wire.lost.size(), 1u);
  wire.crossing.Ask(0, 0, 6, wire.now_ns);
  wire.Run();
  EXPECT_EQ(wire.crossing.counts().lost, 1u);  // there is no version 6, nothing was sent
  for (int i = 0; i < 20'000 && wire.delivered.empty(); ++i) {
    wire.crossing.Ask(0, 0, 5, wire.now_ns);
    wire.Run();
  }
  ASSERT_EQ(wire.delivered.size(), 1u);  // the requests were subject to loss as well
  EXPECT_EQ(wire.delivered[0].version, 5u);
  EXPECT_EQ(wire.delivered[0].bytes, Wire::Payload(0, 5, 10));
}

TEST(Crossing, Damage_IsCaughtInHeaderAndContents) {
  BlockHeader block;
  for (const size_t size : {0, 1, 100, 5000}) {
    block.size = size;
    const std::vector<uint8_t> contents(size, 0x5A);
    const std::vector<uint8_t> sealed = Seal(block, contents);
    BlockHeader header;
    std::span<const uint8_t> found;
    ASSERT_TRUE(Unseal(sealed, header, found));
    EXPECT_EQ(found.size(), size);
    for (uint64_t i = 0; i < 20'000; ++i) {
      uint64_t state = i;
      std::vector<uint8_t> wire = sealed;
      Damage(wire, SplitMix64(state) | 1);
      ASSERT_NE(wire, sealed);
      ASSERT_FALSE(Unseal(wire, header, found)) << size << " bytes, " << i;
    }
  }
}

TEST(Crossing, Malicious_BlocksAreRefused) {
  const auto refused = [](auto change, size_t contents) {
    BlockHeader block;
    block.size = 10;
    change(block);
    BlockHeader header;
    std::span<const uint8_t> found;
    return !Unseal(Seal(block, std::vector<uint8_t>(contents)), header, found);
  };
  EXPECT_FALSE(refused([](BlockHeader&) {}, 10));
  EXPECT_TRUE(refused([](BlockHeader&) {}, 9));
  EXPECT_TRUE(refused([](BlockHeader& b) { b.part = 1; }, 0));
  EXPECT_TRUE(refused([](BlockHeader& b) { b.parts = 0; }, 0));
  EXPECT_TRUE(refused([](BlockHeader& b) { b.parts = kMaxParts + 1; }, 0));
  EXPECT_TRUE(refused([](BlockHeader& b) { b.size = UINT64_MAX; }, 0));
  EXPECT_TRUE(refused([](BlockHeader& b) { b.kind = BlockKind::kAcknowledgement; }, 10));
}

}  // namespace
}  // namespace poolscope::trainer
