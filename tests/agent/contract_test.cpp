// The numbers of the annotation contract are the same at both ends.
#include <gtest/gtest.h>
#include <poolscope/annotate.h>

#include "trace/event.h"

namespace poolscope {
namespace {

constexpr bool Same(int ours, Category theirs) { return ours == static_cast<int>(theirs); }
constexpr bool Same(int ours, Stage theirs) { return ours == static_cast<int>(theirs); }
constexpr bool Same(int ours, FaultKind theirs) { return ours == static_cast<int>(theirs); }

TEST(Contract, NumbersOfTheHeader_AreThoseOfTheReader) {
  static_assert(Same(POOLSCOPE_WORK, Category::kWork));
  static_assert(Same(POOLSCOPE_TRANSFER, Category::kTransfer));
  static_assert(Same(POOLSCOPE_WAIT_LINK, Category::kWaitLink));
  static_assert(Same(POOLSCOPE_BLOCKED_LINK, Category::kBlockedLink));
  static_assert(Same(POOLSCOPE_WAIT_CREDIT, Category::kWaitCredit));
  static_assert(Same(POOLSCOPE_WAIT_PEER, Category::kWaitPeer));
  static_assert(Same(POOLSCOPE_INPUT, Category::kInput));
  static_assert(Same(POOLSCOPE_OTHER_WORK, Category::kOtherWork));
  static_assert(Same(POOLSCOPE_STEP, Category::kStep));
  static_assert(Same(POOLSCOPE_DISCARD, Category::kDiscard));
  static_assert(Same(POOLSCOPE_PHASE, Category::kPhase));
  static_assert(Same(POOLSCOPE_HOST, Category::kHost));
  static_assert(Same(POOLSCOPE_FAULT, Category::kFault));
  static_assert(Same(POOLSCOPE_WAIT_DEVICE, kLastCategory));
  static_assert(Same(POOLSCOPE_QUEUED, Stage::kQueued) && Same(POOLSCOPE_ENCODE, Stage::kEncode) &&
                Same(POOLSCOPE_WIRE, Stage::kWire) && Same(POOLSCOPE_DECODE, Stage::kDecode) &&
                Same(POOLSCOPE_APPLY, Stage::kApply) && Same(POOLSCOPE_RECEIVE, Stage::kReceive));
  static_assert(
      Same(POOLSCOPE_RETRY, FaultKind::kRetry) && Same(POOLSCOPE_CORRUPT, FaultKind::kCorrupt) &&
      Same(POOLSCOPE_DUPLICATE, FaultKind::kDuplicate) && Same(POOLSCOPE_LOST, FaultKind::kLost));
}

}  // namespace
}  // namespace poolscope
