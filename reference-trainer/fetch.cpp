#include "reference-trainer/fetch.h"

#include <fmt/format.h>
#include <poolscope/annotate.h>

#include <algorithm>

#include "reference-trainer/lossy_link.h"
#include "reference-trainer/model/shard_layout.h"
#include "reference-trainer/shaped_link.h"

namespace poolscope::trainer {
namespace {

WeightBlocks BlocksOf(const Options& options) {
  const GptShape shape = ShapeOf(options.model);
  const uint64_t bytes =
      options.devices.emulated() ? options.weight_bytes : Parameters(shape).size() * sizeof(float);
  return {shape, LayOut(options.state.layout, shape, options.update_workers), bytes};
}

}  // namespace

Fetch::Fetch(const Options& options, size_t compute_workers,
             const std::vector<Signal*>& update_signals,
             const std::function<void(const std::string&)>& fail)
    : options_(options.fetch),
      update_signals_(update_signals),
      compute_workers_(compute_workers),
      blocks_(BlocksOf(options)),
      asked_bytes_(options.update_workers, 0),
      hotness_(blocks_.group_names().size()),
      compute_workers_left_(compute_workers) {
  std::vector<Signal*> servers = update_signals;
  if (options_.serving == Serving::kThread) {
    for (Signal*& each : servers) {
      each = server_signals.emplace_back(std::make_unique<Signal>()).get();
    }
  }
  requests = MakeLink("requests", options.requests.shape, options.reliability,
                      options.reliability.requests, options.seed, compute_workers, servers, fail);
  if (options_.replication > 1) {
    replicas = std::make_unique<ShapedLink>("replicas", options.replicas.shape,
                                            options.update_workers, servers);
  }
  totals_.servers.resize(options.update_workers);
  for (const std::string& group : blocks_.group_names()) {
    if (hotness_counters_.size() == kMostCounters) break;
    hotness_counters_.push_back(poolscope_counter(("hotness." + group).c_str()));
  }
  for (uint64_t i = 0; i < std::min(options.update_workers, uint64_t{kMostCounters}); ++i) {
    const std::string server = fmt::format("update.{}.served_", i);
    served_counters_.emplace_back(poolscope_counter((server + "requests").c_str()),
                                  poolscope_counter((server + "bytes").c_str()));
  }
}

size_t Fetch::Ask(size_t block, size_t worker) {
  std::lock_guard lock(mutex_);
  const auto holders = HoldersOf(blocks_[block].owner, options_.replication, asked_bytes_.size());
  const size_t holder = Route(options_.routing, worker, compute_workers_, holders, asked_bytes_);
  asked_bytes_[holder] += blocks_[block].raw_bytes;
  return holder;
}

void Fetch::Arrived(size_t block, size_t holder) {
  std::lock_guard lock(mutex_);
  asked_bytes_[holder] -= blocks_[block].raw_bytes;
}

void Fetch::Served(size_t server, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  FetchTotals::Server& totals = totals_.servers[server];
  ++totals.requests;
  totals.bytes += bytes;
  if (server >= served_counters_.size()) return;
  poolscope_sample(served_counters_[server].first, static_cast<double>(totals.requests));
  poolscope_sample(served_counters_[server].second, static_cast<double>(totals.bytes));
}

void Fetch::Used(std::span<const uint64_t> uses, const FetchCounts& counts) {
  std::lock_guard lock(mutex_);
  hotness_.Decay();
  for (size_t group = 0; group < uses.size(); ++group) {
    for (uint64_t i = 0; i < uses[group]; ++i) hotness_.Count(group);
    if (group < hotness_counters_.size()) {
      poolscope_sample(hotness_counters_[group], hotness_.score(group));
    }
  }
  totals_.hits += counts.hits;
  totals_.misses += counts.misses;
  totals_.asked_again += counts.asked_again;
  totals_.most_resident = std::max(totals_.most_resident, counts.most_resident);
}

FetchTotals Fetch::totals() {
  std::lock_guard lock(mutex_);
  FetchTotals totals = totals_;
  for (const size_t group : hotness_.Hottest(FetchTotals::kShown)) {
    totals.hottest.push_back(
        {blocks_.group_names()[group], hotness_.uses(group), hotness_.score(group)});
  }
  return totals;
}

void Fetch::ComputeWorkerLeft() {
  {
    std::lock_guard lock(mutex_);
    if (--compute_workers_left_ > 0) return;
  }
  for (const auto& signal : server_signals) signal->Notify();
  for (Signal* signal : update_signals_) signal->Notify();
}

bool Fetch::over() {
  std::lock_guard lock(mutex_);
  return compute_workers_left_ == 0;
}

}  // namespace poolscope::trainer
