#include "collector/collector.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>

namespace poolscope {
namespace {

std::string BootId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string text;
  std::getline(file, text);
  return text;
}

// How long an ended run's series stay, so that its last values are scraped.
constexpr int64_t kRunMemoryNs = 60'000'000'000;

// Changed seconds ago: it may still be in the making.
bool IsFresh(const std::filesystem::path& path) {
  struct stat info;
  return lstat(path.c_str(), &info) == 0 && time(nullptr) - info.st_mtime < 3;
}

}  // namespace

Result<std::unique_ptr<Collector>> Collector::Open(const CollectorOptions& options,
                                                   Metrics* metrics) {
  std::unique_ptr<Collector> collector(new Collector(options, metrics));
  auto mapping = Mapping::Load(options.pools);
  if (!mapping.ok()) return mapping.error();
  collector->mapping_ = std::move(*mapping);
  for (const auto& path : options.run_folders) {
    auto folder = RunFolder::Open(path, options.owners);
    if (!folder.ok()) return folder.error();
    collector->folders_.push_back(std::move(*folder));
  }
  auto lock = StoreLock::Take(options.store);
  if (!lock.ok()) return lock.error();
  collector->lock_.emplace(std::move(*lock));
  auto store = Store::Open(options.store, Store::Mode::kWrite);
  if (!store.ok()) return store.error();
  collector->store_.emplace(std::move(*store));
  return collector;
}

Collector::~Collector() {
  sessions_.clear();
  runs_.clear();
  store_.reset();  // before the lock on its file
}

std::vector<int> Collector::notify_fds() const {
  std::vector<int> fds;
  for (const RunFolder& folder : folders_) fds.push_back(folder.notify_fd());
  return fds;
}

std::vector<std::string> Collector::live_runs() const {
  std::vector<std::string> runs;
  for (const auto& [id, run] : runs_) {
    if (!run->row.ended) runs.push_back(id);
  }
  return runs;
}

void Collector::TakeAdvice(std::vector<LiveAdvice::Advice> advice) {
  for (auto& entry : advice) advice_.push_back(std::move(entry));
}

void Collector::Refuse(const std::filesystem::path& path, const std::string& message) {
  if (refused_.insert(path).second) warnings_.push_back(message);
}

Result<Collector::Run*> Collector::RunOf(const SessionHead& head) {
  std::unique_ptr<Run>& run = runs_[head.run_id];
  if (run != nullptr) return run.get();
  run = std::make_unique<Run>(head.run_id);
  run->model.WatchVersions(mapping_.VersionBounds());
  if (auto loaded = run->model.Load(*store_); !loaded.ok()) return loaded.error();
  const auto rows = store_->Runs();
  if (!rows.ok()) return rows.error();
  for (const RunRow& row : *rows) {
    if (row.run_id == head.run_id) run->row = row;
  }
  if (run->row.run_id.empty()) {
    run->row = {head.run_id, head.host, options_.command.empty() ? head.command : options_.command};
  }
  if (run->row.start_ns != 0) run->model.SawStart(run->row.start_ns);
  // Epoch time of the run's timeline: fixed at its first sight on this boot of this host.
  const std::string key = "clock.offset_ns." + BootId();
  const auto settings = store_->Settings(head.run_id);
  if (!settings.ok()) return settings.error();
  for (const SettingRow& setting : *settings) {
    if (setting.key == key) run->offset_ns = std::strtoll(setting.value.c_str(), nullptr, 10);
  }
  if (run->offset_ns == 0) {
    const ClockTriple now = TakeTriple(ClockKind::kMonotonic);
    run->offset_ns = now.realtime_ns - now.monotonic_ns;
    run->model.AddSetting(key, std::to_string(run->offset_ns));
  }
  for (const Mapping::Link& link : mapping_.links()) {
    run->model.DescribeLink(link.name, link.from, link.to, link.capacity, link.lanes);
  }
  for (const auto& [name, value] : mapping_.settings()) run->model.AddSetting(name, value);
  if (auto rebuilt = run->windows.Rebuild(*store_, mapping_); !rebuilt.ok()) {
    return rebuilt.error();
  }
  return run.get();
}

// SQLite goes on writing a file that was removed or renamed, and would report success.
Status Collector::CheckStore() {
  if (lock_->Holds(options_.store)) return {};
  (void)store_->Checkpoint();  // a renamed one is whole without the -wal file that stays here
  return Error{
      fmt::format("the store {} was removed, renamed or replaced while it was written: what was "
                  "stored is gone with it, what comes goes to a new one",
                  options_.store.string())};
}

Status Collector::Discover() {
  expecting_ = false;
  for (const RunFolder& folder : folders_) {
    folder.ClearNotice();
    for (const RunFolder::Note& note : folder.TakeNotes()) {
      warnings_.push_back(fmt::format("process {} was not recorded: {}", note.pid, note.why));
      unrecorded_.push_back({note.run_id,
                             "",
                             "agent_off",
                             fmt::format("process {}: {}", note.pid, note.why),
                             {},
                             note.epoch_ns,
                             note.epoch_ns});
    }
    for (const auto& path : folder.Sessions()) {
      if (sessions_.count(path) != 0 || refused_.count(path) != 0) continue;
      auto reader = SessionReader::Open(path, options_.owners);
      if (!reader.ok()) {
        if (!IsFresh(path)) {
          Refuse(path, reader.error().message);
        } else {
          expecting_ = true;
        }
        continue;
      }
      if (path.stem() != reader->head().session_id) {
        Refuse(path, path.string() + ": its name is not its session id, left alone");
        continue;
      }
      auto run = RunOf(reader->head());
      if (!run.ok()) return run.error();
      auto drain = SessionDrain::Open(std::move(*reader), mapping_, (*run)->model,
                                      (*run)->offset_ns, *store_);
      if (!drain.ok()) {
        Refuse(path, drain.error().message);
        continue;
      }
      if ((*drain)->finished()) {  // a predecessor stored all of it and died before removing it
        unlink(path.c_str());
        continue;
      }
      (*run)->changed = true;
      (*run)->row.ended = false;
      sessions_[path] = {std::move(*drain), *run};
    }
  }
  return {};
}

double Collector::Fill() const {
  double fill = 0;
  for (const auto& [path, session] : sessions_) fill = std::max(fill, session.drain->Fill());
  return fill;
}

Result<Collector::Drained> Collector::Drain() {
  if (auto checked = CheckStore(); !checked.ok()) return checked.error();
  if (auto found = Discover(); !found.ok()) return found.error();
  Drained drained;
  drained.expecting = expecting_;
  const int64_t now_ns = MonotonicNs();
  samples_ = sampler_.Take();
  for (const DeviceSampler::Sample& sample : samples_) {
    for (const DeviceReading& device : sample.devices) numbers_.See(device);
    if (metrics_ != nullptr) metrics_->Take(sample);
  }
  if (sessions_.empty() && unrecorded_.empty()) {
    if (metrics_ != nullptr) metrics_->Take(Metrics::Health{});
    ForgetOldRuns();
    return drained;
  }
  if (auto begun = store_->Begin(); !begun.ok()) return begun.error();
  const auto fail = [&](const Error& error) {
    store_->Rollback();
    return error;
  };
  for (auto& [id, run] : runs_) {
    run->live = 0;
    run->round_events = 0;
    run->round_lost = {};
    run->round_saved = false;
  }
  for (auto& [path, session] : sessions_) {
    auto round = session.drain->Drain(*store_, session.run->windows.builder());
    if (!round.ok()) {
      // A session that cannot be read any more (truncated, sabotaged) must not stop the others.
      if (!session.drain->unreadable()) return fail(round.error());
      Refuse(path, round.error().message + "; the session is left alone");
      session.run->windows.Drop(*session.drain);
      continue;
    }
    drained.events += round->events;
    for (size_t cause = 0; cause < kLossCauses; ++cause) {
      lost_ += round->losses.lost[cause];
      session.run->round_lost[cause] += round->losses.lost[cause];
    }
    session.run->round_events += round->events;
    drained.fill = std::max(drained.fill, round->fill);
    Run& run = *session.run;
    run.windows.Add(*session.drain, *round);
    RunRow& row = run.row;
    if (row.start_ns == 0 || session.drain->start_ns() < row.start_ns) {
      row.start_ns = session.drain->start_ns();
    }
    row.end_ns = std::max(row.end_ns, session.drain->last_ns());
    if (!session.drain->finished()) ++run.live;
    if (round->events != 0 || session.drain->finished()) run.changed = true;
  }
  for (auto& [id, run] : runs_) {
    const bool ended = run->live == 0;
    if (run->row.ended && ended) continue;
    run->round_saved = true;
    if (run->row.ended != ended) run->changed = true;
    run->row.ended = ended;
    const int64_t now = ended ? run->row.end_ns : now_ns + run->offset_ns;
    if (auto saved = run->windows.Save(*store_, now, ended); !saved.ok()) {
      return fail(saved.error());
    }
    if (auto saved = run->model.Save(*store_); !saved.ok()) return fail(saved.error());
    if (!std::exchange(run->changed, false)) continue;
    if (auto put = store_->Put(run->row); !put.ok()) return fail(put.error());
  }
  for (const EventLossRow& row : unrecorded_) {
    if (auto put = store_->Put(row); !put.ok()) return fail(put.error());
  }
  if (auto put = PutDevices(); !put.ok()) return fail(put.error());
  for (const LiveAdvice::Advice& advice : advice_) {
    for (const FindingRow& row : advice.rows) {
      if (auto put = store_->Put(row); !put.ok()) return fail(put.error());
    }
  }
  if (auto committed = store_->Commit(); !committed.ok()) return fail(committed.error());
  events_ += drained.events;
  unrecorded_.clear();

  // From here on the store has it: space may be used again, files of the dead may go.
  for (auto it = sessions_.begin(); it != sessions_.end();) {
    SessionDrain& drain = *it->second.drain;
    if (refused_.count(it->first) != 0) {
      it = sessions_.erase(it);
    } else if (drain.finished()) {
      unlink(it->first.c_str());
      it = sessions_.erase(it);
    } else {
      if (auto released = drain.Release(); !released.ok()) {
        Refuse(it->first, released.error().message);
      }
      ++it;
    }
  }
  drained.sessions = sessions_.size();
  if (metrics_ != nullptr) TakeMetrics(drained, now_ns);
  advice_.clear();
  ForgetOldRuns();
  return drained;
}

// What the driver says of the devices goes into every run that lives: whose work it was it does not
// know.
Status Collector::PutDevices() {
  char host[256] = "";
  gethostname(host, sizeof(host) - 1);
  sampled_.clear();
  for (const auto& [id, run] : runs_) {
    if (run->round_saved) {
      for (const SampledDevices::Window& window : run->windows.devices()) {
        sampled_.push_back(SampledRow(id, host, window));
        if (auto put = store_->Put(sampled_.back()); !put.ok()) return put;
      }
    }
    if (run->row.ended) continue;
    for (const DeviceSampler::Sample& sample : samples_) {
      const int64_t at_ns = sample.at_ns + run->offset_ns;
      for (const DeviceReading& device : sample.devices) {
        DeviceWindowRow row{id,
                            at_ns / kDeviceWindowNs * kDeviceWindowNs,
                            host,
                            device.device,
                            kSaidByDriver,
                            kDeviceWindowNs,
                            device.uuid,
                            device.name};
        row.sm_ratio = device.sm_ratio;
        row.dram_ratio = device.dram_ratio;
        row.memory_used_bytes = device.memory_used_bytes;
        row.memory_bytes = device.memory_total_bytes;
        row.sm_hertz = device.sm_hertz;
        row.memory_hertz = device.memory_hertz;
        row.pcie_sent_bytes_per_second = device.pcie_sent_bytes;
        row.pcie_received_bytes_per_second = device.pcie_received_bytes;
        row.nvlink_sent_bytes = device.nvlink_sent_bytes;
        row.nvlink_received_bytes = device.nvlink_received_bytes;
        if (auto put = store_->Put(row); !put.ok()) return put;
      }
    }
  }
  return {};
}

DeviceWindowRow Collector::SampledRow(const std::string& run_id, const char* host,
                                      const SampledDevices::Window& window) {
  const DeviceNumbers::Device& device = numbers_.Of(window.device);
  DeviceWindowRow row{run_id,        window.start_ns,    host,
                      device.number, kSampledByHardware, kDeviceWindowNs,
                      device.uuid,   device.name};
  const auto mean = [&](DeviceMetric metric) { return window.means[static_cast<size_t>(metric)]; };
  const auto bytes = [&](DeviceMetric metric) {  // a second, and so of the window
    const auto rate = mean(metric);
    return rate.has_value() ? std::optional<int64_t>(std::llround(*rate)) : std::nullopt;
  };
  static_assert(kDeviceWindowNs == 1'000'000'000);
  row.sm_ratio = mean(DeviceMetric::kSm);
  row.dram_ratio = mean(DeviceMetric::kDram);
  row.tensor_ratio = mean(DeviceMetric::kTensor);
  row.pcie_sent_bytes_per_second = bytes(DeviceMetric::kPcieSent);
  row.pcie_received_bytes_per_second = bytes(DeviceMetric::kPcieReceived);
  row.nvlink_sent_bytes = bytes(DeviceMetric::kNvlinkSent);
  row.nvlink_received_bytes = bytes(DeviceMetric::kNvlinkReceived);
  return row;
}

void Collector::TakeMetrics(const Drained& drained, int64_t began_ns) {
  for (const LiveAdvice::Advice& advice : advice_) {
    metrics_->SetFindings(advice.run_id, advice.rows, advice.speedups);
  }
  for (const auto& [id, run] : runs_) {
    if (!run->round_saved) continue;
    metrics_->Take({&run->model, &run->windows.closed(), &run->windows.activities(),
                    &run->windows.steps(), &run->windows.collectives(), run->round_events,
                    run->round_lost});
  }
  for (const DeviceWindowRow& row : sampled_) metrics_->Take(row);
  Metrics::Health health;
  health.drain_seconds = static_cast<double>(MonotonicNs() - began_ns) * 1e-9;
  if (last_round_ns_ != 0) {
    health.lag_seconds = static_cast<double>(began_ns - last_round_ns_) * 1e-9;
  }
  health.sessions = drained.sessions;
  health.fill = drained.fill;
  metrics_->Take(health);
  last_round_ns_ = began_ns;
}

void Collector::ForgetOldRuns() {
  for (auto it = runs_.begin(); it != runs_.end();) {
    Run& run = *it->second;
    if (!run.row.ended) run.ended_at_ns = 0;
    if (run.row.ended && run.ended_at_ns == 0) run.ended_at_ns = MonotonicNs();
    if (run.ended_at_ns != 0 && MonotonicNs() - run.ended_at_ns > kRunMemoryNs) {
      if (metrics_ != nullptr) metrics_->Forget(it->first);
      it = runs_.erase(it);  // a process of it that comes still takes it up from the store
    } else {
      ++it;
    }
  }
}

Status Collector::Leave() {
  if (auto drained = Drain(); !drained.ok()) return drained.error();
  for (auto& [path, session] : sessions_) {
    if (auto set = session.drain->SetRingMode(RingMode::kOverwriteOldest); !set.ok()) {
      Refuse(path, set.error().message);
    }
  }
  sessions_.clear();
  return {};
}

}  // namespace poolscope
