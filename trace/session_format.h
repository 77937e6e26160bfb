#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "trace/limits.h"

// The session file: what one process under the agent shares with the collector.
//
//   offset 0           SessionHeader
//   kDefinitionsAt     definition log: what names, domains, schemas, counters and threads mean
//   kProcessRangesAt   ProcessRange[kMaxOpenProcessRanges]: open start/end ranges
//   kSlotsAt           ThreadSlot[kMaxThreads]
//   kRingsAt           rings, appended as threads come; a slot says where its ring lies
//
// While the process lives it holds a write lock (F_OFD_SETLK, whole file) on it: F_OFD_GETLK or
// F_GETLK tells. Memory is reserved as it is needed: unreserved parts read as zeros, and the file
// may end before kRingsAt while no thread has a ring.
// The process writes, through a shared mapping. The collector reads with pread() into its own
// memory and validates; it writes only the fields marked (collector), through pwrite() or a mapping
// of the header. All integers little-endian. Times are ticks of the session's clock.
// A worked example stands in docs/session-format.md and is decoded by a test.

namespace poolscope {

inline constexpr uint64_t kSessionMagic = 0x31305353'504f4f50;  // "POOPSS01"
inline constexpr uint32_t kSessionFormatVersion = 1;
inline constexpr char kSessionSuffix[] = ".session";  // file: <session id as 32 hex digits>.session

enum class ClockKind : uint32_t { kTsc = 1, kMonotonic = 2 };  // kMonotonic: ticks are ns

// Who drops when a ring is full. Written by the collector, read by the writers.
enum class RingMode : uint32_t {
  kOverwriteOldest = 0,  // no collector has opened the session, or the last one left cleanly
  kDropNewest = 1,       // a collector drains it, or died while draining it
};

// One reading of the three clocks, taken as close together as the machine allows.
struct ClockTriple {
  uint64_t ticks;
  int64_t monotonic_ns;
  int64_t realtime_ns;
};

// Why events are missing. The position is the index of SessionHeader::losses; kept in order.
enum class LossCause : uint32_t {
  kRingFull = 0,         // drop-newest, the collector did not keep up
  kOverwritten = 1,      // overwrite-oldest, before a collector came
  kNoRing = 2,           // no thread slot or no shared memory left
  kOpenTableFull = 3,    // range nested deeper, or more start/end ranges, than the tables hold
  kPayloadTooLarge = 4,  // event kept, payload (or a part) dropped: too large, or not expressible
  kTooManyNames = 5,     // event kept, name replaced by "(too many names)"
  kUnmatchedEnd = 6,     // a pop or end with no start
  kUndecodable = 7,      // set by the collector: bytes that are no valid record
  kUnknownCount = 8,     // events lost without a count
  kUnknownClock = 9,     // the job gave its time in a clock that cannot be converted
  kLate = 10,            // set by the collector: event kept, but its windows were closed before
  kDeviceDropped = 11,   // device activity that CUPTI had no buffer for
  kDeviceTime = 12,      // device activity whose times are missing or cannot be
  kDeviceUnknown = 13,   // device activity in a form that the agent does not know
  kCount = 14,
};
const char* LossCauseName(LossCause cause);  // "ring_full"

// Cumulative; first/last are ticks of the first and the latest lost event, set before the event is
// counted. Every thread of the writer adds to them.
struct LossCounter {
  std::atomic<uint64_t> events;
  std::atomic<uint64_t> first_ticks;
  std::atomic<uint64_t> last_ticks;
};

// Why an agent switched itself off after its session had begun. Before, it leaves a note instead
// (run_directory.h).
enum class AgentOff : uint32_t {
  kNo = 0,
  kCheckFailed = 1,    // nothing more is known; what agents without the other numbers write
  kNvtxTables = 2,     // a library's NVTX is not of version 3
  kForeignRecord = 3,  // a ring holds what this process did not write
};
// "a library's NVTX is not of version 3"; any number.
const char* AgentOffText(AgentOff why);

struct SessionHeader {
  uint64_t magic;  // written last, with release: a file without it is not ready
  uint32_t format_version;
  uint32_t header_bytes;
  uint8_t session_id[16];
  uint8_t run_id[16];
  uint32_t pid;  // in its own pid namespace
  uint32_t parent_pid;
  uint64_t pid_namespace;  // inode of /proc/self/ns/pid
  uint64_t process_start;  // field 22 of /proc/self/stat
  ClockKind clock;
  uint32_t agent_version;  // major << 16 | minor << 8 | patch
  char host[64];
  char command[512];  // first bytes of /proc/self/cmdline, spaces between arguments
  // --- changing ---
  alignas(64) std::atomic<uint32_t> ring_mode;        // RingMode (collector)
  std::atomic<uint32_t> ended;                        // 1: exit seen; destructors may still record
                                                      // until the writer's lock is gone
  std::atomic<uint64_t> definition_bytes;             // published length of the definition log
  std::atomic<uint32_t> slots_used;                   // slots [0, slots_used) were ever taken
  std::atomic<uint32_t> agent_off;                    // AgentOff
  alignas(64) std::atomic<uint64_t> triples_written;  // triple i is at i % kClockTriples
  ClockTriple triples[kClockTriples];
  alignas(64) LossCounter losses[static_cast<size_t>(LossCause::kCount)];
};

// --- Definition log ---
// Entries follow one another: header, then `bytes` payload bytes, padded to 8. String ids are given
// in order from 1 within the session; an id is defined before any record uses it.
enum class DefinitionKind : uint16_t {
  kString = 1,      // id; payload: text (UTF-8, not terminated)
  kDomain = 2,      // id (small index, from 1; 0 is NVTX's default domain); payload: u32 string id
  kSchema = 3,      // id = string id of its name; payload: SchemaFieldDef[]
  kCounter = 4,     // id = string id of its name; payload: u32 domain, u32 is_float
  kCategory = 5,    // id = category; payload: u32 domain, u32 string id
  kThreadName = 6,  // id = tid; payload: u32 string id
  kResource = 7,    // id = u32 identifier type; payload: u64 identifier, u32 domain, u32 string id
  kLane = 8,        // id = lane, from 0; payload: LaneDef
};
struct DefinitionHeader {
  uint16_t kind;
  uint16_t reserved;
  uint32_t bytes;  // of the payload, without padding
  uint64_t id;
};
static_assert(sizeof(DefinitionHeader) == 16);

enum class FieldType : uint16_t { kUint64 = 1, kInt64 = 2, kDouble = 3, kString = 4 };
struct SchemaFieldDef {
  uint32_t name;     // string id
  uint16_t type;     // FieldType; narrower integers and floats are widened by the agent
  uint16_t repeats;  // 1: an array, all of the group's values; the only field
};
static_assert(sizeof(SchemaFieldDef) == 8);

// What activities happen on that no thread of the process records itself as it happens.
enum class LaneKind : uint32_t {
  kDeviceStream = 1,  // of a device's context; number = stream
  kCommunicator = 2,  // of NCCL; context = its hash, number = the process's rank in it
};
struct LaneDef {
  uint32_t name;  // string id
  LaneKind kind;
  uint64_t device;  // ordinal, kNoDevice where it has none
  uint64_t context;
  uint64_t number;
};
static_assert(sizeof(LaneDef) == 32);
inline constexpr uint64_t kNoDevice = ~uint64_t{0};
// In a store, lane i is the thread of this number + i: the system gives no such thread ids.
inline constexpr uint32_t kFirstLaneTid = 0x8000'0000;

inline constexpr uint32_t kOverflowString = 1;  // string 1 of every session: "(too many names)"

// --- Threads ---
enum class SlotState : uint32_t { kFree = 0, kLive = 1, kThreadExited = 2 };

// An open push/pop range. Entry i is valid while i < open_depth, if open_sequence is even and the
// same before and after the copy. A pop lowers open_depth alone. Of a dead process an odd sequence
// is final: entries below open_depth are good, but one open_id may occur twice.
struct OpenRange {
  uint64_t start_ticks;
  uint32_t name;
  uint32_t category;
  uint32_t domain;
  uint32_t open_id;  // thread-local sequence; the end record repeats it
};
static_assert(sizeof(OpenRange) == 24);

// Taking over a session that overwrites: the reader stores kDropNewest, then leaves every slot
// alone whose `overwriting` is set while the writer lives. The writer sets it before it looks at
// the mode a second time, so that what it then counts as overwritten is what the reader does not
// get.
//
// One thread's half of the session. One writer: the thread. One reader: the collector.
// Cursors are byte positions that only grow; the ring offset is position % ring_bytes.
//   write_position  (thread)     release-stored after a record's bytes
//   first_position  (thread)     overwrite-oldest: everything before it is gone. Raised, with a
//                                release fence after, before the bytes are reused: a reader copies,
//                                then re-reads it and discards what lies before
//   read_position   (collector)  everything before it is committed and may be reused
struct ThreadSlot {
  alignas(64) std::atomic<uint32_t> state;  // SlotState; kFree -> kLive by the process,
                                            // kThreadExited -> kFree by whoever reuses it when
                                            // read_position == write_position (or by overwrite)
  uint32_t tid;
  std::atomic<uint32_t> incarnation;  // grows by one each time the slot is taken
  std::atomic<uint32_t> overwriting;  // (thread) 1 while it gives up its oldest records
  uint64_t ring_offset;               // in the file; 0: no ring
  uint64_t ring_bytes;                // power of two
  uint64_t start_ticks;
  char name[16];  // the system's for the thread as it took the slot; 0: not known
  alignas(64) std::atomic<uint64_t> write_position;
  std::atomic<uint64_t> first_position;
  alignas(64) std::atomic<uint64_t> read_position;
  alignas(64) std::atomic<uint64_t> open_sequence;  // odd while the stack changes
  std::atomic<uint32_t> open_depth;
  uint32_t open_overflow;  // (thread) open ranges beyond the stack: each is counted as a loss at
                           // its end, by the thread, or at the process's, by the collector
  OpenRange open[kMaxOpenRanges];
};

inline constexpr uint32_t kMaxProcessRangeWords = 16;

// An open start/end range of the process.
struct ProcessRange {
  std::atomic<uint64_t> id;  // 0: free; else what the job got, unique in the session
  uint64_t start_ticks;
  uint32_t start_tid;
  uint32_t name;
  uint32_t category;
  uint32_t domain;
  uint32_t payload_words;  // of payload, the plain value included
  uint32_t flags;          // RecordFlags; with kRecordHasValue payload[0] is the plain value
  uint64_t payload[kMaxProcessRangeWords];
};

// --- Ring records: 8-byte aligned, never straddling the ring's end (a kPad fills it) ---
enum class RecordKind : uint8_t {
  kPad = 0,    // skip `words`
  kRange = 1,  // push/pop range, written at its end
  kMark = 2,
  kCounter = 3,       // name = the counter's
  kProcessRange = 4,  // start/end range, written by the thread that ended it
  kActivity = 5,      // of a lane, by whichever thread learnt of it, in any order
};
enum RecordFlags : uint8_t {
  kRecordFloat = 1,       // the value (counter's or plain payload's) is a double
  kRecordHasValue = 2,    // first payload word is NVTX's plain payload value
  kRecordOpenAtExit = 4,  // its thread exited and never ended it
  kRecordMonotonic = 8,   // times are ns of CLOCK_MONOTONIC instead of ticks (activities, and
                          // events whose time the job gave)
};
struct RecordHeader {
  uint8_t kind;
  uint8_t flags;
  uint16_t words;   // size of the whole record, header included, in 8-byte words
  uint16_t domain;  // index
  uint16_t depth;   // nesting level in its thread and domain, outermost 0
};
// Then one word {u32 name, u32 category}, then the kind's own words:
//   kRange         start_ticks, end_ticks, open_id
//   kMark          ticks
//   kCounter       ticks, value
//   kProcessRange  start_ticks, end_ticks, id, start_tid
//   kActivity      start, end, lane
// then, with kRecordHasValue, the value; then payload groups as in trace/event.h, schema ids being
// string ids of the session. A field of type kString holds a string id of the session.
static_assert(sizeof(RecordHeader) == 8);
inline constexpr uint32_t kMaxRecordWords = 7 + kMaxPayloadWords;

// --- Layout ---
constexpr size_t PageUp(size_t bytes) { return (bytes + 4095) & ~size_t{4095}; }
inline constexpr size_t kDefinitionsAt = PageUp(sizeof(SessionHeader));
inline constexpr size_t kProcessRangesAt = kDefinitionsAt + kDefinitionBytes;
inline constexpr size_t kSlotsAt =
    PageUp(kProcessRangesAt + sizeof(ProcessRange) * kMaxOpenProcessRanges);
inline constexpr size_t kRingsAt = PageUp(kSlotsAt + sizeof(ThreadSlot) * kMaxThreads);

static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(sizeof(ThreadSlot) % 64 == 0);

}  // namespace poolscope
