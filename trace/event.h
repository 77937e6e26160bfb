#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace poolscope {

// All times are nanoseconds on the run's one timeline: CLOCK_MONOTONIC of the host plus a constant
// that was fixed once, so that they read as time since the epoch but never step.

enum class EventKind : uint8_t { kRange = 1, kMark = 2, kCounter = 3 };

enum EventFlags : uint8_t {
  kEventStartEnd = 1,     // a process-wide start/end range: may overlap others of its thread
  kEventOpenAtDeath = 2,  // never ended: open when its thread exited or its process died, which
                          // is the end that it has
  kEventFloat = 4,        // a counter whose value is a double, not an int64
};

// What an event of the domain "poolscope" means; the NVTX category of the annotation contract
// (agent/include/poolscope/annotate.h documents each; the numbers are equal there).
enum class Category : uint32_t {
  kNone = 0,
  kWork = 1,         // the pool's own work; name = operation
  kTransfer = 2,     // one stage of a transfer; name = link
  kWaitLink = 3,     // nothing to do until link `name` delivers
  kBlockedLink = 4,  // has output, the buffer of link `name` is full
  kWaitCredit = 5,   // could produce, the lag bound forbids it
  kWaitPeer = 6,     // in a collective of its own pool
  kInput = 7,        // data loading
  kOtherWork = 8,    // checkpoint, evaluation, side work
  kStep = 9,         // a mark: an optimizer update was made
  kDiscard = 10,     // a mark: a message was thrown away (stale, aborted); name = link
  kPhase = 11,       // warm-up, compile, evaluation: left out of advice; name = phase
  kHost = 12,        // host work that feeds a device; name = operation
  kFault = 13,       // a mark: something went wrong on a wire; name = link
  kWaitDevice = 14,  // in line for a device that another worker holds
};
inline constexpr Category kLastCategory = Category::kWaitDevice;

// What went wrong on a wire, as in annotate.h.
enum class FaultKind : uint64_t { kRetry = 0, kCorrupt = 1, kDuplicate = 2, kLost = 3 };

enum class Stage : uint64_t {
  kQueued = 0,
  kEncode = 1,
  kWire = 2,
  kDecode = 3,
  kApply = 4,
  kReceive = 5  // the receiver's part of kWire
};
// The stage of the message's life that a marked one is (part) of.
constexpr Stage LifeStage(Stage stage) { return stage == Stage::kReceive ? Stage::kWire : stage; }

inline constexpr std::string_view kPoolscopeDomain = "poolscope";

// Field positions of the payload schemas of annotate.h, each an 8-byte value.
inline constexpr std::string_view kTransferSchema = "poolscope.transfer";
enum TransferField : uint32_t {
  kTransferStage,
  kTransferSource,
  kTransferDestination,
  kTransferSequence,
  kTransferVersion,
  kTransferAppliedVersion,
  kTransferRawBytes,
  kTransferWireBytes,
  kTransferStep,
  kTransferMicroBatch,
  kTransferCodec,
  kTransferFields
};
inline constexpr std::string_view kWorkSchema = "poolscope.work";
enum WorkField : uint32_t {
  kWorkStep,
  kWorkMicroBatch,
  kWorkVersion,
  kWorkScope,
  kWorkCpuNs,
  kWorkFields
};
inline constexpr std::string_view kWaitSchema = "poolscope.wait";
enum WaitField : uint32_t { kWaitSource, kWaitSequence, kWaitFields };
inline constexpr std::string_view kFaultSchema = "poolscope.fault";
enum FaultField : uint32_t {
  kFaultKind,
  kFaultSource,
  kFaultDestination,
  kFaultSequence,
  kFaultBytes,
  kFaultFields
};
inline constexpr std::string_view kStepSchema = "poolscope.step";
enum StepField : uint32_t {
  kStepNumber,
  kStepVersion,
  kStepTokens,
  kStepMicroBatches,
  kStepLoss /* double */,
  kStepFields
};
// A field that does not apply.
inline constexpr uint64_t kNoValue = ~uint64_t{0};

// One event of one track. Strings are ids of the store's `string` table; 0 is none.
// Payload: groups of words in the batch's `words`: one header word (schema string id in the low
// 32 bits, number of value words in the high 32 bits), then the values.
struct Event {
  int64_t start_ns = 0;
  int64_t duration_ns = 0;  // 0 for marks and counters
  uint64_t value = 0;       // counters: int64 or double bits; else NVTX's plain payload, or 0
  uint32_t name = 0;
  uint32_t domain = 0;
  uint32_t category = 0;
  uint32_t payload_offset = 0;
  uint16_t payload_words = 0;
  uint16_t depth = 0;  // nesting level of a push/pop range, outermost 0
  EventKind kind = EventKind::kRange;
  uint8_t flags = 0;

  int64_t end_ns() const { return start_ns + duration_ns; }
  bool operator==(const Event&) const = default;
};

// Events of one track in the order they were recorded (ranges: by end), with their payload words.
struct EventBatch {
  std::vector<Event> events;
  std::vector<uint64_t> words;

  // The values that `event` carries for the schema, empty where it carries none.
  std::span<const uint64_t> Payload(const Event& event, uint32_t schema) const {
    uint32_t at = event.payload_offset;
    const uint32_t end = at + event.payload_words;
    while (at < end && at < words.size()) {
      const uint32_t count = static_cast<uint32_t>(words[at] >> 32);
      if (count > end - at - 1) return {};
      if (static_cast<uint32_t>(words[at]) == schema) return {words.data() + at + 1, count};
      at += 1 + count;
    }
    return {};
  }
};

}  // namespace poolscope
