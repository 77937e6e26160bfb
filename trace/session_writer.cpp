#include "trace/session_writer.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "trace/locked.h"
#include "trace/zeroed_memory.h"

namespace poolscope {
namespace {

constexpr uint64_t kDefinitionStep = uint64_t{64} << 10;
constexpr uint64_t kSlotStep = uint64_t{16} << 10;
// While overwriting, this much more than needed is given up at once, so that losing is counted
// once in a hundred events.
constexpr uint64_t kOverwriteBatch = 4096;
// With nobody draining, rings of exited threads are kept for a late collector up to this many.
constexpr uint32_t kUndrainedSlotsKept = 64;

uint64_t WantedRingBytes() {
  const char* text = getenv("POOLSCOPE_RING_BYTES");
  if (text == nullptr) return kRingBytes;
  const uint64_t bytes = strtoull(text, nullptr, 10);
  if (bytes == 0) return kRingBytes;
  if (bytes >= kMaxRingBytes) return kMaxRingBytes;
  uint64_t rounded = kMinRingBytes;
  while (rounded < bytes) rounded *= 2;
  return rounded;
}

std::string_view Cut(std::string_view text) {
  if (text.size() <= kMaxStringBytes) return text;
  size_t bytes = kMaxStringBytes;  // not within a UTF-8 sequence
  while (bytes > kMaxStringBytes - 4 && (text[bytes] & 0xc0) == 0x80) --bytes;
  return {text.data(), bytes};
}

// In ticks; `now` for a record that does not say it in ticks.
uint64_t EndOfRecord(const RecordHeader& header, const uint64_t* words, uint64_t now) {
  if ((header.flags & kRecordMonotonic) != 0) return now;
  const auto kind = static_cast<RecordKind>(header.kind);
  return kind == RecordKind::kMark || kind == RecordKind::kCounter ? words[2] : words[3];
}

}  // namespace

bool SessionWriter::Init() {
  if (initialised_.load(std::memory_order_acquire)) return true;
  const Locked lock(&mutex_);
  if (initialised_.load(std::memory_order_relaxed)) return true;
  if (!definitions_.Init()) return false;
  writers_ = MapZeroed<ThreadWriter>(kMaxThreads);
  if (writers_ == nullptr) return false;
  initialised_.store(true, std::memory_order_release);
  return true;
}

// --- Definitions ---

uint32_t SessionWriter::Intern(std::string_view text) {
  text = Cut(text);
  const uint32_t hash = DefinitionLog::Hash(text);
  if (const uint32_t id = definitions_.Find(text, hash); id != 0) return id;
  {
    const Locked lock(&mutex_);
    if (const uint32_t id = definitions_.Find(text, hash); id != 0) return id;
    const uint64_t before = definitions_.bytes();
    const uint32_t id = definitions_.AppendString(text);
    if (id != 0) {
      if (PublishDefinitions()) {
        definitions_.Expose(id, hash);
        return id;
      }
      definitions_.TruncateAndClose(before);
    }
  }
  Lose(LossCause::kTooManyNames);
  return kOverflowString;
}

bool SessionWriter::Define(DefinitionKind kind, uint64_t id, const void* payload, uint32_t bytes,
                           uint64_t scope) {
  {
    const Locked lock(&mutex_);
    const uint64_t before = definitions_.bytes();
    if (definitions_.Append(kind, id, payload, bytes, scope)) {
      if (PublishDefinitions()) return true;
      definitions_.TruncateAndClose(before);
    }
  }
  Lose(LossCause::kTooManyNames);
  return false;
}

bool SessionWriter::PublishDefinitions() {
  if (file_.base() == nullptr || published_ == definitions_.bytes()) return true;
  const uint64_t bytes = definitions_.bytes();
  if (!Grow(&definition_region_, bytes, kDefinitionStep, kDefinitionBytes)) return false;
  memcpy(file_.base() + kDefinitionsAt + published_, definitions_.data() + published_,
         bytes - published_);
  file_.header()->definition_bytes.store(bytes, std::memory_order_release);
  published_ = bytes;
  return true;
}

bool SessionWriter::Grow(Region* region, uint64_t bytes, uint64_t step, uint64_t most) {
  if (bytes <= region->backed) return true;
  if (bytes > most) return false;
  const uint64_t backed = std::min(most, (bytes + step - 1) / step * step);
  if (!file_.Reserve(region->offset + region->backed, backed - region->backed)) return false;
  region->backed = backed;
  return true;
}

// --- The session ---

bool SessionWriter::Start(Reason* why) {
  const Locked lock(&mutex_);
  if (started_.load(std::memory_order_relaxed)) return true;
  clock_ = TrustedClock();
  ring_bytes_ = WantedRingBytes();
  const ClockTriple first = TakeTriple(clock_);
  if (!file_.Create(kMaxThreads * ring_bytes_, clock_, why)) return false;
  if (!PublishDefinitions()) {
    why->Set("no room for the names that were registered before the first event");
    file_.Discard();
    return false;
  }
  const ClockTriple second = TakeTriple(clock_);
  AddTriple(first);
  AddTriple(second);
  if (second.monotonic_ns > first.monotonic_ns) {
    ticks_per_second_ =
        static_cast<uint64_t>(static_cast<double>(second.ticks - first.ticks) * 1e9 /
                              static_cast<double>(second.monotonic_ns - first.monotonic_ns));
  }
  triple_interval_ = ticks_per_second_ / 1000;
  triple_due_.store(second.ticks + triple_interval_, std::memory_order_relaxed);
  std::atomic_ref<uint64_t>(file_.header()->magic).store(kSessionMagic, std::memory_order_release);
  started_.store(true, std::memory_order_release);
  return true;
}

void SessionWriter::MarkEnded() {
  if (!started()) return;
  if (!taking_triple_.test_and_set(std::memory_order_acquire)) {
    AddTriple(TakeTriple(clock_));
    taking_triple_.clear(std::memory_order_release);
  }
  file_.header()->ended.store(1, std::memory_order_release);
}

void SessionWriter::MarkAgentOff(AgentOff why) {
  if (!started()) return;
  file_.header()->agent_off.store(static_cast<uint32_t>(why), std::memory_order_release);
}

void SessionWriter::AddTriple(const ClockTriple& triple) {
  SessionHeader* header = file_.header();
  const uint64_t count = header->triples_written.load(std::memory_order_relaxed);
  header->triples[count % kClockTriples] = triple;
  header->triples_written.store(count + 1, std::memory_order_release);
}

void TakeDueTriple(SessionWriter& session, uint64_t& due, uint64_t now) {
  const uint64_t shared_due = session.triple_due_.load(std::memory_order_relaxed);
  if (now < shared_due) {
    due = shared_due;
    return;
  }
  due = now + session.ticks_per_second_ / 1000;
  if (session.taking_triple_.test_and_set(std::memory_order_acquire)) return;
  session.AddTriple(TakeTriple(session.clock_));
  session.triple_interval_ = std::min(2 * session.triple_interval_, session.ticks_per_second_);
  session.triple_due_.store(now + session.triple_interval_, std::memory_order_relaxed);
  session.taking_triple_.clear(std::memory_order_release);
}

void SessionWriter::Lose(LossCause cause, uint64_t events, uint64_t first_ticks,
                         uint64_t last_ticks) {
  if (!started()) return;
  LossCounter& counter = file_.header()->losses[static_cast<size_t>(cause)];
  uint64_t none = 0;
  counter.first_ticks.compare_exchange_strong(none, first_ticks, std::memory_order_relaxed);
  counter.last_ticks.store(last_ticks, std::memory_order_relaxed);
  counter.events.fetch_add(events, std::memory_order_release);
}

void SessionWriter::Lose(LossCause cause) {
  const uint64_t ticks = ReadTicks(clock_);
  Lose(cause, 1, ticks, ticks);
}

void SessionWriter::ForgetInChild() {
  file_.Abandon();
  started_.store(false, std::memory_order_relaxed);
  definition_region_.backed = 0;
  slot_region_.backed = 0;
  published_ = 0;
  next_ring_ = kRingsAt;
  definitions_.ForgetThreads();
  if (writers_ != nullptr) {
    madvise(writers_, kMaxThreads * sizeof(ThreadWriter), MADV_DONTNEED);  // reads as zeros
  }
  ranges_.Reset(nullptr, 0);
  ranges_backed_.store(false, std::memory_order_relaxed);
  taking_triple_.clear(std::memory_order_relaxed);
  mutex_ = PTHREAD_MUTEX_INITIALIZER;
}

// --- Threads ---

bool SessionWriter::Overwrites() const {
  return file_.header()->ring_mode.load(std::memory_order_relaxed) ==
         static_cast<uint32_t>(RingMode::kOverwriteOldest);
}

// The slot of an exited thread: a drained one, else the one that exited first, given up to be
// overwritten, where that is allowed.
ThreadSlot* SessionWriter::UsedSlot(bool undrained_too) {
  const uint32_t used = file_.header()->slots_used.load(std::memory_order_relaxed);
  ThreadSlot* oldest = nullptr;
  for (uint32_t i = 0; i < used; ++i) {
    ThreadSlot* slot = file_.slots() + i;
    if (slot->state.load(std::memory_order_acquire) !=
        static_cast<uint32_t>(SlotState::kThreadExited)) {
      continue;
    }
    if (slot->read_position.load(std::memory_order_acquire) == writers_[i].write_) return slot;
    if (oldest == nullptr || exit_order_[i] < exit_order_[oldest - file_.slots()]) oldest = slot;
  }
  if (oldest == nullptr || !undrained_too) return nullptr;
  ThreadWriter* writer = writers_ + (oldest - file_.slots());
  return Overwrite(writer, writer->write_) ? oldest : nullptr;
}

// A slot that was never taken, with a ring; smaller where the session's share runs out.
ThreadSlot* SessionWriter::FreshSlot() {
  const uint32_t index = file_.header()->slots_used.load(std::memory_order_relaxed);
  if (index == kMaxThreads || !Grow(&slot_region_, (index + 1) * sizeof(ThreadSlot), kSlotStep,
                                    PageUp(kMaxThreads * sizeof(ThreadSlot)))) {
    return nullptr;
  }
  uint64_t bytes = ring_bytes_;
  while (bytes > kMinRingBytes && bytes > file_.budget() / 8) bytes /= 2;
  while (next_ring_ + bytes > kRingsAt + file_.ring_area() || !file_.Reserve(next_ring_, bytes)) {
    bytes /= 2;
    if (bytes < kMinRingBytes) return nullptr;
  }
  ThreadSlot* slot = file_.slots() + index;
  slot->ring_offset = next_ring_;
  slot->ring_bytes = bytes;
#if defined(MADV_POPULATE_WRITE)
  madvise(file_.base() + next_ring_, bytes, MADV_POPULATE_WRITE);  // no faults while recording
#endif
  ThreadWriter* writer = writers_ + index;
  writer->ring_ = file_.base() + next_ring_;
  writer->ring_bytes_ = bytes;
  next_ring_ += bytes;
  file_.header()->slots_used.store(index + 1, std::memory_order_release);
  return slot;
}

ThreadWriter* SessionWriter::Attach() {
  if (!started()) return nullptr;
  const Locked lock(&mutex_);
  const bool overwrites = Overwrites();
  const uint32_t used = file_.header()->slots_used.load(std::memory_order_relaxed);
  ThreadSlot* slot = UsedSlot(overwrites && used >= kUndrainedSlotsKept);
  if (slot == nullptr) slot = FreshSlot();
  if (slot == nullptr && overwrites) slot = UsedSlot(true);
  if (slot == nullptr) return nullptr;

  ThreadWriter* writer = writers_ + (slot - file_.slots());
  writer->session_ = this;
  writer->slot_ = slot;
  writer->clock_ = clock_;
  writer->tid_ = static_cast<uint32_t>(syscall(SYS_gettid));
  writer->triple_due_ = 0;
  writer->limit_ = 0;  // to be asked for
  slot->open_sequence.store(writer->sequence_ + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  slot->open_depth.store(0, std::memory_order_relaxed);
  writer->sequence_ += 2;
  slot->open_sequence.store(writer->sequence_, std::memory_order_release);
  slot->tid = writer->tid_;
  slot->start_ticks = ReadTicks(clock_);
  prctl(PR_GET_NAME, slot->name);
  slot->incarnation.fetch_add(1, std::memory_order_release);
  slot->state.store(static_cast<uint32_t>(SlotState::kLive), std::memory_order_release);
  return writer;
}

void SessionWriter::Detach(ThreadWriter* writer) {
  writer->EndOpenRanges();
  const Locked lock(&mutex_);
  exit_order_[writer - writers_] = ++exits_;
  writer->slot_->state.store(static_cast<uint32_t>(SlotState::kThreadExited),
                             std::memory_order_release);
}

bool SessionWriter::MakeRoom(ThreadWriter* writer, uint32_t bytes) {
  const uint64_t ring_bytes = writer->ring_bytes_;
  const uint64_t offset = writer->write_ & (ring_bytes - 1);
  const uint64_t pad = offset + bytes > ring_bytes ? ring_bytes - offset : 0;
  const uint64_t end = writer->write_ + pad + bytes;
  if (end > writer->limit_) {
    uint64_t read = writer->slot_->read_position.load(std::memory_order_acquire);
    if (read > writer->write_) read = 0;  // no reader writes that
    const uint64_t free_until = std::max(writer->first_, read);
    writer->limit_ = free_until + ring_bytes;
    if (end > writer->limit_) {
      if (!Overwrites() || !Overwrite(writer, end - ring_bytes + kOverwriteBatch)) return false;
    }
  }
  if (pad != 0) {
    const RecordHeader header = {static_cast<uint8_t>(RecordKind::kPad), 0,
                                 static_cast<uint16_t>(pad / 8), 0, 0};
    memcpy(writer->ring_ + offset, &header, sizeof(header));
    writer->write_ += pad;  // published with the record that follows
  }
  return true;
}

// Gives up the oldest records up to at least `until`, and counts those that no reader took. False:
// a reader has come, and nothing may be overwritten any more.
bool SessionWriter::Overwrite(ThreadWriter* writer, uint64_t until) {
  ThreadSlot* slot = writer->slot_;
  slot->overwriting.store(1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!Overwrites()) {
    slot->overwriting.store(0, std::memory_order_release);
    return false;
  }
  const uint64_t read = slot->read_position.load(std::memory_order_acquire);
  const uint64_t ring_mask = writer->ring_bytes_ - 1;
  until = std::min(until, writer->write_);
  uint64_t lost = 0;
  uint64_t first_ticks = 0;
  uint64_t last_ticks = 0;
  uint64_t at = std::max(writer->first_, std::min(read, writer->write_));
  while (at < until) {
    const auto* words = reinterpret_cast<const uint64_t*>(writer->ring_ + (at & ring_mask));
    RecordHeader header;
    memcpy(&header, words, sizeof(header));
    if (header.words == 0 || header.words > kMaxRecordWords) {  // someone else wrote here
      MarkAgentOff(AgentOff::kForeignRecord);
      slot->overwriting.store(0, std::memory_order_release);
      return false;
    }
    if (header.kind != static_cast<uint8_t>(RecordKind::kPad)) {
      last_ticks = EndOfRecord(header, words, writer->now());
      if (lost++ == 0) first_ticks = last_ticks;
    }
    at += header.words * 8u;
  }
  writer->first_ = at;
  writer->limit_ = at + writer->ring_bytes_;
  slot->first_position.store(at, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  if (lost != 0) Lose(LossCause::kOverwritten, lost, first_ticks, last_ticks);
  slot->overwriting.store(0, std::memory_order_release);
  return true;
}

// --- Start/end ranges ---

bool SessionWriter::BackRanges() {
  const Locked lock(&mutex_);
  if (ranges_backed_.load(std::memory_order_relaxed)) return true;
  uint32_t entries = kMaxOpenProcessRanges;
  while (entries >= 64 && entries * sizeof(ProcessRange) > file_.budget() / 8) entries /= 2;
  if (entries < 64 || !file_.Reserve(kProcessRangesAt, entries * sizeof(ProcessRange))) {
    return false;
  }
  ranges_.Reset(file_.ranges(), entries);
  ranges_backed_.store(true, std::memory_order_release);
  return true;
}

uint64_t SessionWriter::StartProcessRange(ThreadWriter* writer, uint32_t domain, uint32_t name,
                                          uint32_t category, const EventPayload& payload) {
  const uint64_t id = OpenProcessRange(writer, domain, name, category, payload);
  if (id == 0) {
    const bool backed = ranges_backed_.load(std::memory_order_acquire);
    writer->Lose(backed ? LossCause::kOpenTableFull : LossCause::kNoRing);
  }
  return id;
}

uint64_t SessionWriter::OpenProcessRange(ThreadWriter* writer, uint32_t domain, uint32_t name,
                                         uint32_t category, const EventPayload& payload) {
  ProcessRange* range = nullptr;
  const bool backed = ranges_backed_.load(std::memory_order_acquire) || BackRanges();
  const uint64_t id = backed ? ranges_.Take(&range) : 0;
  if (id == 0) return 0;
  const uint32_t has_value = (payload.flags & kRecordHasValue) != 0 ? 1 : 0;
  range->start_tid = writer->tid();
  range->name = name;
  range->category = category;
  range->domain = domain;
  range->flags = payload.flags;
  range->payload[0] = payload.value;
  if (has_value + payload.words > kMaxProcessRangeWords) {
    writer->Lose(LossCause::kPayloadTooLarge);
    range->payload_words = has_value;
  } else {
    std::copy_n(payload.groups, payload.words, range->payload + has_value);
    range->payload_words = has_value + payload.words;
  }
  range->start_ticks = writer->now();
  ranges_.Open(range, id);
  return id;
}

void SessionWriter::EndProcessRange(ThreadWriter* writer, uint64_t id, const EventPayload& extra) {
  const uint64_t end = writer->now();
  ProcessRange* range = ranges_.BeginEnd(id);
  if (range == nullptr) {
    if (id != 0) writer->Lose(LossCause::kUnmatchedEnd);  // 0: its start was already counted
    return;
  }
  writer->EndProcessRange(*range, id, end, extra);
  ranges_.Free(range);
}

void SessionWriter::CloseProcessRange(uint64_t id) {
  ProcessRange* range = ranges_.BeginEnd(id);
  if (range != nullptr) ranges_.Free(range);
}

}  // namespace poolscope
