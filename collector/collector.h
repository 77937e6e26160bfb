#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "collector/device_numbers.h"
#include "collector/device_sampler.h"
#include "collector/live_advice.h"
#include "collector/mapping.h"
#include "collector/metrics.h"
#include "collector/run_folder.h"
#include "collector/run_model.h"
#include "collector/run_windows.h"
#include "collector/session_drain.h"
#include "store/store.h"

namespace poolscope {

struct CollectorOptions {
  std::filesystem::path store;
  std::vector<std::filesystem::path> run_folders;
  std::string pools;                // preset or TOML file, "" none
  std::vector<uint32_t> owners;     // users whose sessions are read
  std::string command;              // of the run, where the starter knows it
  std::string metrics_address;      // "HOST:PORT" or ":PORT", "" none
  std::string version = "unknown";  // of the program
  int drain_interval_ms = 100;
  bool live_advice = true;
};

// Drains the sessions of the run folders to a store. One thread.
//
// Everything it knows is in the store or in the sessions: after any failure, and after a kill, a
// new Collector takes up exactly where the last commit stood.
class Collector {
 public:
  // `metrics` may be null; it outlives the collector.
  static Result<std::unique_ptr<Collector>> Open(const CollectorOptions& options,
                                                 Metrics* metrics = nullptr);
  ~Collector();

  struct Drained {
    uint64_t events = 0;
    double fill = 0;         // of the fullest ring before it was drained
    size_t sessions = 0;     // live
    bool expecting = false;  // a session is being made: look again at once
  };
  // One round: new sessions, their events, windows, losses and cursors in one transaction, then the
  // space in the rings. On an error nothing of the round is stored: open a new Collector.
  Result<Drained> Drain();
  double Fill() const;  // of the fullest ring now
  // The last round, and the rings of live sessions back to overwriting their oldest events.
  Status Leave();

  std::vector<int> notify_fds() const;
  uint64_t events() const { return events_; }
  uint64_t lost() const { return lost_; }
  std::vector<std::string> live_runs() const;
  // Stored with the next round.
  void TakeAdvice(std::vector<LiveAdvice::Advice> advice);
  // One-line warnings since the last call: sessions that were refused and why.
  std::vector<std::string> TakeWarnings() { return std::exchange(warnings_, {}); }

 private:
  static constexpr int64_t kDeviceWindowNs = 1'000'000'000;
  struct Run {
    explicit Run(const std::string& id) : model(id), windows(model) {}
    RunModel model;
    RunWindows windows;
    RunRow row;
    int64_t offset_ns = 0;
    bool changed = true;
    size_t live = 0;
    uint64_t round_events = 0;
    std::array<uint64_t, kLossCauses> round_lost{};
    bool round_saved = false;
    int64_t ended_at_ns = 0;  // CLOCK_MONOTONIC, 0 while it lives
  };
  struct Session {
    std::unique_ptr<SessionDrain> drain;
    Run* run = nullptr;
  };

  Collector(const CollectorOptions& options, Metrics* metrics)
      : options_(options), metrics_(metrics) {}
  void TakeMetrics(const Drained& drained, int64_t began_ns);
  void ForgetOldRuns();
  Status PutDevices();
  DeviceWindowRow SampledRow(const std::string& run_id, const char* host,
                             const SampledDevices::Window& window);
  Status CheckStore();
  Status Discover();
  Result<Run*> RunOf(const SessionHead& head);
  void Refuse(const std::filesystem::path& path, const std::string& message);

  const CollectorOptions options_;
  Metrics* const metrics_;
  Mapping mapping_;
  std::vector<RunFolder> folders_;
  std::optional<StoreLock> lock_;
  std::optional<Store> store_;
  std::map<std::string, std::unique_ptr<Run>> runs_;
  std::map<std::filesystem::path, Session> sessions_;
  std::set<std::filesystem::path> refused_;
  std::vector<LiveAdvice::Advice> advice_;
  DeviceSampler sampler_{kDeviceWindowNs};
  std::vector<DeviceSampler::Sample> samples_;  // of the round
  std::vector<DeviceWindowRow> sampled_;        // by hardware, of the windows of the round
  DeviceNumbers numbers_;
  std::vector<std::string> warnings_;
  std::vector<EventLossRow> unrecorded_;  // processes without a session, to be stored
  uint64_t events_ = 0;
  uint64_t lost_ = 0;
  int64_t last_round_ns_ = 0;
  bool expecting_ = false;
};

struct CollectorProgress {
  size_t sessions = 0;  // live
  uint64_t events = 0;  // stored so far by this collector
  uint64_t lost = 0;
};

// How RunCollector talks; each may be empty. Called from the thread that runs it.
struct CollectorCalls {
  // Sessions are being taken. `metrics`: where metrics are served, "" nowhere.
  std::function<void(const std::string& metrics)> ready;
  std::function<void(const std::string& line)> say;        // one-line messages for a person
  std::function<void(const CollectorProgress&)> progress;  // about once a second
};

// Drains until `stop` is set, then leaves. After a failed round it says so once, waits and starts
// again from the store. Error: it could not start, or could not store the last events.
Status RunCollector(const CollectorOptions& options, const std::atomic<bool>& stop,
                    const CollectorCalls& calls);

}  // namespace poolscope
