#include "trace/thread_writer.h"

#include <string.h>

#include "trace/session_writer.h"

namespace poolscope {

int ThreadWriter::LevelOf(uint32_t domain) const {
  for (uint32_t i = depth_; i > 0; --i) {
    if (frames_[i - 1].domain == domain) return frames_[i - 1].level + 1;
  }
  return 0;
}

int ThreadWriter::PushBeyondStack(uint32_t domain) {
  slot_->open_overflow = ++overflowed_;
  ++overflowed_by_domain_[domain];
  return LevelOf(domain) + static_cast<int>(overflowed_by_domain_[domain]) - 1;
}

int ThreadWriter::PopOther(uint32_t domain, uint64_t end, const EventPayload& extra) {
  if (overflowed_by_domain_[domain] != 0) {
    session_->Lose(LossCause::kOpenTableFull, 1, end, end);
    slot_->open_overflow = --overflowed_;
    --overflowed_by_domain_[domain];
    return LevelOf(domain) + static_cast<int>(overflowed_by_domain_[domain]);
  }
  uint32_t index = depth_;
  while (index > 0 && frames_[index - 1].domain != domain) --index;
  if (index == 0) {
    session_->Lose(LossCause::kUnmatchedEnd, 1, end, end);
    return kNoRange;
  }
  --index;
  const int level = frames_[index].level;
  Close(index, end, extra);
  RemoveAt(index);
  MayTakeTriple(end);
  return level;
}

void ThreadWriter::EndOpenRanges() {
  const uint64_t end = now();
  if (overflowed_ != 0) {
    session_->Lose(LossCause::kOpenTableFull, overflowed_, end, end);
    slot_->open_overflow = overflowed_ = 0;
    memset(overflowed_by_domain_, 0, sizeof(overflowed_by_domain_));
  }
  while (depth_ != 0) {
    frames_[depth_ - 1].flags |= kRecordOpenAtExit;
    Close(depth_ - 1, end, {});
    --depth_;
    slot_->open_depth.store(depth_, std::memory_order_release);
  }
}

void ThreadWriter::RemoveAt(uint32_t index) {
  slot_->open_sequence.store(sequence_ + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  for (uint32_t i = index; i + 1 < depth_; ++i) {
    slot_->open[i] = slot_->open[i + 1];
    frames_[i] = frames_[i + 1];
    Append(payloads_[i], payloads_[i + 1], frames_[i].words);
  }
  --depth_;
  slot_->open_depth.store(depth_, std::memory_order_release);
  sequence_ += 2;
  slot_->open_sequence.store(sequence_, std::memory_order_release);
}

void ThreadWriter::EndProcessRange(const ProcessRange& range, uint64_t id, uint64_t end_ticks,
                                   const EventPayload& extra) {
  uint32_t extra_words = extra.words;
  if (range.payload_words + extra_words > kMaxPayloadWords) {
    Lose(LossCause::kPayloadTooLarge);
    extra_words = 0;
  }
  const uint32_t words = 6 + range.payload_words + extra_words;
  uint64_t* at = Claim(words);
  if (at == nullptr) return Lose(LossCause::kRingFull);
  at = Start(at, RecordKind::kProcessRange, static_cast<uint8_t>(range.flags), words, range.domain,
             0, extra.name != 0 ? extra.name : range.name, range.category);
  at[0] = range.start_ticks;
  at[1] = end_ticks;
  at[2] = id;
  at[3] = range.start_tid;
  at = Append(at + 4, range.payload, range.payload_words);
  Append(at, extra.groups, extra_words);
  Commit(words);
  MayTakeTriple(end_ticks);
}

void ThreadWriter::Past(RecordKind kind, uint32_t domain, uint32_t name, uint32_t category,
                        uint64_t start, uint64_t end, bool monotonic, const EventPayload& payload) {
  const bool is_range = kind == RecordKind::kProcessRange;
  const bool has_value = kind == RecordKind::kCounter || (payload.flags & kRecordHasValue) != 0;
  const uint32_t words = 3 + (is_range ? 3 : 0) + (has_value ? 1 : 0) + payload.words;
  uint64_t* at = Claim(words);
  if (at == nullptr) return Lose(LossCause::kRingFull);
  const auto flags = static_cast<uint8_t>(payload.flags | (monotonic ? kRecordMonotonic : 0));
  at = Start(at, kind, flags, words, domain, 0, name, category);
  *at++ = start;
  if (is_range) {
    *at++ = end;
    *at++ = 0;  // it never was open
    *at++ = tid_;
  }
  if (has_value) *at++ = payload.value;
  Append(at, payload.groups, payload.words);
  Commit(words);
}

void ThreadWriter::Lose(LossCause cause) {
  const uint64_t ticks = now();
  session_->Lose(cause, 1, ticks, ticks);
}

bool ThreadWriter::MakeRoom(uint32_t bytes) { return session_->MakeRoom(this, bytes); }

}  // namespace poolscope
