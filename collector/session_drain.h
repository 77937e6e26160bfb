#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "collector/activity.h"
#include "collector/mapped_events.h"
#include "collector/mapped_fields.h"
#include "collector/mapping.h"
#include "collector/nccl_operation.h"
#include "collector/process_facts.h"
#include "collector/run_model.h"
#include "collector/sampled_devices.h"
#include "collector/session_clock.h"
#include "collector/session_losses.h"
#include "collector/windows.h"
#include "store/store.h"
#include "trace/session_reader.h"

namespace poolscope {

// Takes one session's events to the store. A round: Drain() inside a transaction, then, when that
// is committed, Release(). What Drain() appended and the cursors go into the same transaction, so a
// collector that dies anywhere leaves a store whose cursors say exactly what it holds. After a
// failed transaction the object is of no more use: open the session anew.
class SessionDrain {
 public:
  struct Round {
    const WindowBuilder* windows = nullptr;
    uint64_t events = 0;
    uint64_t bytes = 0;
    double fill = 0;                   // of the fullest ring, before the round; 0..1
    std::vector<Activity> activities;  // ended, of this round
    std::vector<NcclOperation> operations;
    std::vector<DepthSample> samples;
    std::vector<OccupancySample> occupancy;
    std::vector<DeviceSample> devices;
    std::vector<Activity> open;                  // still open, end = now
    std::vector<NcclOperation> open_operations;  // the same of NCCL
    std::vector<NcclOperation> unfinished;       // that their process took along
    struct Gone {
      int worker;
      int64_t last_ns;  // end of the newest event of its threads
    };
    std::vector<Gone> gone;  // workers whose threads have all exited
    SessionLosses::Round losses;
  };

  // Loads the cursors, switches the session to drop-newest and corrects read positions that a
  // predecessor had no time to raise. `model` outlives the object.
  static Result<std::unique_ptr<SessionDrain>> Open(SessionReader reader, const Mapping& mapping,
                                                    RunModel& model, int64_t offset_ns,
                                                    Store& store);

  const SessionHead& head() const { return reader_.head(); }
  const std::filesystem::path& path() const { return reader_.path(); }
  int64_t start_ns() const { return process_.start_ns; }
  int64_t last_ns() const { return last_ns_; }  // newest time known of the process
  const std::vector<int>& workers() const { return workers_; }
  // The process has gone and all is drained; set by Drain().
  bool finished() const { return !process_.end_reason.empty(); }
  const std::string& end_reason() const { return process_.end_reason; }
  // What the process's number of a device stands for.
  DeviceId Device(uint32_t device) const { return facts_.Device(head().session_id, device); }

  // The last Drain() failed because of the session, not of the store, and left nothing but an event
  // loss of unknown count.
  bool unreadable() const { return unreadable_; }

  double Fill() const;  // of the fullest ring now
  // `windows` of the run say what a lane brings too late.
  Result<Round> Drain(Store& store, const WindowBuilder& windows);
  Status Release();
  Status SetRingMode(RingMode mode) const { return reader_.SetRingMode(mode); }

 private:
  struct Track {
    int64_t id = 0;
    EventBatch batch;
  };
  struct Thread {
    int64_t id = 0;  // of the store
    uint32_t tid = 0;
    std::string name;
    std::string communicator;  // of a lane of one
    // Rules of which some hold but for a time; empty: `worker` is its worker for good.
    std::vector<Mapping::WorkerMatch> claims;
    const Mapping::WorkerRule* claim = nullptr;  // that `worker` is of
    int64_t claim_ns = 0;                        // start of the newest event looked at
    Thread* mapped = nullptr;                    // holds what a mapping made of its events
    int worker = -1;
    int64_t last_ns = 0;  // end of its newest event; 0: none seen
    bool exited = false;
    Track ranges, marks;
    std::unordered_map<uint32_t, Track> counters;  // by store string id
  };
  struct Slot {
    uint32_t incarnation = 0;
    uint64_t position = 0;    // committed, or about to be
    uint64_t raised = 0;      // in shared memory
    uint64_t last_open = 0;   // open_id of the newest push/pop record + 1; 0: none
    uint64_t last_range = 0;  // id of the newest start/end record; 0: none
    bool known = false;
    bool changed = false;
    uint32_t tid = 0;
    std::string name;     // the system's for its thread, as that began to record
    bool exited = false;  // as last looked at
    bool told = false;    // that its thread has exited
    bool bad = false;     // its bytes were no slot when last looked at
  };
  struct Meaning {  // of a (thread, domain, name, category), by the mapping
    bool looked_up = false;
    Category category = Category::kNone;
    Stage stage = Stage::kQueued;
    int link = -1;
    const Mapping::RangeRule* rule = nullptr;
    const Mapping::RangeRule* step = nullptr;  // whose end is a step
    std::set<std::string> inferred;            // fields that were said to be
  };
  static constexpr size_t kMaxLaunchThreads = 65536;  // that lanes make known
  static constexpr size_t kMaxUuid = 64;              // characters
  static constexpr uint32_t kNoDomain = ~uint32_t{0};

  SessionDrain(SessionReader reader, const Mapping& mapping, RunModel& model, int64_t offset_ns)
      : reader_(std::move(reader)), mapping_(mapping), model_(model), clock_(offset_ns) {}

  Status LoadCursors(const Store& store);
  Status LoadWorkers(const Store& store);
  Status TakeDefinitions(Store& store);
  Result<uint32_t> StoreString(Store& store, uint32_t id);
  // As StoreString of a name from a device: of C++ as a person reads it (docs/store.md).
  Result<uint32_t> StoreSymbol(Store& store, uint32_t id);
  Result<Thread*> ThreadOf(Store& store, uint32_t tid);
  Result<Thread*> LaneThread(Store& store, uint32_t lane);
  // The worker whose activity on a lane it is: of the thread that launched it, else the lane's,
  // which is the first one that was found so.
  Status FindWorker(Store& store, uint32_t lane, Thread& thread, Activity& activity);
  Status SaveThread(Store& store, uint32_t tid, Thread& thread);
  std::string SystemName(uint32_t tid) const;
  Status DrainSlot(Store& store, uint32_t index, const SlotView& view, Round& round);
  // The slot's thread has exited and all of it is drained.
  void ThreadGone(Slot& slot, Round& round);
  Status Take(Store& store, const Record& record, Thread& thread, Round& round);
  bool TakeNccl(uint32_t name, std::span<const uint64_t> payload, NcclOperation& out) const;
  // A mark that says what the process's number of a device stands for.
  void TakeDevice(const Record& record);
  Status TakePayload(Store& store, std::span<const uint64_t> payload, EventBatch& batch,
                     Event& event);
  // The first group of a payload whose schema is known.
  std::pair<PayloadKind, std::span<const uint64_t>> Known(std::span<const uint64_t> payload) const;
  // What an event of the thread (null: not known) means. `by` gets what of the mapping says so,
  // null where the event is annotated.
  bool Annotate(const Thread* thread, uint32_t domain, uint32_t category, uint32_t name,
                std::span<const uint64_t> payload, Activity& out, Meaning*& by);
  // By the mapping, of an event that is not annotated; kept for the next one of the kind.
  Meaning& Mapped(const Thread* thread, uint32_t domain, uint32_t category, uint32_t name);
  // Completes what the mapping says of the event, and stores it as annotated.
  Status TakeMapped(Store& store, Meaning& meaning, const Carried& carried, const Event& event,
                    Thread& thread, Activity activity, Round& round);
  // The end of the event is a step.
  Status TakeStep(Store& store, Meaning& meaning, const Carried& carried, const Event& event,
                  Thread& thread, Round& round);
  // Fields of messages and waits that neither the rule nor the event gives.
  void Infer(Meaning& meaning, Activity& activity);
  void SayInferred(Meaning& meaning, const std::string& what, const char* how);
  Result<Thread*> MappedThread(Store& store, Thread& thread);
  // The worker of an event that began at `ns`. Where a later rule of the thread's begins to hold,
  // the thread is that rule's worker from then on.
  Result<int> WorkerAt(Store& store, Thread& thread, int64_t ns, Round& round);
  bool Holds(const Mapping::Period& period, int64_t ns) const;
  // The worker that a matched thread is.
  int WorkerOf(const Mapping::WorkerMatch& match, uint32_t tid);
  // What a counter (string id) says of links and workers.
  struct CounterMeaning {
    int link = -1;  // whose depth it samples
    bool occupancy = false;
    std::optional<DeviceCounter> device;
    std::string mapped;  // the name that the mapping gives it, "" none
  };
  void AddWorker(int worker) {
    if (std::find(workers_.begin(), workers_.end(), worker) == workers_.end()) {
      workers_.push_back(worker);
    }
  }
  const CounterMeaning& MeaningOf(uint32_t counter);
  Status TakeOpenRanges(Store& store, const SessionState& state, Round& round);
  // The lane of the NCCL operation that an open range is, and what it says: null, it is none. An
  // operation that is not `timed` has been enqueued and has not begun.
  Result<Thread*> OpenOperation(Store& store, const OpenProcessRange& range, Activity& activity,
                                NcclOperation& operation);
  // Whether a lane's activity is matched with those of other ranks: unless a rule of the mapping
  // says that it means something else.
  static bool IsNcclOperation(const Activity& activity) {
    return activity.category == Category::kNone || activity.link >= 0;
  }
  void TakeLostByDeath(SessionState& state) const;
  Status Finish(Store& store, const SessionState& state, Round& round);
  Status FlushThread(Store& store, Thread& thread);
  Status SaveCursors(Store& store);
  bool PlausibleTimes(const Record& record) const;
  void CountUndecodable() {
    losses_.Count(LossCause::kUndecodable, clock_.now_ns(), clock_.now_ns());
  }

  SessionReader reader_;
  const Mapping& mapping_;
  RunModel& model_;
  SessionClock clock_;
  SessionLosses losses_{head()};
  ProcessRow process_;
  ProcessFacts facts_;
  MappedEvents mapped_events_;
  // Messages that a mapping counted, by link, stage and source.
  std::map<std::tuple<int, Stage, uint64_t>, uint64_t> sequences_;
  bool process_saved_ = false;
  int64_t last_ns_ = 0;
  std::array<Slot, kMaxThreads> slots_{};
  std::map<uint32_t, Thread> threads_;  // by tid
  std::vector<int> workers_;
  std::vector<uint32_t> store_strings_;   // by the session's string id; 0: not yet
  std::map<uint32_t, uint32_t> symbols_;  // the same of names from devices
  size_t symbol_bytes_ = 0;               // of those that were made readable
  std::vector<int> links_;                // by string id: link of that name; -2: not yet
  // By thread (where rules look at it, else 0), domain, name and category.
  std::map<std::tuple<int64_t, uint32_t, uint32_t, uint32_t>, Meaning> mapped_;
  std::map<uint32_t, CounterMeaning> counters_;
  uint64_t ended_operation_ = 0;  // its id in the table of open ranges, of the record taken last
  uint32_t poolscope_domain_ = kNoDomain;                // index
  std::vector<PayloadKind> payload_kinds_;               // by string id, of the schema of that name
  std::map<uint32_t, std::vector<bool>> string_fields_;  // schemas that hold string ids
  size_t strings_seen_ = 1, names_seen_ = 0, resources_seen_ = 0, schemas_seen_ = 0,
         categories_seen_ = 0;
  bool definitions_bad_ = false;
  bool unreadable_ = false;
  std::vector<uint64_t> words_;  // of the ring copied last
};

}  // namespace poolscope
