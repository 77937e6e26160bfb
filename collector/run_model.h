#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collector/activity.h"
#include "store/store.h"
#include "trace/result.h"

namespace poolscope {

// What is known of one run's pools, workers, links and settings. Ids are small indexes that stay
// valid for the life of the model. Save() writes what changed since the last one.
class RunModel {
 public:
  struct Worker {
    std::string pool;
    int64_t index = 0;
    std::string session_id;
    std::string device = "cpu";  // "cuda:0"
    bool saved = false;

    bool on_device() const { return device != "cpu"; }
  };
  struct Pool {
    std::string role;
    std::vector<int> workers;
    bool saved = false;
  };
  struct Link {
    std::string name;
    std::string from_pool;
    std::string to_pool;
    int64_t capacity = 0;
    int64_t lanes = 1;
    bool saved = false;
    bool annotated = false;  // the job marks its transfers itself
  };

  explicit RunModel(std::string run_id) : run_id_(std::move(run_id)) {}

  const std::string& run_id() const { return run_id_; }
  const std::vector<Worker>& workers() const { return workers_; }
  const std::vector<Link>& links() const { return links_; }
  const std::map<std::string, Pool>& pools() const { return pools_; }

  // Takes over what an earlier collector stored.
  Status Load(const Store& store);
  Status Save(Store& store);

  // Makes it when new. A role that differs from the one known replaces it.
  int AddWorker(std::string_view pool, int64_t index, std::string_view role,
                const std::string& session_id);
  int FindWorker(std::string_view pool, int64_t index) const;  // -1: none
  int AddLink(std::string_view name);                          // ends unknown until DescribeLink
  int DescribeLink(std::string_view name, std::string_view from, std::string_view to,
                   int64_t capacity, int64_t lanes);
  // What happened on the device of this ordinal for a worker: its own work there makes it that
  // device's; a transfer gets a sender, inferred, or is none where the job marks its own.
  void TakeDevice(int worker, uint64_t device, Activity& activity);
  // Index of the worker that sends on the link where `worker` has a part in a transfer: itself,
  // else of its process, else of its number, else any; kNoValue: none is known.
  uint64_t SenderOf(int link, int worker) const;
  // The first link from one pool to the other, or, not `directed`, between them; made when new.
  int LinkBetween(const std::string& from, const std::string& to, bool directed);
  void AddSetting(std::string_view key, std::string_view value);

  // The run began then at the latest.
  void SawStart(int64_t ns) { start_ns_ = start_ns_ == 0 ? ns : std::min(start_ns_, ns); }
  int64_t start_ns() const { return start_ns_; }
  // From when on a version, or a later one, was there; INT64_MAX: not yet. Known of those watched.
  void WatchVersions(const std::vector<int64_t>& versions);
  void SawVersion(uint64_t version, int64_t ns);
  int64_t VersionSince(int64_t version) const;

  // The number of the step that a thread, which says no number, made: from 0, as long as one thread
  // counts. None: another thread does.
  std::optional<int64_t> CountStep(const std::string& session_id, uint32_t tid);
  // The session has ended: another thread may count on.
  void ReleaseSteps(const std::string& session_id);

  // The text of a resource of domain "poolscope" (agent/include/poolscope/annotate.h). Returns the
  // worker id of "worker POOL INDEX ROLE", else -1; text of no known form is left out.
  int ReadResource(std::string_view text, const std::string& session_id);

 private:
  std::string run_id_;
  std::vector<Worker> workers_;
  std::map<std::pair<std::string, int64_t>, int> worker_ids_;
  std::map<std::string, Pool> pools_;
  std::vector<Link> links_;
  std::map<std::string, int, std::less<>> link_ids_;
  std::map<std::string, std::pair<std::string, bool>> settings_;  // value, saved
  std::pair<std::string, uint32_t> step_counter_;                 // session, thread; "" none
  int64_t next_step_ = 0;
  int64_t start_ns_ = 0;
  std::map<int64_t, int64_t> version_since_;  // by version watched
};

}  // namespace poolscope
