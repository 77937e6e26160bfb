#include "collector/metrics.h"

#include <fmt/format.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "trace/clock.h"
#include "trace/session_format.h"

namespace poolscope {
namespace {

constexpr int64_t kClosedNs = 10'000'000'000;
constexpr int64_t kHealthyNs = 10'000'000'000;
constexpr int64_t kSampledNs = 5'000'000'000;  // that the samples of a device's hardware hold

prometheus::Histogram::BucketBoundaries Buckets(Metric metric) {
  switch (metric) {
    case Metric::kVersionLag:
      return {0, 1, 2, 3, 4, 6, 8, 12, 16, 32, 64};
    case Metric::kStepSeconds:
      return {0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300};
    case Metric::kDrainSeconds:
      return {0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3};
    default:
      return {0.00001, 0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10};
  }
}

// Enough to tell the runs of one host apart, short enough for a legend.
std::string Short(const std::string& run_id) { return run_id.substr(0, 8); }

const char* StageName(Stage stage) {
  static constexpr const char* kNames[] = {"queued", "encode", "wire",
                                           "decode", "apply",  "receive"};
  return kNames[static_cast<size_t>(stage)];
}

Metric FaultMetric(FaultKind fault) {
  return static_cast<Metric>(static_cast<size_t>(Metric::kLinkRetries) +
                             static_cast<size_t>(fault));
}

double Seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

template <typename Series, typename Families, typename Gone>
void DropSeries(Series& series, Families& families, const Gone& gone) {
  for (auto it = series.begin(); it != series.end();) {
    const auto& [metric, labels] = it->first;
    if (!gone(metric, labels)) {
      ++it;
      continue;
    }
    families.at(metric)->Remove(it->second);
    it = series.erase(it);
  }
}

}  // namespace

std::string MetricsDocument() {
  static constexpr const char* kTypes[] = {"gauge", "counter", "histogram"};
  std::string text =
      "# Metrics\n\n"
      "`poolscope collect --metrics :9464` and `poolscope run --metrics :9464` serve these to "
      "Prometheus under\n`/metrics`, on loopback unless an address says otherwise; `/healthz` "
      "answers 200 while rounds succeed.\n"
      "Printed by `poolscope collect --print-metrics-doc` from the table in "
      "`collector/metrics_table.h`.\n\n"
      "Label `run` is the first 8 digits of the run's id; its series go a minute after the run "
      "ended. Ratios are 0 to 1,\ntimes seconds, sizes bytes. Words: `docs/glossary.md`.\n\n"
      "| metric | type | labels | meaning |\n|---|---|---|---|\n";
  for (const MetricSpec& spec : kMetrics) {
    text += fmt::format("| `{}` | {} | {} | {} |\n", spec.name,
                        kTypes[static_cast<size_t>(spec.type)], spec.labels, spec.help);
  }
  return text;
}

Metrics::Metrics(const std::string& version) {
  for (size_t i = 0; i < kMetrics.size(); ++i) {
    const MetricSpec& spec = kMetrics[i];
    const auto metric = static_cast<Metric>(i);
    switch (spec.type) {
      case MetricType::kGauge:
        gauge_families_[metric] =
            &prometheus::BuildGauge().Name(spec.name).Help(spec.help).Register(registry_);
        break;
      case MetricType::kCounter:
        counter_families_[metric] =
            &prometheus::BuildCounter().Name(spec.name).Help(spec.help).Register(registry_);
        break;
      case MetricType::kHistogram:
        histogram_families_[metric] =
            &prometheus::BuildHistogram().Name(spec.name).Help(spec.help).Register(registry_);
        break;
    }
  }
  GaugeOf(Metric::kBuildInfo, {{"version", version}}).Set(1);
  CounterOf(Metric::kFailures, {});
}

prometheus::Gauge& Metrics::GaugeOf(Metric metric, const Labels& labels) {
  prometheus::Gauge*& gauge = gauges_[{metric, labels}];
  if (gauge == nullptr) gauge = &gauge_families_.at(metric)->Add(labels);
  return *gauge;
}

prometheus::Counter& Metrics::CounterOf(Metric metric, const Labels& labels) {
  prometheus::Counter*& counter = counters_[{metric, labels}];
  if (counter == nullptr) counter = &counter_families_.at(metric)->Add(labels);
  return *counter;
}

prometheus::Histogram& Metrics::HistogramOf(Metric metric, const Labels& labels) {
  prometheus::Histogram*& histogram = histograms_[{metric, labels}];
  if (histogram == nullptr) {
    histogram = &histogram_families_.at(metric)->Add(labels, Buckets(metric));
  }
  return *histogram;
}

void Metrics::Take(const RunRound& round) {
  const RunModel& model = *round.model;
  const std::string run = Short(model.run_id());
  CounterOf(Metric::kEvents, {{"run", run}}).Increment(static_cast<double>(round.events));
  for (size_t cause = 0; cause < round.lost.size(); ++cause) {
    if (round.lost[cause] == 0) continue;
    CounterOf(Metric::kEventLosses,
              {{"run", run}, {"cause", LossCauseName(static_cast<LossCause>(cause))}})
        .Increment(static_cast<double>(round.lost[cause]));
  }
  for (const Activity& activity : *round.activities) {
    if (activity.link < 0) continue;
    const std::string& link = model.links()[static_cast<size_t>(activity.link)].name;
    const Labels of_link = {{"run", run}, {"link", link}};
    if (activity.category == Category::kDiscard) {
      CounterOf(Metric::kLinkDiscarded, of_link).Increment();
    }
    if (activity.category == Category::kFault) {
      CounterOf(FaultMetric(activity.fault), of_link).Increment();
      if (activity.fault == FaultKind::kRetry) {
        CounterOf(Metric::kLinkWireBytes, of_link)
            .Increment(static_cast<double>(activity.wire_bytes));
      }
    }
    if (activity.category != Category::kTransfer) continue;
    HistogramOf(Metric::kLinkTransferSeconds,
                {{"run", run}, {"link", link}, {"stage", StageName(activity.stage)}})
        .Observe(Seconds(activity.end_ns - activity.begin_ns));
    if (activity.stage == Stage::kWire) {
      CounterOf(Metric::kLinkTransfers, of_link).Increment();
      CounterOf(Metric::kLinkRawBytes, of_link).Increment(static_cast<double>(activity.raw_bytes));
      CounterOf(Metric::kLinkWireBytes, of_link)
          .Increment(static_cast<double>(activity.wire_bytes));
    }
    if (activity.stage == Stage::kApply && activity.version != kNoValue &&
        activity.applied_version != kNoValue && activity.applied_version >= activity.version) {
      HistogramOf(Metric::kVersionLag, {{"run", run}})
          .Observe(static_cast<double>(activity.applied_version - activity.version));
    }
  }
  for (const StepRow& step : *round.steps) {
    CounterOf(Metric::kSteps, {{"run", run}}).Increment();
    CounterOf(Metric::kTokens, {{"run", run}}).Increment(static_cast<double>(step.tokens));
    GaugeOf(Metric::kVersion, {{"run", run}}).Set(static_cast<double>(step.version));
    if (step.loss.has_value()) GaugeOf(Metric::kLoss, {{"run", run}}).Set(*step.loss);
    const auto before = newest_step_.find(model.run_id());
    if (before != newest_step_.end() && step.step == before->second.first + 1) {
      HistogramOf(Metric::kStepSeconds, {{"run", run}})
          .Observe(Seconds(step.end_ns - before->second.second));
    }
    newest_step_[model.run_id()] = {step.step, step.end_ns};
  }
  TakeCollectives(run, *round.collectives);
  int64_t& newest = newest_window_[model.run_id()];
  for (const WindowRows& rows : *round.windows) {
    if (rows.start_ns <= newest) continue;  // an old one once more, attributed late
    newest = rows.start_ns;
    TakeWindows(model, run, rows);
  }
}

void Metrics::TakeCollectives(const std::string& run,
                              const std::vector<CollectiveWindowRow>& rows) {
  std::map<Labels, std::array<double, 2>> bus;  // bytes, seconds in the newest window
  for (const CollectiveWindowRow& row : rows) {
    const Labels labels = {{"run", run}, {"pools", row.pools}, {"function", row.function}};
    CollectiveWindowRow& counted =
        collectives_[{run, row.start_ns, row.communicator, row.function}];
    CounterOf(Metric::kNcclOperations, labels)
        .Increment(static_cast<double>(row.operations - counted.operations));
    CounterOf(Metric::kNcclWait, labels).Increment(Seconds(row.wait_ns - counted.wait_ns));
    counted = row;
    bus[labels][0] += static_cast<double>(row.bus_bytes);
    bus[labels][1] += Seconds(row.wire_ns);
  }
  for (const auto& [labels, sum] : bus) {
    if (sum[1] > 0) GaugeOf(Metric::kNcclBandwidth, labels).Set(sum[0] / sum[1]);
  }
  // Sums of windows that are closed do not grow.
  std::erase_if(collectives_, [&](const auto& sum) {
    return !rows.empty() && std::get<1>(sum.first) + kClosedNs < rows.front().start_ns;
  });
}

void Metrics::TakeWindows(const RunModel& model, const std::string& run, const WindowRows& rows) {
  for (const PoolWindowRow& pool : rows.pools) {
    const Labels labels = {{"run", run}, {"pool", pool.pool}};
    GaugeOf(Metric::kPoolBusy, labels).Set(pool.busy_ratio);
    GaugeOf(Metric::kPoolWorkers, labels).Set(static_cast<double>(pool.workers));
    StateNs sums{};
    double wall = 0;
    for (const WorkerWindowRow& worker : rows.workers) {
      if (worker.pool != pool.pool) continue;
      wall += static_cast<double>(worker.window_ns);
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += worker.state_ns[i];
    }
    for (size_t i = 0; i < sums.size(); ++i) {
      GaugeOf(Metric::kPoolState,
              {{"run", run}, {"pool", pool.pool}, {"state", StateName(static_cast<State>(i))}})
          .Set(static_cast<double>(sums[i]) / wall);
    }
  }
  std::set<Labels> workers;
  for (const WorkerWindowRow& worker : rows.workers) {
    const int64_t busy = worker.state_ns[static_cast<size_t>(State::kBusy)] +
                         worker.state_ns[static_cast<size_t>(State::kBusyDiscarded)];
    const Labels labels = {
        {"run", run}, {"pool", worker.pool}, {"worker", std::to_string(worker.worker_index)}};
    GaugeOf(Metric::kWorkerBusy, labels)
        .Set(static_cast<double>(busy) / static_cast<double>(worker.window_ns));
    workers.insert(labels);
  }
  DropSeries(gauges_, gauge_families_, [&](Metric metric, const Labels& labels) {
    return metric == Metric::kWorkerBusy && labels.at("run") == run && !workers.contains(labels);
  });
  for (const LinkWindowRow& link : rows.links) {
    const Labels labels = {{"run", run}, {"link", link.link}};
    GaugeOf(Metric::kLinkDepth, labels).Set(link.depth_mean);
    GaugeOf(Metric::kLinkCapacity, labels).Set(static_cast<double>(link.capacity));
    GaugeOf(Metric::kLinkTraffic, labels).Set(link.traffic_share);
    GaugeOf(Metric::kLinkExposed, labels).Set(link.exposed_share);
    // Present, so that a rule on them is not blind.
    CounterOf(Metric::kLinkDiscarded, labels);
    for (size_t fault = 0; fault < link.faults.size(); ++fault) {
      CounterOf(FaultMetric(static_cast<FaultKind>(fault)), labels);
    }
  }
  (void)model;
}

void Metrics::Take(const DeviceSampler::Sample& sample) {
  for (const DeviceReading& device : sample.devices) {
    Labels labels = {{"device", std::to_string(device.device)}, {"source", kSaidByDriver}};
    const auto set = [&](Metric metric, const auto& value) {
      if (!value.has_value()) return;
      Labels sampled = labels;
      sampled["source"] = kSampledByHardware;
      if (gauges_.contains({metric, sampled})) return;
      GaugeOf(metric, labels).Set(static_cast<double>(*value));
    };
    set(Metric::kDeviceSm, device.sm_ratio);
    set(Metric::kDeviceDram, device.dram_ratio);
    set(Metric::kDeviceMemoryUsed, device.memory_used_bytes);
    set(Metric::kDeviceMemory, device.memory_total_bytes);
    labels["clock"] = "sm";
    set(Metric::kDeviceClock, device.sm_hertz);
    labels["clock"] = "memory";
    set(Metric::kDeviceClock, device.memory_hertz);
    labels.erase("clock");
    const auto links = [&](const char* direction, const auto& pcie, const auto& nvlink) {
      labels["direction"] = direction;
      set(Metric::kDevicePcie, pcie);
      if (nvlink.has_value() && sample.over_ns > 0) {
        set(Metric::kDeviceNvlink,
            std::optional(static_cast<double>(*nvlink) / Seconds(sample.over_ns)));
      }
    };
    links("sent", device.pcie_sent_bytes, device.nvlink_sent_bytes);
    links("received", device.pcie_received_bytes, device.nvlink_received_bytes);
  }
}

void Metrics::Take(const DeviceWindowRow& sampled) {
  Labels labels = {{"device", std::to_string(sampled.device)}, {"source", kSampledByHardware}};
  sampled_ns_[labels["device"]] = MonotonicNs();
  const auto set = [&](Metric metric, const auto& value, double over = 1) {
    if (!value.has_value()) return;
    GaugeOf(metric, labels).Set(static_cast<double>(*value) / over);
    Labels driver = labels;
    driver["source"] = kSaidByDriver;
    DropSeries(gauges_, gauge_families_, [&](Metric other, const Labels& theirs) {
      return other == metric && theirs == driver;
    });
  };
  set(Metric::kDeviceSm, sampled.sm_ratio);
  set(Metric::kDeviceDram, sampled.dram_ratio);
  set(Metric::kDeviceTensor, sampled.tensor_ratio);
  labels["direction"] = "sent";
  set(Metric::kDevicePcie, sampled.pcie_sent_bytes_per_second);
  set(Metric::kDeviceNvlink, sampled.nvlink_sent_bytes, Seconds(sampled.window_ns));
  labels["direction"] = "received";
  set(Metric::kDevicePcie, sampled.pcie_received_bytes_per_second);
  set(Metric::kDeviceNvlink, sampled.nvlink_received_bytes, Seconds(sampled.window_ns));
}

// Of devices whose samples come no more.
void Metrics::ForgetSampled() {
  for (auto it = sampled_ns_.begin(); it != sampled_ns_.end();) {
    if (MonotonicNs() - it->second < kSampledNs) {
      ++it;
      continue;
    }
    DropSeries(gauges_, gauge_families_, [&](Metric, const Labels& labels) {
      const auto device = labels.find("device");
      return device != labels.end() && device->second == it->first &&
             labels.at("source") == kSampledByHardware;
    });
    it = sampled_ns_.erase(it);
  }
}

void Metrics::Take(const Health& health) {
  ForgetSampled();
  HistogramOf(Metric::kDrainSeconds, {}).Observe(health.drain_seconds);
  GaugeOf(Metric::kLag, {}).Set(health.lag_seconds);
  GaugeOf(Metric::kSessions, {}).Set(static_cast<double>(health.sessions));
  GaugeOf(Metric::kRingFill, {}).Set(health.fill);
  last_round_ns_.store(MonotonicNs());
}

void Metrics::CountFailure() { CounterOf(Metric::kFailures, {}).Increment(); }

void Metrics::SetFindings(const std::string& run_id, const std::vector<FindingRow>& findings,
                          const std::map<std::pair<std::string, std::string>, double>& speedups) {
  for (const FindingRow& finding : findings) {
    const Labels labels = {
        {"run", Short(run_id)}, {"rule", finding.rule}, {"subject", finding.subject}};
    GaugeOf(Metric::kFindingActive, labels).Set(finding.active ? 1 : 0);
    const auto speedup = speedups.find({finding.rule, finding.subject});
    GaugeOf(Metric::kFindingSpeedup, labels)
        .Set(finding.active && speedup != speedups.end() ? speedup->second : 1);
  }
}

void Metrics::Forget(const std::string& run_id) {
  const auto of_run = [&](Metric, const Labels& labels) {
    const auto run = labels.find("run");
    return run != labels.end() && run->second == Short(run_id);
  };
  DropSeries(gauges_, gauge_families_, of_run);
  DropSeries(counters_, counter_families_, of_run);
  DropSeries(histograms_, histogram_families_, of_run);
  newest_window_.erase(run_id);
  newest_step_.erase(run_id);
}

std::string Metrics::Serialize() const {
  return prometheus::TextSerializer().Serialize(registry_.Collect());
}

bool Metrics::Healthy() const { return MonotonicNs() - last_round_ns_.load() < kHealthyNs; }

}  // namespace poolscope
