#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "collector/collectives.h"
#include "collector/mapped_events.h"
#include "collector/mapping.h"
#include "collector/run_model.h"
#include "collector/sampled_devices.h"
#include "collector/session_drain.h"
#include "collector/windows.h"
#include "store/store.h"

namespace poolscope {

// One run's windows and steps, kept in the store: what a collector does with the meaning of events.
// A new one takes up the windows of its predecessor from the stored events.
class RunWindows {
 public:
  // Windows end this long ago at the earliest, so that what comes late is in.
  static constexpr int64_t kWatermarkNs = 500'000'000;

  explicit RunWindows(RunModel& model) : model_(model), builder_(model), collectives_(model) {}

  // Reads the stored events since the last closed window, and what the waits of then need.
  Status Rebuild(const Store& store, const Mapping& mapping);

  // What a session's round brought.
  void Add(const SessionDrain& session, const SessionDrain::Round& round);
  void Drop(const SessionDrain& session);  // it cannot be read any more
  // After all sessions' rounds: stores steps, and the windows that ended before the watermark; with
  // `last` all of them up to `now_ns`. The rows stay in closed() until the next call.
  Status Save(Store& store, int64_t now_ns, bool last);

  const WindowBuilder& builder() const { return builder_; }
  const std::vector<WindowRows>& closed() const { return closed_; }
  const std::vector<StepRow>& steps() const { return saved_steps_; }
  const std::vector<CollectiveWindowRow>& collectives() const { return saved_collectives_; }
  const std::vector<SampledDevices::Window>& devices() const { return saved_devices_; }
  const std::vector<Activity>& activities() const { return activities_; }  // of the last Save()

 private:
  struct Open {  // in a session, as the round found it
    std::string session_id;
    std::vector<Activity> activities;
    std::vector<NcclOperation> operations, unfinished;
  };

  Status PutRows(Store& store, const WindowRows& rows) const;
  // Stores what NCCL operations were made into, as annotations, but for what a predecessor did.
  Status PutMatched(Store& store, const std::vector<Activity>& matched);

  RunModel& model_;
  WindowBuilder builder_;
  Collectives collectives_;
  MappedEvents matched_events_;
  // Thread, begin, end and category of what a predecessor has stored and is matched again.
  std::set<std::tuple<int64_t, int64_t, int64_t, uint32_t>> matched_before_;
  SampledDevices devices_;
  std::vector<CollectiveWindowRow> saved_collectives_;
  std::vector<SampledDevices::Window> saved_devices_;
  std::vector<Open> open_;
  std::vector<Activity> round_;
  std::vector<Activity> activities_;
  std::vector<StepRow> steps_;
  std::vector<StepRow> saved_steps_;
  std::vector<WindowRows> closed_;
};

}  // namespace poolscope
