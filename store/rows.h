#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// The store's plain rows, as C++ values. Column names equal field names; docs/store.md documents
// them. Times: see trace/event.h. Keys are natural (run, pool, worker index, link, step, time), so
// that stores of several hosts merge.
namespace poolscope {

struct RunRow {
  std::string run_id;  // 32 hex digits
  std::string host;
  std::string command;
  int64_t start_ns = 0;
  int64_t end_ns = 0;  // the newest time known
  bool ended = false;  // every process has ended
};

struct ProcessRow {
  std::string session_id;  // 32 hex digits; the key
  std::string run_id;
  std::string host;
  std::string command;
  int64_t pid = 0;
  int64_t parent_pid = 0;
  int64_t start_ns = 0;
  int64_t end_ns = 0;      // 0 while it lives
  std::string end_reason;  // "", "exited", "killed" (vanished without an exit)
};

// One thing known of a process beside what it recorded: an environment variable that says which
// part of the job it is ("env.RANK"), a lane ("lane.<tid>"), the number of a worker that a mapping
// gave
// ("worker.<pool>.<part>").
struct ProcessFactRow {
  std::string session_id;
  std::string key;
  std::string value;
};

// A name of C++ that events carry: as compilers write it, and the string id of what a person reads.
// Several may read the same.
struct SymbolRow {
  uint32_t string_id = 0;
  std::string mangled;
};

// Thread tid | kMappedTid holds what a mapping made of the events of thread `tid`. The system gives
// no such numbers.
inline constexpr int64_t kMappedTid = 0x4000'0000;
// Threads from this tid on are lanes: a device's streams, NCCL's communicators.
inline constexpr int64_t kFirstLaneThread = 0x8000'0000;
// Payload of its events: the domain and the name of the event that each was made of.
inline constexpr std::string_view kMappedSchema = "poolscope.mapped";

struct ThreadRow {
  int64_t thread_id = 0;  // local to the store
  std::string session_id;
  int64_t tid = 0;
  std::string name;
  std::string pool;  // "" where the thread does no pool's work
  int64_t worker_index = -1;
};

struct PoolRow {
  std::string run_id;
  std::string pool;
  std::string role;  // compute, update, rollout, trainer, other
  int64_t workers = 0;
};

struct WorkerRow {
  std::string run_id;
  std::string pool;
  int64_t worker_index = 0;
  std::string session_id;
  std::string device;  // "cpu" where not known
};

struct LinkRow {
  std::string run_id;
  std::string link;
  std::string from_pool;
  std::string to_pool;
  int64_t capacity = 0;  // messages; 0 unknown
  int64_t lanes = 1;
};

struct SettingRow {
  std::string run_id;
  std::string key;
  std::string value;
};

// A track is one thread's events of one kind: its ranges, its marks, or one of its counters.
struct TrackRow {
  int64_t track_id = 0;  // local to the store
  std::string run_id;
  int64_t thread_id = 0;
  uint32_t kind = 1;     // EventKind
  uint32_t counter = 0;  // string id of the counter's name, kCounter only
};

struct ChunkRow {
  int64_t track_id = 0;
  int64_t chunk_index = 0;
  int64_t first_ns = 0;  // smallest start
  int64_t last_ns = 0;   // largest end
  int64_t events = 0;
  int64_t busy_ns = 0;  // union of the outermost ranges
  uint32_t max_depth = 0;
  std::optional<double> min_value, max_value;  // counters only
};

struct StepRow {
  std::string run_id;
  int64_t step = 0;
  int64_t end_ns = 0;  // when the update was made
  int64_t version = 0;
  int64_t tokens = 0;
  int64_t micro_batches = 0;
  std::optional<double> loss;
};

// States of DESIGN section 2, in order of precedence, link states summed over links.
enum class State : uint8_t {
  kUnknown,
  kBusy,
  kBusyDiscarded,
  kBlockedLink,
  kWaitCredit,
  kWaitLink,
  kWaitPeer,
  kHostBound,
  kInput,
  kOtherWork,
  kIdle,
  kCount
};
const char* StateName(State state);  // "wait_link"
using StateNs = std::array<int64_t, static_cast<size_t>(State::kCount)>;

// One worker in one window; the states add up to window_ns.
struct WorkerWindowRow {
  std::string run_id;
  std::string pool;
  int64_t worker_index = 0;
  int64_t start_ns = 0;
  int64_t window_ns = 0;
  StateNs state_ns{};
};

// What one worker had to do with one link in one window (rows only where not all zero).
struct WorkerLinkWindowRow {
  std::string run_id;
  std::string pool;
  int64_t worker_index = 0;
  std::string link;
  int64_t start_ns = 0;
  int64_t window_ns = 0;
  int64_t blocked_ns = 0;        // in state blocked_link(link)
  int64_t wait_ns = 0;           // in state wait_link(link), made of the next six:
  int64_t upstream_busy_ns = 0;  // the producer was still computing: not the link's doing
  int64_t queued_ns = 0;
  int64_t encode_ns = 0;
  int64_t wire_ns = 0;
  int64_t decode_ns = 0;
  int64_t unattributed_ns = 0;  // the message that ended the wait is not known (yet)
  int64_t traffic_ns = 0;  // union of the worker's own encode, wire and decode time on the link
};

struct PoolWindowRow {
  std::string run_id;
  std::string pool;
  int64_t start_ns = 0;
  int64_t window_ns = 0;
  int64_t workers = 0;
  double busy_ratio = 0;  // mean over workers
};

struct LinkWindowRow {
  std::string run_id;
  std::string link;
  int64_t start_ns = 0;
  int64_t window_ns = 0;
  int64_t transfers = 0;   // whose wire stage ended in the window
  int64_t raw_bytes = 0;   // counted at the sender
  int64_t wire_bytes = 0;  // what was sent again included
  double depth_mean = 0;   // time-weighted
  double depth_max = 0;
  int64_t capacity = 0;
  int64_t discarded = 0;
  std::array<int64_t, 4> faults{};    // by FaultKind
  std::array<int64_t, 5> stage_ns{};  // by Stage: sums over transfers
  double traffic_share = 0;           // mean over the sending pool's workers
  double exposed_share = 0;  // mean over the workers of both ends of their waits' link parts
};

struct VersionWindowRow {
  std::string run_id;
  int64_t start_ns = 0;
  int64_t window_ns = 0;
  int64_t version = 0;  // newest at the end of the window
  int64_t applied = 0;  // messages applied
  int64_t lag_sum = 0;  // in optimizer updates
  int64_t lag_max = 0;
};

// NCCL's operations of one function on one communicator that ended in one window. Times are
// inferred: from the last rank's start to the last one's end.
struct CollectiveWindowRow {
  std::string run_id;
  int64_t start_ns = 0;
  std::string communicator;  // its hash, 16 hex digits
  std::string function;      // AllReduce; SendRecv for sends and receives
  int64_t window_ns = 0;
  std::string pools;  // of its ranks, "compute+update"; "" not known
  int64_t ranks = 0;
  int64_t operations = 0;
  int64_t bytes = 0;      // sum of nccl-tests' sizes S
  int64_t bus_bytes = 0;  // the same times the bus factor, of those whose times are known
  int64_t wire_ns = 0;    // sum
  int64_t wait_ns = 0;    // sum over ranks of what each waited for the last
};

// Sources of DeviceWindowRow: the driver's word, and what the device's hardware sampled.
inline constexpr char kSaidByDriver[] = "nvml";
inline constexpr char kSampledByHardware[] = "pm_sampling";

// What one device of a host did in one window, by one source; nothing where that does not know.
struct DeviceWindowRow {
  std::string run_id;
  int64_t start_ns = 0;
  std::string host;
  int64_t device = 0;
  std::string source;
  int64_t window_ns = 0;
  std::string uuid;
  std::string name;
  std::optional<double> sm_ratio;
  std::optional<double> dram_ratio;
  std::optional<int64_t> memory_used_bytes;
  std::optional<int64_t> memory_bytes;
  std::optional<int64_t> sm_hertz;
  std::optional<int64_t> memory_hertz;
  std::optional<int64_t> pcie_sent_bytes_per_second;
  std::optional<int64_t> pcie_received_bytes_per_second;
  std::optional<int64_t> nvlink_sent_bytes;
  std::optional<int64_t> nvlink_received_bytes;
  std::optional<double> tensor_ratio;
};

struct EventLossRow {
  std::string run_id;
  std::string session_id;
  std::string cause;              // LossCauseName
  std::string place;              // "session", "thread 1234", "collector"
  std::optional<int64_t> events;  // none: of unknown count
  int64_t first_ns = 0;
  int64_t last_ns = 0;
};

struct OpenRangeRow {  // ranges that were open when their process died
  std::string run_id;
  std::string session_id;
  int64_t tid = 0;
  std::string name;
  uint32_t category = 0;
  int64_t start_ns = 0;
  int64_t seen_ns = 0;  // last time known
};

struct FindingRow {
  std::string run_id;
  std::string rule;
  std::string severity;  // note, warning, critical
  std::string subject;   // pool or link
  int64_t first_ns = 0;
  int64_t last_ns = 0;
  bool active = false;
  std::string json;  // as in the report's findings[]
};

struct CursorRow {  // what of a thread slot is committed
  std::string session_id;
  int64_t slot = 0;
  int64_t incarnation = 0;
  int64_t read_position = 0;
};

}  // namespace poolscope
