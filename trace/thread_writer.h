#pragma once

#include <atomic>
#include <cstdint>

#include "trace/clock.h"
#include "trace/limits.h"
#include "trace/name_cache.h"
#include "trace/session_format.h"

namespace poolscope {

class SessionWriter;

// Takes a clock triple if one is due at `now`; either way sets the time of the next look.
void TakeDueTriple(SessionWriter& session, uint64_t& due, uint64_t now);

// What comes with an event beside its name: NVTX's plain value and payload groups (trace/event.h).
struct EventPayload {
  uint64_t value = 0;
  uint8_t flags = 0;  // RecordFlags: kRecordHasValue, kRecordFloat
  uint32_t words = 0;
  uint32_t name = 0;  // at a range's end: its name from now on, 0: as it was
  const uint64_t* groups = nullptr;
};

// One thread's half of a session: its slot's ring and open stack, and what only it needs to know.
// Only its thread calls it. No call blocks, allocates or enters the kernel, but for a clock triple
// about once a second. All events of a thread and domain nest, those of different domains need not.
class ThreadWriter {
 public:
  // Opens a range; gives its level in its domain, outermost 0.
  int Push(uint32_t domain, uint32_t name, uint32_t category, const EventPayload& payload);

  // Closes the innermost range of the domain, adding `extra` payload; gives its level, or
  // kNoRange where none is open.
  int Pop(uint32_t domain, const EventPayload& extra);
  static constexpr int kNoRange = -2;  // NVTX_NO_PUSH_POP_TRACKING

  void Mark(uint32_t domain, uint32_t name, uint32_t category, const EventPayload& payload);
  void Sample(uint32_t domain, uint32_t name, uint64_t value, bool is_float);

  // The end of a start/end range of the process.
  void EndProcessRange(const ProcessRange& range, uint64_t id, uint64_t end_ticks,
                       const EventPayload& extra);

  // What happened on a lane, by now or before; both times are CLOCK_MONOTONIC ns where `monotonic`,
  // else ticks.
  void Activity(uint32_t lane, uint32_t domain, uint32_t name, uint32_t category, uint64_t start,
                uint64_t end, bool monotonic, const EventPayload& payload);

  // A mark, counter or start/end range of the past, by `kind`; times as Activity's, for marks and
  // counters `end` is not used. A counter's value is that of `payload`.
  void Past(RecordKind kind, uint32_t domain, uint32_t name, uint32_t category, uint64_t start,
            uint64_t end, bool monotonic, const EventPayload& payload);

  // The range that Push opened last and Pop has not closed, of any domain; null: none. For the
  // thread itself.
  const OpenRange* innermost() const { return depth_ != 0 ? &slot_->open[depth_ - 1] : nullptr; }

  // Whether an activity with so many payload words would be taken now: else it would be lost for
  // the reader has not kept up.
  bool HasRoom(uint32_t payload_words) { return Claim(6 + payload_words) != nullptr; }

  // The thread exits: ends what it left open, marked kRecordOpenAtExit.
  void EndOpenRanges();

  // Counts an event of this thread as missing, now.
  void Lose(LossCause cause);

  NameCache& names() { return names_; }
  ClockKind clock() const { return clock_; }
  uint32_t tid() const { return tid_; }
  uint64_t now() const { return ReadTicks(clock_); }

 private:
  friend class SessionWriter;

  struct Frame {  // beside an OpenRange, for the writer alone
    uint32_t domain;
    uint16_t level;
    uint8_t flags;
    uint8_t words;
    uint64_t value;
  };
  static_assert(kMaxPayloadWords < 256);

  uint64_t* Claim(uint32_t words);
  void Commit(uint32_t words);
  uint64_t* Start(uint64_t* at, RecordKind kind, uint8_t flags, uint32_t words, uint32_t domain,
                  uint32_t depth, uint32_t name, uint32_t category);
  static uint64_t* Append(uint64_t* at, const uint64_t* words, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) *at++ = words[i];
    return at;
  }
  void Close(uint32_t index, uint64_t end, const EventPayload& extra);
  int LevelOf(uint32_t domain) const;
  int PushBeyondStack(uint32_t domain);
  int PopOther(uint32_t domain, uint64_t end, const EventPayload& extra);
  void RemoveAt(uint32_t index);
  bool MakeRoom(uint32_t bytes);
  void MayTakeTriple(uint64_t now);

  ThreadSlot* slot_ = nullptr;
  uint8_t* ring_ = nullptr;
  uint64_t ring_bytes_ = 0;
  uint64_t write_ = 0;  // = slot_->write_position
  uint64_t limit_ = 0;  // write_ may grow up to here before the reader is looked at again
  uint64_t triple_due_ = 0;
  uint64_t sequence_ = 0;
  uint32_t depth_ = 0;
  uint32_t next_open_id_ = 0;
  ClockKind clock_ = ClockKind::kMonotonic;
  uint32_t overflowed_ = 0;  // open ranges that are not on the stack
  uint64_t first_ = 0;       // everything before it may be overwritten
  uint32_t tid_ = 0;
  SessionWriter* session_ = nullptr;
  Frame frames_[kMaxOpenRanges];
  NameCache names_;
  uint64_t payloads_[kMaxOpenRanges][kMaxPayloadWords];
  uint32_t overflowed_by_domain_[kMaxDomains];
};

// --- The hot path ---

inline uint64_t* ThreadWriter::Claim(uint32_t words) {
  const uint32_t bytes = words * 8;
  if (write_ + bytes > limit_ || (write_ & (ring_bytes_ - 1)) + bytes > ring_bytes_) [[unlikely]] {
    if (!MakeRoom(bytes)) return nullptr;
  }
  return reinterpret_cast<uint64_t*>(ring_ + (write_ & (ring_bytes_ - 1)));
}

inline void ThreadWriter::Commit(uint32_t words) {
  write_ += words * 8;
  slot_->write_position.store(write_, std::memory_order_release);
}

inline uint64_t* ThreadWriter::Start(uint64_t* at, RecordKind kind, uint8_t flags, uint32_t words,
                                     uint32_t domain, uint32_t depth, uint32_t name,
                                     uint32_t category) {
  at[0] = static_cast<uint64_t>(kind) | uint64_t{flags} << 8 | uint64_t{words} << 16 |
          uint64_t{domain} << 32 | uint64_t{depth} << 48;
  at[1] = uint64_t{name} | uint64_t{category} << 32;
  return at + 2;
}

inline void ThreadWriter::MayTakeTriple(uint64_t now) {
  if (now >= triple_due_) [[unlikely]]
    TakeDueTriple(*session_, triple_due_, now);
}

inline int ThreadWriter::Push(uint32_t domain, uint32_t name, uint32_t category,
                              const EventPayload& payload) {
  const uint32_t index = depth_;
  if (index == kMaxOpenRanges || overflowed_ != 0) [[unlikely]] {
    if (index == kMaxOpenRanges || overflowed_by_domain_[domain] != 0) {
      return PushBeyondStack(domain);
    }
  }
  int level = 0;
  if (index != 0) {
    const Frame& below = frames_[index - 1];
    level = below.domain == domain ? below.level + 1 : LevelOf(domain);
  }
  Frame& frame = frames_[index];
  frame.domain = domain;
  frame.level = static_cast<uint16_t>(level);
  frame.flags = payload.flags;
  frame.words = static_cast<uint8_t>(payload.words);
  frame.value = payload.value;
  if (payload.words != 0) Append(payloads_[index], payload.groups, payload.words);

  OpenRange& open = slot_->open[index];
  slot_->open_sequence.store(sequence_ + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  open.name = name;
  open.category = category;
  open.domain = domain;
  open.open_id = next_open_id_++;
  open.start_ticks = ReadTicks(clock_);
  depth_ = index + 1;
  slot_->open_depth.store(index + 1, std::memory_order_release);
  sequence_ += 2;
  slot_->open_sequence.store(sequence_, std::memory_order_release);
  return level;
}

inline int ThreadWriter::Pop(uint32_t domain, const EventPayload& extra) {
  const uint64_t end = ReadTicks(clock_);
  const uint32_t depth = depth_;
  if (depth == 0 || overflowed_ != 0 || frames_[depth - 1].domain != domain) [[unlikely]] {
    return PopOther(domain, end, extra);
  }
  Close(depth - 1, end, extra);
  // An entry at or above open_depth is void, and the next push moves the sequence on before it
  // rewrites one: the depth alone tells.
  depth_ = depth - 1;
  slot_->open_depth.store(depth - 1, std::memory_order_release);
  MayTakeTriple(end);
  return frames_[depth - 1].level;
}

inline void ThreadWriter::Close(uint32_t index, uint64_t end, const EventPayload& extra) {
  const Frame& frame = frames_[index];
  const OpenRange& open = slot_->open[index];
  uint32_t extra_words = extra.words;
  if (frame.words + extra_words > kMaxPayloadWords) [[unlikely]] {
    Lose(LossCause::kPayloadTooLarge);
    extra_words = 0;
  }
  const uint32_t has_value = (frame.flags & kRecordHasValue) != 0 ? 1 : 0;
  const uint32_t words = 5 + has_value + frame.words + extra_words;
  uint64_t* at = Claim(words);
  if (at == nullptr) [[unlikely]]
    return Lose(LossCause::kRingFull);
  at = Start(at, RecordKind::kRange, frame.flags, words, frame.domain, frame.level,
             extra.name != 0 ? extra.name : open.name, open.category);
  at[0] = open.start_ticks;
  at[1] = end;
  at[2] = open.open_id;
  at += 3;
  if (has_value != 0) *at++ = frame.value;
  at = Append(at, payloads_[index], frame.words);
  Append(at, extra.groups, extra_words);
  Commit(words);
}

inline void ThreadWriter::Mark(uint32_t domain, uint32_t name, uint32_t category,
                               const EventPayload& payload) {
  const uint64_t ticks = ReadTicks(clock_);
  const uint32_t has_value = (payload.flags & kRecordHasValue) != 0 ? 1 : 0;
  const uint32_t words = 3 + has_value + payload.words;
  uint64_t* at = Claim(words);
  if (at == nullptr) [[unlikely]]
    return Lose(LossCause::kRingFull);
  const auto depth = static_cast<uint32_t>(LevelOf(domain));
  at = Start(at, RecordKind::kMark, payload.flags, words, domain, depth, name, category);
  *at++ = ticks;
  if (has_value != 0) *at++ = payload.value;
  Append(at, payload.groups, payload.words);
  Commit(words);
  MayTakeTriple(ticks);
}

inline void ThreadWriter::Sample(uint32_t domain, uint32_t name, uint64_t value, bool is_float) {
  const uint64_t ticks = ReadTicks(clock_);
  uint64_t* at = Claim(4);
  if (at == nullptr) [[unlikely]]
    return Lose(LossCause::kRingFull);
  at = Start(at, RecordKind::kCounter, is_float ? kRecordFloat : 0, 4, domain, 0, name, 0);
  at[0] = ticks;
  at[1] = value;
  Commit(4);
  MayTakeTriple(ticks);
}

inline void ThreadWriter::Activity(uint32_t lane, uint32_t domain, uint32_t name, uint32_t category,
                                   uint64_t start, uint64_t end, bool monotonic,
                                   const EventPayload& payload) {
  const uint32_t has_value = (payload.flags & kRecordHasValue) != 0 ? 1 : 0;
  const uint32_t words = 5 + has_value + payload.words;
  uint64_t* at = Claim(words);
  if (at == nullptr) [[unlikely]]
    return Lose(LossCause::kRingFull);
  const auto flags = static_cast<uint8_t>(payload.flags | (monotonic ? kRecordMonotonic : 0));
  at = Start(at, RecordKind::kActivity, flags, words, domain, 0, name, category);
  at[0] = start;
  at[1] = end;
  at[2] = lane;
  at += 3;
  if (has_value != 0) *at++ = payload.value;
  Append(at, payload.groups, payload.words);
  Commit(words);
}

}  // namespace poolscope
