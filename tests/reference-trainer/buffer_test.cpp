#include "reference-trainer/buffer.h"

#include <gtest/gtest.h>

namespace poolscope::trainer {
namespace {

TEST(Buffer, WithEverySlotTaken_IsFull) {
  Signal receiver, sender;
  Buffer buffer(2, receiver);
  EXPECT_EQ(buffer.TryReserve(sender), Reserved::kYes);
  EXPECT_EQ(buffer.TryReserve(sender), Reserved::kYes);
  EXPECT_EQ(buffer.TryReserve(sender), Reserved::kFull);
  EXPECT_EQ(buffer.InUse(), 2u);
}

TEST(Buffer, ASlotIsFreed_WhenTheReceiverTakesTheMessageNotWhenItArrives) {
  Signal receiver, sender;
  Buffer buffer(1, receiver);
  EXPECT_EQ(buffer.TryReserve(sender), Reserved::kYes);
  buffer.Deliver(std::make_unique<Message>());
  EXPECT_EQ(buffer.TryReserve(sender), Reserved::kFull);
  EXPECT_NE(buffer.TryTake(), nullptr);
  EXPECT_EQ(buffer.TryReserve(sender), Reserved::kYes);
}

TEST(Buffer, Delivery_WakesTheReceiver) {
  Signal receiver, sender;
  Buffer buffer(1, receiver);
  const uint64_t ticket = receiver.Ticket();
  buffer.TryReserve(sender);
  buffer.Deliver(std::make_unique<Message>());
  EXPECT_NE(receiver.Ticket(), ticket);
}

TEST(Buffer, ASlotWhoseMessageIsLost_IsFreeAgain) {
  Signal receiver, sender;
  Buffer buffer(1, receiver);
  buffer.TryReserve(sender);
  EXPECT_EQ(buffer.TryReserve(sender), Reserved::kFull);
  const uint64_t ticket = sender.Ticket();
  buffer.Release();
  sender.WaitPast(ticket);
  EXPECT_EQ(buffer.TryReserve(sender), Reserved::kYes);
}

TEST(Buffer, ASpareSlot_IsOneThatNobodyIsInLineFor) {
  Signal receiver, sender;
  Buffer buffer(1, receiver);
  EXPECT_TRUE(buffer.TryReserveSpare());
  EXPECT_FALSE(buffer.TryReserveSpare());
  EXPECT_EQ(buffer.TryReserve(sender), Reserved::kFull);
  buffer.Release();
  EXPECT_FALSE(buffer.TryReserveSpare());
  EXPECT_EQ(buffer.TryReserve(sender), Reserved::kYes);
}

TEST(Buffer, BlockedSenders_GetSlotsInTheOrderOfTheirWaiting) {
  Signal receiver, first, second, third;
  Buffer buffer(1, receiver);
  EXPECT_EQ(buffer.TryReserve(first), Reserved::kYes);
  EXPECT_EQ(buffer.TryReserve(second), Reserved::kFull);
  EXPECT_EQ(buffer.TryReserve(third), Reserved::kFull);
  buffer.Deliver(std::make_unique<Message>());
  const uint64_t second_ticket = second.Ticket(), third_ticket = third.Ticket();
  buffer.TryTake();
  EXPECT_NE(second.Ticket(), second_ticket);
  EXPECT_EQ(third.Ticket(), third_ticket);
  EXPECT_EQ(buffer.TryReserve(third), Reserved::kFull);  // the slot is second's
  EXPECT_EQ(buffer.TryReserve(second), Reserved::kYes);
}

TEST(Buffer, Closed_LetsSendersGo) {
  Signal receiver, sender;
  Buffer buffer(1, receiver);
  buffer.TryReserve(sender);
  EXPECT_EQ(buffer.TryReserve(sender), Reserved::kFull);
  const uint64_t ticket = sender.Ticket();
  buffer.Close();
  EXPECT_NE(sender.Ticket(), ticket);
  EXPECT_EQ(buffer.TryReserve(sender), Reserved::kClosed);
  EXPECT_FALSE(buffer.Deliver(std::make_unique<Message>()));
}

}  // namespace
}  // namespace poolscope::trainer
