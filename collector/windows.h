#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "collector/activity.h"
#include "collector/link_depth.h"
#include "collector/messages.h"
#include "collector/occupancy.h"
#include "collector/run_model.h"
#include "collector/state_split.h"
#include "store/rows.h"

namespace poolscope {

// The rows of one window.
struct WindowRows {
  int64_t start_ns = 0;
  int64_t window_ns = 0;
  std::vector<WorkerWindowRow> workers;
  std::vector<WorkerLinkWindowRow> worker_links;
  std::vector<PoolWindowRow> pools;
  std::vector<LinkWindowRow> links;
  std::optional<VersionWindowRow> version;
};

// Sums one run's activities over windows of `window_ns`, aligned to its multiples; the first begins
// with the first activity, the last ends with the run; a worker that comes or goes in the middle of
// one has a shorter one. Time only moves forward: what comes for a
// window that is closed counts in the next one, but for the attribution of a wait, which is known
// when the wait ends and is then written into the windows that it began in.
class WindowBuilder {
 public:
  explicit WindowBuilder(const RunModel& model, int64_t window_ns = 1'000'000'000)
      : model_(model), window_ns_(window_ns) {}

  // Nothing before `ns` is of interest: windows up to there are closed.
  void StartAt(int64_t ns) { closed_ns_ = begun_ns_ = ns; }
  int64_t closed_ns() const { return closed_ns_; }  // 0: not begun

  // Ended activities; discards come after the work that they discard.
  void Add(const Activity& activity);
  void Add(const DepthSample& sample, const std::string& source = "");
  void EndSource(const std::string& source, int64_t ns);  // its buffers are gone
  void Add(const OccupancySample& sample);
  // The same for what was stored earlier: what closed windows counted is not counted again.
  void AddStored(const Activity& activity);
  // Events of these workers are missing in the span.
  void AddUnknown(std::span<const int> workers, int64_t begin_ns, int64_t end_ns);
  // What is open now in a session (or any other source), instead of what was said before.
  void SetOpen(const std::string& source, std::vector<Activity> open);
  // The worker's threads or process have gone: its last window is cut there, and none comes after,
  // unless it acts again.
  void EndWorker(int worker, int64_t ns);

  // Before this what a device did for the worker comes too late to be counted. Windows after it are
  // counted again, and come again, complete.
  int64_t LateBefore(int worker) const;

  // Closes every window that ends at or before `until_ns`; with `last` also the one begun, cut
  // there. Windows whose waits were attributed late come again, complete.
  std::vector<WindowRows> Close(int64_t until_ns, bool last = false);

 private:
  struct TrafficSpan {
    int link;
    int64_t begin_ns, end_ns;
  };
  struct Worker {
    int64_t first_ns = INT64_MAX;
    int64_t end_ns = INT64_MAX;
    int64_t kept_from_ns = 0;  // what ended after is all there, though its windows may be closed
    bool has_device = false;   // a device has done something for it
    size_t settled = 0;        // of the activities, those that pending waits were compared with
    std::vector<Activity> activities;  // that count for its state
    std::vector<bool> discarded;       // beside activities
    std::vector<TrafficSpan> traffic;
    std::vector<StateInterval> unknown;
    Occupancy occupancy;

    // Of an engine that works on several things at once, each an equal part of it: the share of
    // [from_ns, until_ns) that went to what was thrown away.
    double DiscardedShare(int64_t from_ns, int64_t until_ns) const;
  };
  struct LinkSums {
    int64_t transfers = 0, raw_bytes = 0, wire_bytes = 0, discarded = 0;
    std::array<int64_t, 5> stage_ns{};
    std::array<int64_t, 4> faults{};  // by FaultKind
  };
  struct VersionSums {
    int64_t applied = 0, lag_sum = 0, lag_max = 0;
  };
  struct Pending {      // a piece of a wait whose end, and so whose message, is not known
    int64_t window_ns;  // start
    int worker;
    int link;
    int64_t wait_begin_ns;
    int64_t begin_ns, end_ns;
  };

  Worker& At(int worker);
  void CloseOne(int64_t begin, int64_t end, std::vector<WindowRows>& out);
  // [begin, end): the part of the window that the worker was there.
  void CloseWorker(int id, int64_t begin, int64_t end, const std::vector<Activity>& open,
                   WindowRows& rows);
  void CloseLinks(int64_t begin, int64_t end, WindowRows& rows);
  void FillShares(WindowRows& rows) const;
  // The message that ended the wait of a worker; null: not known.
  const MessageLife* MessageOf(const Activity& wait) const;
  void SettlePending(std::vector<WindowRows>& out);
  std::vector<Activity> OpenOf(int worker) const;
  void FillPools(WindowRows& rows) const;
  void MarkLate(const Activity& activity);
  void CountLate(std::vector<WindowRows>& out);
  static void GiveAgain(const WindowRows& rows, std::vector<WindowRows>& out);
  void Prune();
  static void DropBefore(Worker& worker, int64_t ns);
  StateInterval StateOf(const Activity& activity, bool discarded, bool open) const;
  int64_t BucketOf(int64_t ns) const;

  const RunModel& model_;
  const int64_t window_ns_;
  int64_t closed_ns_ = 0;
  int64_t begun_ns_ = 0;  // what was before is a predecessor's
  int64_t first_ns_ = INT64_MAX;
  std::vector<Worker> workers_;
  std::map<std::string, std::vector<Activity>> open_;
  Messages messages_;
  std::map<int64_t, std::map<int, LinkSums>> link_sums_;  // by window, link
  std::map<int64_t, VersionSums> version_sums_;
  std::map<int, LinkDepth> depths_;  // by link
  int64_t newest_version_ = -1;
  std::vector<std::pair<int64_t, int64_t>> versions_;  // (time, version), not yet closed
  std::vector<Pending> pending_;
  std::map<int64_t, WindowRows> recent_;    // closed windows that may still change
  std::set<std::pair<int64_t, int>> late_;  // of them, by start, and the workers to count again
};

}  // namespace poolscope
