#pragma once

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "collector/activity.h"
#include "collector/device_sampler.h"
#include "collector/metrics_table.h"
#include "collector/run_model.h"
#include "collector/windows.h"
#include "store/rows.h"
#include "trace/session_reader.h"

namespace poolscope {

// The values behind the endpoint. One thread writes, any thread may Serialize().
class Metrics {
 public:
  explicit Metrics(const std::string& version);

  // What one committed round brought of a run.
  struct RunRound {
    const RunModel* model = nullptr;
    const std::vector<WindowRows>* windows = nullptr;
    const std::vector<Activity>* activities = nullptr;
    const std::vector<StepRow>* steps = nullptr;
    const std::vector<CollectiveWindowRow>* collectives = nullptr;
    uint64_t events = 0;
    std::array<uint64_t, kLossCauses> lost{};  // by LossCause
  };
  void Take(const RunRound& round);
  void Take(const DeviceSampler::Sample& sample);
  // What a device's hardware sampled in a window: as long as that comes, it stands in for what the
  // driver says of the same.
  void Take(const DeviceWindowRow& sampled);
  struct Health {
    double drain_seconds = 0;
    double lag_seconds = 0;
    size_t sessions = 0;
    double fill = 0;
  };
  void Take(const Health& health);
  void CountFailure();
  // The run's findings: active ones by (rule, subject); those gone since become 0.
  void SetFindings(const std::string& run_id, const std::vector<FindingRow>& findings,
                   const std::map<std::pair<std::string, std::string>, double>& speedups);
  // Drops every series of the run; nothing of it comes any more.
  void Forget(const std::string& run_id);

  std::string Serialize() const;  // Prometheus text format 0.0.4
  bool Healthy() const;           // a round went well in the last ten seconds

 private:
  using Labels = std::map<std::string, std::string>;
  using Key = std::pair<Metric, Labels>;

  prometheus::Gauge& GaugeOf(Metric metric, const Labels& labels);
  prometheus::Counter& CounterOf(Metric metric, const Labels& labels);
  prometheus::Histogram& HistogramOf(Metric metric, const Labels& labels);
  void TakeCollectives(const std::string& run, const std::vector<CollectiveWindowRow>& rows);
  void ForgetSampled();
  void TakeWindows(const RunModel& model, const std::string& run, const WindowRows& rows);

  prometheus::Registry registry_;
  std::map<Metric, prometheus::Family<prometheus::Gauge>*> gauge_families_;
  std::map<Metric, prometheus::Family<prometheus::Counter>*> counter_families_;
  std::map<Metric, prometheus::Family<prometheus::Histogram>*> histogram_families_;
  std::map<Key, prometheus::Gauge*> gauges_;
  std::map<Key, prometheus::Counter*> counters_;
  std::map<Key, prometheus::Histogram*> histograms_;
  std::map<std::string, int64_t> sampled_ns_;  // by device: when its hardware's samples came last
  std::map<std::string, int64_t> newest_window_;                    // by run
  std::map<std::string, std::pair<int64_t, int64_t>> newest_step_;  // number, end
  std::map<std::tuple<std::string, int64_t, std::string, std::string>, CollectiveWindowRow>
      collectives_;  // counted so far, by run, window, communicator and function
  std::atomic<int64_t> last_round_ns_{0};
};

}  // namespace poolscope
