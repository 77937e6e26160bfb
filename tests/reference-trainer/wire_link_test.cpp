#include "reference-trainer/wire_link.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <stdexcept>

namespace poolscope::trainer {
namespace {

constexpr size_t kSenders = 3, kReceivers = 2;

// Lets nothing through until it is open.
struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  bool open = true;
  size_t inside = 0;

  void Open() {
    std::lock_guard lock(mutex);
    open = true;
    changed.notify_all();
  }
  void AwaitInside(size_t count) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return inside >= count; });
  }
};

// Adds to the bytes who sent them to whom; throws where they are too many.
class StandInWire : public Wire {
 public:
  explicit StandInWire(Gate& gate) : gate_(gate) {}
  void Carry(size_t source, size_t destination, std::vector<uint8_t>& bytes) override {
    std::unique_lock lock(gate_.mutex);
    ++gate_.inside;
    gate_.changed.notify_all();
    gate_.changed.wait(lock, [&] { return gate_.open; });
    bytes.push_back(static_cast<uint8_t>(10 * source + destination));
    if (bytes.size() > 100) throw std::runtime_error("ncclSend: unhandled cuda error");
  }

 private:
  Gate& gate_;
};

class WireLinkTest : public testing::Test {
 protected:
  void Make(size_t lanes) {
    link_ = std::make_unique<WireLink>(
        "test", Link::Shape{0, 0, lanes, 8}, kSenders,
        std::vector<Signal*>{&receivers_[0], &receivers_[1]},
        [this]() -> std::unique_ptr<Wire> { return std::make_unique<StandInWire>(gate_); },
        [this](const std::string& error) {
          failure_ = error;
          failed_ = true;
          receivers_[0].Notify();
        });
  }

  void Send(size_t source, size_t destination, std::vector<uint8_t> bytes) {
    auto message = std::make_unique<Message>();
    message->source = source;
    message->destination = destination;
    message->sequence = link_->NextSequence(source);
    message->step = 0;
    message->block.bytes = std::move(bytes);
    ASSERT_EQ(link_->TryReserve(destination, sender_), Reserved::kYes);
    link_->HandOver(std::move(message));
  }

  MessagePtr Take(size_t destination) {
    for (;;) {
      const uint64_t ticket = receivers_[destination].Ticket();
      if (MessagePtr message = link_->TryTake(destination)) return message;
      if (failed_) return nullptr;
      receivers_[destination].WaitPast(ticket);
    }
  }

  Gate gate_;
  Signal sender_, receivers_[kReceivers];
  std::string failure_;  // to be read once failed_
  std::atomic<bool> failed_ = false;
  std::unique_ptr<WireLink> link_;
};

TEST_F(WireLinkTest, WhatTheWireMakesOfTheBytes_IsWhatArrives_InOrder) {
  Make(1);
  for (uint8_t i = 0; i < 4; ++i) Send(2, 1, {i, i});
  for (uint8_t i = 0; i < 4; ++i) {
    const MessagePtr message = Take(1);
    EXPECT_EQ(message->block.bytes, (std::vector<uint8_t>{i, i, 21}));
    EXPECT_EQ(message->sequence, i);
  }
  EXPECT_EQ(link_->InUse(1), 0u);
}

TEST_F(WireLinkTest, EachLane_CarriesOneMessageAtATime) {
  gate_.open = false;
  Make(2);
  for (uint8_t i = 0; i < 4; ++i) Send(0, 0, {i});
  gate_.AwaitInside(2);
  EXPECT_EQ(gate_.inside, 2u);
  EXPECT_EQ(link_->TryTake(0), nullptr);
  gate_.Open();
  for (int i = 0; i < 4; ++i) EXPECT_NE(Take(0), nullptr);
}

TEST_F(WireLinkTest, AProbe_IsCarriedWithAsManyBytesAsItStates) {
  Make(1);
  auto probe = std::make_unique<Message>();
  probe->wire_bytes = 99;
  ASSERT_EQ(link_->TryReserve(0, sender_), Reserved::kYes);
  link_->HandOver(std::move(probe));
  EXPECT_TRUE(Take(0)->block.bytes.empty());
  auto large = std::make_unique<Message>();
  large->wire_bytes = 100;  // which this wire does not carry
  ASSERT_EQ(link_->TryReserve(0, sender_), Reserved::kYes);
  link_->HandOver(std::move(large));
  EXPECT_EQ(Take(0), nullptr);
}

TEST_F(WireLinkTest, WhatTheWireThrows_FailsTheRunWithTheLinksName) {
  Make(1);
  Send(0, 0, std::vector<uint8_t>(100));
  EXPECT_EQ(Take(0), nullptr);
  EXPECT_EQ(failure_, "link test: ncclSend: unhandled cuda error");
  Send(0, 0, {1});  // goes nowhere, and keeps nobody from ending
}

}  // namespace
}  // namespace poolscope::trainer
