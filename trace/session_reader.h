#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "trace/result.h"
#include "trace/session_format.h"

// Reading a session file. Its bytes are hostile: they are copied with pread() into private memory
// and only then looked at, and only by the overloads of DecodeUntrusted, each of which accepts any
// bytes, allocates within trace/limits.h and returns an Error or checked values.

namespace poolscope {

// What never changes in a session.
struct SessionHead {
  std::string session_id;  // 32 hex digits
  std::string run_id;      // 32 hex digits
  uint32_t pid = 0;
  uint32_t parent_pid = 0;
  uint64_t process_start = 0;
  ClockKind clock = ClockKind::kMonotonic;
  uint32_t agent_version = 0;
  std::string host;
  std::string command;
};

struct LossState {
  uint64_t events = 0;
  uint64_t first_ticks = 0;
  uint64_t last_ticks = 0;
};
inline constexpr size_t kLossCauses = static_cast<size_t>(LossCause::kCount);

struct SessionState {
  RingMode ring_mode = RingMode::kOverwriteOldest;
  bool ended = false;
  uint64_t definition_bytes = 0;
  uint32_t slots_used = 0;
  AgentOff agent_off = AgentOff::kNo;
  std::vector<ClockTriple> triples;
  std::array<LossState, kLossCauses> losses{};
};

// Text up to the first NUL. Each control character, and each byte that is no UTF-8, becomes '?':
// names must neither drive a terminal nor spoil what must be UTF-8 (JSON, metrics).
std::string PlainText(std::string_view untrusted);

struct SlotView {
  SlotState state = SlotState::kFree;
  uint32_t tid = 0;
  uint32_t incarnation = 0;
  bool overwriting = false;  // while the writer lives: not to be read now
  uint64_t ring_offset = 0;  // 0: no ring
  uint64_t ring_bytes = 0;
  uint64_t start_ticks = 0;
  std::string name;  // the system's for the thread; "" not known
  uint64_t write_position = 0;
  uint64_t first_position = 0;
  uint64_t read_position = 0;
  uint64_t open_sequence = 0;
  uint32_t open_depth = 0;
  uint32_t open_overflow = 0;  // open ranges beyond the stack
};

// What the definition log said so far.
struct SessionDefinitions {
  struct Counter {
    uint32_t domain = 0;
    bool is_float = false;
  };
  struct Resource {
    uint32_t type = 0;
    uint64_t identifier = 0;
    uint32_t domain = 0;
    uint32_t text = 0;  // string id
  };
  std::vector<std::string> strings{""};                          // by string id; 0 is none
  std::vector<uint32_t> domains{0};                              // string id by domain index
  std::map<uint32_t, std::vector<SchemaFieldDef>> schemas;       // by string id of the name
  std::map<uint32_t, Counter> counters;                          // by string id of the name
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> categories;  // (domain, category) -> string
  std::vector<std::pair<uint64_t, uint32_t>> thread_names;       // (tid, string), oldest first
  std::vector<Resource> resources;                               // oldest first
  std::map<uint64_t, LaneDef> lanes;                             // by number
};

// One record of a ring. `payload` and the fields are copies in or of private memory.
struct Record {
  RecordKind kind = RecordKind::kPad;
  uint8_t flags = 0;
  uint16_t domain = 0;
  uint16_t depth = 0;
  uint32_t name = 0;
  uint32_t category = 0;
  uint64_t start_ticks = 0;  // activities with kRecordMonotonic: ns, as is the end
  uint64_t end_ticks = 0;    // = start_ticks for marks and counters; never less
  uint64_t value = 0;
  uint64_t id = 0;                    // open_id of a push/pop range, id of a start/end range
  uint32_t start_tid = 0;             // start/end ranges
  uint32_t lane = 0;                  // activities; defined
  std::span<const uint64_t> payload;  // groups as in trace/event.h
};

// A start/end range that is open.
struct OpenProcessRange {
  uint64_t id = 0;
  uint64_t start_ticks = 0;
  uint32_t start_tid = 0;
  uint32_t name = 0;
  uint32_t category = 0;
  uint32_t domain = 0;
  uint64_t value = 0;             // NVTX's plain payload
  std::vector<uint64_t> payload;  // groups
};

Status DecodeUntrusted(std::span<const std::byte> header, SessionHead& out);
Status DecodeUntrusted(std::span<const std::byte> header, SessionState& out);
Status DecodeUntrusted(std::span<const std::byte> slot, SlotView& out);
// Adds whole entries to `out`. On error `out` keeps what came before the bad entry.
Status DecodeUntrusted(std::span<const std::byte> definitions, SessionDefinitions& out);
// The open stack of a slot, outermost first.
Status DecodeUntrusted(std::span<const std::byte> slot, const SessionDefinitions& known,
                       std::vector<OpenRange>& out);
Status DecodeUntrusted(std::span<const std::byte> table, const SessionDefinitions& known,
                       std::vector<OpenProcessRange>& out);
// Decodes one record at words[at], and moves `at` past it. Error: no valid record stands there.
// kPad records are returned too. The record's payload points into `words`.
bool DecodeUntrusted(std::span<const uint64_t> words, const SessionDefinitions& known, size_t& at,
                     Record& out);

// An open session file. Not thread-safe.
class SessionReader {
 public:
  // Refuses what is not a plain file of one of `owners` with mode 0600, links among them. The error
  // of a file whose header is not written yet says so; try again.
  static Result<SessionReader> Open(const std::filesystem::path& path,
                                    std::span<const uint32_t> owners);
  SessionReader(SessionReader&& other) noexcept;
  SessionReader& operator=(SessionReader&& other) noexcept;
  ~SessionReader();

  const std::filesystem::path& path() const { return path_; }
  const SessionHead& head() const { return head_; }
  const SessionDefinitions& definitions() const { return definitions_; }

  bool WriterAlive() const;  // its lock is held
  // Error: the file does not hold the header and the slots that it says are used.
  Result<SessionState> State() const;
  // Takes in what the definition log gained. Cheap when nothing did.
  Status ReadDefinitions();
  Result<SlotView> Slot(uint32_t index) const;
  // Ring bytes of positions [from, slot.write_position), or, where the writer overwrote some
  // meanwhile, of the part that is left. `words` is replaced; returns the position of its start.
  // Error: impossible positions or a file that is too short.
  Result<uint64_t> CopyRing(uint32_t index, const SlotView& slot, uint64_t from,
                            std::vector<uint64_t>& words) const;
  // Both also take in new definitions, which what is open may already use.
  Status ReadOpenStack(uint32_t index, std::vector<OpenRange>& out);
  Status ReadProcessRanges(std::vector<OpenProcessRange>& out);

  Status SetRingMode(RingMode mode) const;
  Status SetReadPosition(uint32_t index, uint64_t position) const;

 private:
  SessionReader(int fd, std::filesystem::path path) : fd_(fd), path_(std::move(path)) {}
  Status ReadAt(uint64_t offset, void* to, size_t bytes) const;
  Status WriteAt(uint64_t offset, const void* from, size_t bytes) const;

  int fd_ = -1;
  std::filesystem::path path_;
  SessionHead head_;
  SessionDefinitions definitions_;
  uint64_t definitions_read_ = 0;
  std::string definitions_error_;  // once bad, the log stays bad
};

}  // namespace poolscope
