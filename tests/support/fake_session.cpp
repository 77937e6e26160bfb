#include "tests/support/fake_session.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace poolscope {
namespace {

void ParseHex(const std::string& text, uint8_t* out) {
  for (int i = 0; i < 16; ++i) {
    out[i] =
        static_cast<uint8_t>(std::stoi(text.substr(static_cast<size_t>(i) * 2, 2), nullptr, 16));
  }
}

void Require(bool condition, const char* what) {
  if (condition) return;
  std::perror(what);
  std::abort();
}

uint64_t Words(const uint64_t* ring, uint64_t position, uint64_t ring_bytes) {
  RecordHeader header;
  std::memcpy(&header, &ring[(position & (ring_bytes - 1)) / 8], sizeof(header));
  return header.words;
}

}  // namespace

FakeSession::FakeSession(Options options)
    : options_(std::move(options)),
      path_(options_.folder / (options_.session_id + kSessionSuffix)) {
  fd_ = open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  Require(fd_ >= 0, path_.c_str());
  file_bytes_ = kRingsAt + options_.ring_bytes * options_.max_threads;
  Require(ftruncate(fd_, static_cast<off_t>(file_bytes_)) == 0, "ftruncate");
  base_ =
      static_cast<char*>(mmap(nullptr, file_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0));
  Require(base_ != MAP_FAILED, "mmap");
  // A lock of the open file, so that a reader in this process sees it too.
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  Require(fcntl(fd_, F_OFD_SETLK, &lock) == 0, "lock");
  SessionHeader& head = header();
  head.format_version = kSessionFormatVersion;
  head.header_bytes = sizeof(SessionHeader);
  ParseHex(options_.session_id, head.session_id);
  ParseHex(options_.run_id, head.run_id);
  head.pid = options_.pid;
  head.parent_pid = 1;
  head.clock = ClockKind::kMonotonic;
  std::snprintf(head.host, sizeof(head.host), "%s", options_.host.c_str());
  std::snprintf(head.command, sizeof(head.command), "%s", options_.command.c_str());
  std::atomic_ref<uint64_t>(head.magic).store(kSessionMagic, std::memory_order_release);
  Name("(too many names)");
}

FakeSession::~FakeSession() {
  KillWriter();
  munmap(base_, file_bytes_);
  unlink(path_.c_str());
}

void FakeSession::Define(DefinitionKind kind, uint64_t id, std::span<const std::byte> payload) {
  const uint64_t at = header().definition_bytes.load();
  const DefinitionHeader entry{static_cast<uint16_t>(kind), 0,
                               static_cast<uint32_t>(payload.size()), id};
  const uint64_t bytes = sizeof(entry) + ((payload.size() + 7) & ~size_t{7});
  if (at + bytes > kDefinitionBytes) return;
  std::memcpy(base_ + kDefinitionsAt + at, &entry, sizeof(entry));
  if (!payload.empty()) {
    std::memcpy(base_ + kDefinitionsAt + at + sizeof(entry), payload.data(), payload.size());
  }
  header().definition_bytes.store(at + bytes, std::memory_order_release);
}

uint32_t FakeSession::Name(std::string_view text) {
  if (const auto found = names_.find(text); found != names_.end()) return found->second;
  const auto id = static_cast<uint32_t>(names_.size() + 1);
  Define(DefinitionKind::kString, id, std::as_bytes(std::span(text.data(), text.size())));
  names_.emplace(text, id);
  return id;
}

uint32_t FakeSession::Domain(std::string_view name) {
  if (const auto found = domains_.find(name); found != domains_.end()) return found->second;
  const uint32_t text = Name(name);
  const auto id = static_cast<uint32_t>(domains_.size() + 1);
  Define(DefinitionKind::kDomain, id, std::as_bytes(std::span(&text, 1)));
  domains_.emplace(name, id);
  return id;
}

uint32_t FakeSession::Schema(std::string_view name, const std::vector<SchemaFieldDef>& fields) {
  const uint32_t id = Name(name);
  Define(DefinitionKind::kSchema, id, std::as_bytes(std::span(fields)));
  return id;
}

uint32_t FakeSession::CounterName(std::string_view name, uint32_t domain, bool is_float) {
  const uint32_t id = Name(name);
  const uint32_t payload[2] = {domain, is_float};
  Define(DefinitionKind::kCounter, id, std::as_bytes(std::span(payload)));
  return id;
}

void FakeSession::ThreadName(uint32_t tid, std::string_view name) {
  const uint32_t text = Name(name);
  Define(DefinitionKind::kThreadName, tid, std::as_bytes(std::span(&text, 1)));
}

void FakeSession::Resource(uint32_t domain, uint64_t identifier, std::string_view text) {
  struct {
    uint64_t identifier;
    uint32_t domain;
    uint32_t text;
  } const payload{identifier, domain, Name(text)};
  Define(DefinitionKind::kResource, 1, std::as_bytes(std::span(&payload, 1)));
}

void FakeSession::Lane(uint32_t lane, const LaneDef& definition) {
  Define(DefinitionKind::kLane, lane, std::as_bytes(std::span(&definition, 1)));
}

uint32_t FakeSession::SlotOf(uint32_t tid) {
  if (const auto found = slots_.find(tid); found != slots_.end()) return found->second;
  // A slot whose thread has gone and whose events are committed is used again.
  uint32_t index = header().slots_used.load();
  for (uint32_t i = 0; i < index; ++i) {
    if (slot(i).state.load() == static_cast<uint32_t>(SlotState::kThreadExited) &&
        slot(i).read_position.load() == slot(i).write_position.load()) {
      index = i;
      break;
    }
  }
  Require(index < options_.max_threads, "too many fake threads");
  ThreadSlot& taken = slot(index);
  taken.tid = tid;
  taken.ring_offset = kRingsAt + index * options_.ring_bytes;
  taken.ring_bytes = options_.ring_bytes;
  taken.incarnation.fetch_add(1);
  taken.state.store(static_cast<uint32_t>(SlotState::kLive), std::memory_order_release);
  if (index == header().slots_used.load()) header().slots_used.store(index + 1);
  slots_[tid] = index;
  return index;
}

uint64_t* FakeSession::RingOf(uint32_t tid) {
  return reinterpret_cast<uint64_t*>(base_ + slot(SlotOf(tid)).ring_offset);
}

bool FakeSession::MakeRoom(ThreadSlot& taken, uint64_t bytes, int64_t at) {
  const uint64_t* ring = reinterpret_cast<uint64_t*>(base_ + taken.ring_offset);
  const uint64_t write = taken.write_position.load(std::memory_order_relaxed);
  if (header().ring_mode.load() == static_cast<uint32_t>(RingMode::kDropNewest)) {
    const uint64_t kept =
        std::max(taken.read_position.load(std::memory_order_acquire), taken.first_position.load());
    if (write + bytes - kept <= taken.ring_bytes) return true;
    Lose(LossCause::kRingFull, 1, at);
    return false;
  }
  while (write + bytes - taken.first_position.load() > taken.ring_bytes) {
    const uint64_t first = taken.first_position.load();
    const uint64_t words = Words(ring, first, taken.ring_bytes);
    RecordHeader gone;
    std::memcpy(&gone, &ring[(first & (taken.ring_bytes - 1)) / 8], sizeof(gone));
    if (gone.kind != static_cast<uint8_t>(RecordKind::kPad) &&
        first >= taken.read_position.load()) {
      Lose(LossCause::kOverwritten, 1, at);
    }
    taken.first_position.store(first + words * 8, std::memory_order_release);
  }
  return true;
}

bool FakeSession::Write(uint32_t tid, int64_t at, RecordKind kind, uint8_t flags, uint32_t domain,
                        uint32_t depth, uint32_t name, uint32_t category,
                        std::span<const uint64_t> own, std::span<const uint64_t> payload) {
  ThreadSlot& taken = slot(SlotOf(tid));
  uint64_t* ring = RingOf(tid);
  const uint64_t words = 2 + own.size() + payload.size();
  uint64_t write = taken.write_position.load();
  const uint64_t to_end = (taken.ring_bytes - (write & (taken.ring_bytes - 1))) / 8;
  const uint64_t pad = to_end < words ? to_end : 0;
  if (!MakeRoom(taken, (pad + words) * 8, at)) return false;
  if (pad > 0) {
    const RecordHeader header{static_cast<uint8_t>(RecordKind::kPad), 0, static_cast<uint16_t>(pad),
                              0, 0};
    std::memcpy(&ring[(write & (taken.ring_bytes - 1)) / 8], &header, sizeof(header));
    write += pad * 8;
  }
  uint64_t* out = &ring[(write & (taken.ring_bytes - 1)) / 8];
  const RecordHeader header{static_cast<uint8_t>(kind), flags, static_cast<uint16_t>(words),
                            static_cast<uint16_t>(domain), static_cast<uint16_t>(depth)};
  std::memcpy(out, &header, sizeof(header));
  out[1] = name | uint64_t{category} << 32;
  for (size_t i = 0; i < own.size(); ++i) out[2 + i] = own[i];
  for (size_t i = 0; i < payload.size(); ++i) out[2 + own.size() + i] = payload[i];
  taken.write_position.store(write + words * 8, std::memory_order_release);
  return true;
}

void FakeSession::Push(uint32_t tid, int64_t at, uint32_t name, uint32_t category,
                       uint32_t domain) {
  const uint32_t index = SlotOf(tid);
  ThreadSlot& taken = slot(index);
  const uint32_t depth = taken.open_depth.load();
  Require(depth < kMaxOpenRanges, "open stack full");
  taken.open_sequence.fetch_add(1);
  taken.open[depth] = {static_cast<uint64_t>(at), name, category, domain, next_open_id_[index]++};
  taken.open_depth.store(depth + 1);
  taken.open_sequence.fetch_add(1);
}

bool FakeSession::Pop(uint32_t tid, int64_t at, std::span<const uint64_t> payload) {
  ThreadSlot& taken = slot(SlotOf(tid));
  const uint32_t depth = taken.open_depth.load();
  Require(depth > 0, "nothing open");
  const OpenRange range = taken.open[depth - 1];
  const uint64_t own[3] = {range.start_ticks, static_cast<uint64_t>(at), range.open_id};
  const bool kept = Write(tid, at, RecordKind::kRange, 0, range.domain, depth - 1, range.name,
                          range.category, own, payload);
  taken.open_sequence.fetch_add(1);
  taken.open_depth.store(depth - 1);
  taken.open_sequence.fetch_add(1);
  return kept;
}

bool FakeSession::Range(uint32_t tid, int64_t start, int64_t end, uint32_t name, uint32_t category,
                        uint32_t domain, std::span<const uint64_t> payload) {
  Push(tid, start, name, category, domain);
  return Pop(tid, end, payload);
}

bool FakeSession::Mark(uint32_t tid, int64_t at, uint32_t name, uint32_t category, uint32_t domain,
                       std::span<const uint64_t> payload) {
  const uint64_t own[1] = {static_cast<uint64_t>(at)};
  return Write(tid, at, RecordKind::kMark, 0, domain, 0, name, category, own, payload);
}

bool FakeSession::Sample(uint32_t tid, int64_t at, uint32_t counter, double value,
                         uint32_t domain) {
  const uint64_t own[2] = {static_cast<uint64_t>(at), std::bit_cast<uint64_t>(value)};
  return Write(tid, at, RecordKind::kCounter, kRecordFloat, domain, 0, counter, 0, own, {});
}

bool FakeSession::Activity(uint32_t tid, uint32_t lane, int64_t start, int64_t end, uint32_t name,
                           uint8_t flags, uint32_t domain, std::span<const uint64_t> payload) {
  const uint64_t own[3] = {static_cast<uint64_t>(start), static_cast<uint64_t>(end), lane};
  return Write(tid, end, RecordKind::kActivity, flags, domain, 0, name, 0, own, payload);
}

uint64_t FakeSession::Start(uint32_t tid, int64_t at, uint32_t name, uint32_t category,
                            uint32_t domain, std::span<const uint64_t> payload) {
  auto* table = reinterpret_cast<ProcessRange*>(base_ + kProcessRangesAt);
  const uint64_t id = next_range_++;
  for (uint32_t i = 0; i < kMaxOpenProcessRanges; ++i) {
    ProcessRange& range = table[i];
    if (range.id.load() != 0) continue;
    range.start_ticks = static_cast<uint64_t>(at);
    range.start_tid = tid;
    range.name = name;
    range.category = category;
    range.domain = domain;
    range.payload_words = static_cast<uint32_t>(payload.size());
    Require(payload.size() <= std::size(range.payload), "payload too large");
    std::copy(payload.begin(), payload.end(), range.payload);
    range.id.store(id, std::memory_order_release);
    return id;
  }
  Lose(LossCause::kOpenTableFull, 1, at);
  return 0;
}

bool FakeSession::End(uint32_t tid, int64_t at, uint64_t id) {
  auto* table = reinterpret_cast<ProcessRange*>(base_ + kProcessRangesAt);
  for (uint32_t i = 0; i < kMaxOpenProcessRanges; ++i) {
    ProcessRange& range = table[i];
    if (range.id.load() != id) continue;
    const uint64_t own[4] = {range.start_ticks, static_cast<uint64_t>(at), id, range.start_tid};
    const bool kept = Write(tid, at, RecordKind::kProcessRange, 0, range.domain, 0, range.name,
                            range.category, own, {range.payload, range.payload_words});
    range.id.store(0, std::memory_order_release);
    return kept;
  }
  Lose(LossCause::kUnmatchedEnd, 1, at);
  return false;
}

void FakeSession::Forget(uint64_t id) {
  auto* table = reinterpret_cast<ProcessRange*>(base_ + kProcessRangesAt);
  for (uint32_t i = 0; i < kMaxOpenProcessRanges; ++i) {
    if (table[i].id.load() == id) table[i].id.store(0, std::memory_order_release);
  }
}

void FakeSession::ThreadExit(uint32_t tid) {
  slot(SlotOf(tid)).state.store(static_cast<uint32_t>(SlotState::kThreadExited));
  slots_.erase(tid);
}

void FakeSession::Lose(LossCause cause, uint64_t events, int64_t at) {
  LossCounter& counter = header().losses[static_cast<size_t>(cause)];
  if (counter.events.load() == 0) counter.first_ticks.store(static_cast<uint64_t>(at));
  counter.last_ticks.store(static_cast<uint64_t>(at));
  counter.events.fetch_add(events);
}

void FakeSession::Triple(int64_t monotonic_ns, int64_t realtime_ns) {
  const uint64_t n = header().triples_written.load();
  header().triples[n % kClockTriples] = {static_cast<uint64_t>(monotonic_ns), monotonic_ns,
                                         realtime_ns};
  header().triples_written.store(n + 1, std::memory_order_release);
}

void FakeSession::KillWriter() {
  if (fd_ < 0) return;
  // The mapping keeps the open file, and with it the lock: as no process would, let go of it.
  struct flock lock = {};
  lock.l_type = F_UNLCK;
  Require(fcntl(fd_, F_OFD_SETLK, &lock) == 0, "unlock");
  close(fd_);
  fd_ = -1;
}

void FakeSession::Exit() {
  header().ended.store(1, std::memory_order_release);
  KillWriter();
}

void FakeSession::FlipByte(size_t offset) { base_[offset] = static_cast<char>(~base_[offset]); }

void FakeSession::Truncate(size_t bytes) {
  Require(truncate(path_.c_str(), static_cast<off_t>(bytes)) == 0, "truncate");
}

}  // namespace poolscope
