#include "collector/windows.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>

namespace poolscope {
namespace {

constexpr size_t kMaxPending = 100'000;

// Length of the union of spans within [begin, end).
int64_t UnionNs(std::vector<std::pair<int64_t, int64_t>>& spans, int64_t begin, int64_t end) {
  std::sort(spans.begin(), spans.end());
  int64_t covered = 0;
  int64_t upto = begin;
  for (const auto& [from, to] : spans) {
    const int64_t a = std::max(from, upto);
    const int64_t b = std::min(to, end);
    if (b <= a) continue;
    covered += b - a;
    upto = b;
  }
  return covered;
}

}  // namespace

double WindowBuilder::Worker::DiscardedShare(int64_t from_ns, int64_t until_ns) const {
  int64_t all_ns = 0, discarded_ns = 0;
  for (size_t i = 0; i < activities.size(); ++i) {
    const int64_t ns =
        std::min(activities[i].end_ns, until_ns) - std::max(activities[i].begin_ns, from_ns);
    if (activities[i].category != Category::kWork || ns <= 0) continue;
    all_ns += ns;
    if (discarded[i]) discarded_ns += ns;
  }
  return all_ns == 0 ? 0 : static_cast<double>(discarded_ns) / static_cast<double>(all_ns);
}

WindowBuilder::Worker& WindowBuilder::At(int worker) {
  if (static_cast<size_t>(worker) >= workers_.size()) {
    workers_.resize(static_cast<size_t>(worker) + 1);
  }
  return workers_[static_cast<size_t>(worker)];
}

int64_t WindowBuilder::BucketOf(int64_t ns) const {
  return std::max(ns / window_ns_ * window_ns_, closed_ns_ / window_ns_ * window_ns_);
}

void WindowBuilder::Add(const Activity& activity) {
  first_ns_ = std::min(first_ns_, activity.begin_ns);
  if (activity.category == Category::kStep) {
    if (activity.version != kNoValue) {
      versions_.emplace_back(activity.begin_ns, static_cast<int64_t>(activity.version));
    }
    return;
  }
  if (activity.category == Category::kDiscard) {
    if (activity.link < 0) return;
    ++link_sums_[BucketOf(activity.begin_ns)][activity.link].discarded;
    const RunModel::Link& link = model_.links()[static_cast<size_t>(activity.link)];
    const int sender = model_.FindWorker(link.from_pool, static_cast<int64_t>(activity.source));
    if (sender < 0 || activity.micro_batch == kNoValue) return;
    Worker& worker = At(sender);
    for (size_t i = 0; i < worker.activities.size(); ++i) {
      const Activity& work = worker.activities[i];
      if (work.category == Category::kWork && work.step == activity.step &&
          work.micro_batch == activity.micro_batch && work.end_ns <= activity.begin_ns &&
          (work.version == activity.version || work.version == kNoValue ||
           activity.version == kNoValue)) {
        worker.discarded[i] = true;
      }
    }
    return;
  }
  if (activity.category == Category::kFault) {
    if (activity.link < 0) return;
    LinkSums& sums = link_sums_[BucketOf(activity.begin_ns)][activity.link];
    ++sums.faults[static_cast<size_t>(activity.fault)];
    if (activity.fault == FaultKind::kRetry) {
      sums.wire_bytes += static_cast<int64_t>(activity.wire_bytes);
    }
    return;
  }
  if (activity.category == Category::kTransfer && activity.link >= 0) {
    const Messages::Grown grown = messages_.Add(activity);
    const Stage stage = LifeStage(activity.stage);
    LinkSums& sums = link_sums_[BucketOf(activity.end_ns)][activity.link];
    sums.stage_ns[static_cast<size_t>(stage)] += grown.by_ns;
    if (stage == Stage::kWire) {
      if (activity.stage != Stage::kReceive) {
        ++sums.transfers;
        sums.raw_bytes += static_cast<int64_t>(activity.raw_bytes);
        sums.wire_bytes += static_cast<int64_t>(activity.wire_bytes);
      }
      const RunModel::Link& link = model_.links()[static_cast<size_t>(activity.link)];
      const int sender = model_.FindWorker(link.from_pool, static_cast<int64_t>(activity.source));
      if (sender >= 0) {
        At(sender).traffic.push_back({activity.link, grown.span.begin_ns, grown.span.end_ns});
      }
    } else if (activity.stage == Stage::kApply && activity.version != kNoValue &&
               activity.applied_version != kNoValue) {
      VersionSums& versions = version_sums_[BucketOf(activity.end_ns)];
      const int64_t lag = static_cast<int64_t>(activity.applied_version - activity.version);
      ++versions.applied;
      versions.lag_sum += std::max<int64_t>(lag, 0);
      versions.lag_max = std::max(versions.lag_max, lag);
    } else if ((activity.stage == Stage::kEncode || activity.stage == Stage::kDecode) &&
               activity.on_thread && activity.worker >= 0) {
      At(activity.worker).traffic.push_back({activity.link, activity.begin_ns, activity.end_ns});
    }
  }
  if (!activity.on_thread || activity.worker < 0) return;
  Worker& worker = At(activity.worker);
  worker.first_ns = std::min(worker.first_ns, activity.begin_ns);
  if (activity.end_ns > worker.end_ns) worker.end_ns = INT64_MAX;
  worker.activities.push_back(activity);
  worker.discarded.push_back(false);
  worker.has_device |= activity.on_device;
  if (activity.on_device && activity.begin_ns < closed_ns_) MarkLate(activity);
}

void WindowBuilder::Add(const DepthSample& sample, const std::string& source) {
  first_ns_ = std::min(first_ns_, sample.at_ns);
  if (sample.link >= 0) depths_[sample.link].Add(sample, source);
}

void WindowBuilder::EndSource(const std::string& source, int64_t ns) {
  for (auto& [link, depth] : depths_) depth.EndSource(source, ns);
}

void WindowBuilder::Add(const OccupancySample& sample) {
  At(sample.worker).occupancy.Add(sample.at_ns, sample.share);
}

void WindowBuilder::AddStored(const Activity& activity) {
  if (activity.end_ns >= closed_ns_) return Add(activity);
  first_ns_ = std::min(first_ns_, activity.begin_ns);
  if (activity.category == Category::kTransfer) messages_.Add(activity);
  if (activity.category == Category::kStep && activity.version != kNoValue) {
    newest_version_ = std::max(newest_version_, static_cast<int64_t>(activity.version));
  }
  if (!activity.on_thread || activity.worker < 0) return;
  Worker& worker = At(activity.worker);
  worker.first_ns = std::min(worker.first_ns, activity.begin_ns);
}

void WindowBuilder::AddUnknown(std::span<const int> workers, int64_t begin_ns, int64_t end_ns) {
  for (const int worker : workers) {
    At(worker).unknown.push_back({begin_ns, end_ns, State::kUnknown});
  }
}

void WindowBuilder::SetOpen(const std::string& source, std::vector<Activity> open) {
  for (const Activity& activity : open) {
    first_ns_ = std::min(first_ns_, activity.begin_ns);
    if (!activity.on_thread || activity.worker < 0) continue;
    Worker& worker = At(activity.worker);
    worker.first_ns = std::min(worker.first_ns, activity.begin_ns);
  }
  if (open.empty()) {
    open_.erase(source);
  } else {
    open_[source] = std::move(open);
  }
}

void WindowBuilder::EndWorker(int worker, int64_t ns) {
  At(worker).end_ns = std::min(At(worker).end_ns, ns);
}

std::vector<WindowRows> WindowBuilder::Close(int64_t until_ns, bool last) {
  std::vector<WindowRows> out;
  if (first_ns_ == INT64_MAX) return out;
  const int64_t closed_before_ns = closed_ns_;
  while (true) {
    // The first window begins with the run: what was before it is no idle time.
    const int64_t begin = closed_ns_ == 0 ? first_ns_ : closed_ns_;
    int64_t end = begin / window_ns_ * window_ns_ + window_ns_;
    if (end > until_ns) {
      if (!last || until_ns <= begin) break;
      end = until_ns;
    }
    CloseOne(begin, end, out);
    closed_ns_ = end;
  }
  CountLate(out);
  SettlePending(out);
  if (closed_ns_ != closed_before_ns) Prune();
  return out;
}

void WindowBuilder::CloseOne(int64_t begin, int64_t end, std::vector<WindowRows>& out) {
  WindowRows rows;
  rows.start_ns = begin;
  rows.window_ns = end - begin;
  for (int id = 0; id < static_cast<int>(workers_.size()); ++id) {
    const Worker& worker = workers_[static_cast<size_t>(id)];
    if (worker.first_ns >= end || worker.end_ns <= begin) continue;
    const int64_t from = begin > first_ns_ ? std::max(begin, worker.first_ns) : begin;
    CloseWorker(id, from, std::min(end, worker.end_ns), OpenOf(id), rows);
  }
  FillPools(rows);
  CloseLinks(begin, end, rows);
  FillShares(rows);

  const int64_t bucket = begin / window_ns_ * window_ns_;
  const auto newer = [&](const auto& entry) { return entry.first < end; };
  for (const auto& entry : versions_) {
    if (newer(entry)) newest_version_ = std::max(newest_version_, entry.second);
  }
  std::erase_if(versions_, newer);
  const auto sums = version_sums_.find(bucket);
  if (newest_version_ >= 0 || sums != version_sums_.end()) {
    VersionWindowRow row{model_.run_id(), begin, end - begin,
                         std::max<int64_t>(newest_version_, 0)};
    if (sums != version_sums_.end()) {
      row.applied = sums->second.applied;
      row.lag_sum = sums->second.lag_sum;
      row.lag_max = sums->second.lag_max;
      version_sums_.erase(sums);
    }
    rows.version = row;
  }
  if (rows.workers.empty() && rows.links.empty() && !rows.version.has_value()) return;
  recent_[begin] = rows;
  out.push_back(std::move(rows));
}

std::vector<Activity> WindowBuilder::OpenOf(int worker) const {
  std::vector<Activity> of_worker;
  for (const auto& [source, activities] : open_) {
    for (const Activity& activity : activities) {
      if (activity.on_thread && activity.worker == worker) of_worker.push_back(activity);
    }
  }
  return of_worker;
}

void WindowBuilder::FillPools(WindowRows& rows) const {
  rows.pools.clear();
  for (const auto& [name, pool] : model_.pools()) {
    PoolWindowRow row{model_.run_id(), name, rows.start_ns, rows.window_ns};
    double busy = 0;
    double wall = 0;
    for (const WorkerWindowRow& worker : rows.workers) {
      if (worker.pool != name) continue;
      ++row.workers;
      wall += static_cast<double>(worker.window_ns);
      busy += static_cast<double>(worker.state_ns[static_cast<size_t>(State::kBusy)] +
                                  worker.state_ns[static_cast<size_t>(State::kBusyDiscarded)]);
    }
    if (row.workers == 0) continue;
    row.busy_ratio = busy / wall;
    rows.pools.push_back(row);
  }
}

void WindowBuilder::CloseWorker(int id, int64_t begin, int64_t end,
                                const std::vector<Activity>& open, WindowRows& rows) {
  Worker& worker = workers_[static_cast<size_t>(id)];
  const RunModel::Worker& named = model_.workers()[static_cast<size_t>(id)];
  std::vector<StateInterval> intervals = worker.unknown;
  for (StateInterval& interval : intervals) interval.tag = StatePiece::kNoTag;
  const auto add = [&](const Activity& activity, bool discarded, bool is_open, size_t tag) {
    if (activity.begin_ns >= end || activity.end_ns <= begin) return;
    StateInterval interval = StateOf(activity, discarded, is_open);
    interval.tag = tag;
    intervals.push_back(interval);
  };
  for (size_t i = 0; i < worker.activities.size(); ++i) {
    add(worker.activities[i], worker.discarded[i], false, i);
  }
  for (size_t i = 0; i < open.size(); ++i) {
    Activity activity = open[i];
    activity.end_ns = std::max(activity.end_ns, end);  // open means open up to now
    add(activity, false, true, worker.activities.size() + i);
  }
  WorkerWindowRow row{model_.run_id(), named.pool, named.index, begin, end - begin};
  std::map<int, WorkerLinkWindowRow> links;
  const auto link_row = [&](int link) -> WorkerLinkWindowRow& {
    const auto [found, fresh] = links.try_emplace(link);
    if (fresh) {
      found->second = {model_.run_id(), named.pool,
                       named.index,     model_.links()[static_cast<size_t>(link)].name,
                       begin,           end - begin};
    }
    return found->second;
  };
  for (const StatePiece& piece : SplitStates(intervals, begin, end)) {
    int64_t duration_ns = piece.duration_ns();
    if (piece.state == State::kBusy || piece.state == State::kBusyDiscarded) {
      duration_ns = worker.occupancy.OccupiedNs(piece.begin_ns, piece.end_ns);
      row.state_ns[static_cast<size_t>(State::kIdle)] += piece.duration_ns() - duration_ns;
      if (worker.occupancy.known()) {
        const double share = worker.DiscardedShare(piece.begin_ns, piece.end_ns);
        const auto discarded_ns = std::llround(share * static_cast<double>(duration_ns));
        row.state_ns[static_cast<size_t>(State::kBusyDiscarded)] += discarded_ns;
        row.state_ns[static_cast<size_t>(State::kBusy)] += duration_ns - discarded_ns;
        continue;
      }
    }
    row.state_ns[static_cast<size_t>(piece.state)] += duration_ns;
    if (piece.link < 0) continue;
    if (piece.state == State::kBlockedLink) link_row(piece.link).blocked_ns += piece.duration_ns();
    if (piece.state != State::kWaitLink) continue;
    WorkerLinkWindowRow& on_link = link_row(piece.link);
    on_link.wait_ns += piece.duration_ns();
    const bool is_open = piece.tag >= worker.activities.size();
    const Activity& wait =
        is_open ? open[piece.tag - worker.activities.size()] : worker.activities[piece.tag];
    if (wait.category == Category::kTransfer) {  // its own decoding, or copying
      (wait.on_device ? on_link.wire_ns : on_link.decode_ns) += piece.duration_ns();
      continue;
    }
    const MessageLife* life = is_open ? nullptr : MessageOf(wait);
    if (life != nullptr) {
      life->Split(piece.begin_ns, piece.end_ns).AddTo(on_link);
      continue;
    }
    on_link.unattributed_ns += piece.duration_ns();
    if (is_open && pending_.size() < kMaxPending) {
      pending_.push_back(
          {rows.start_ns, id, piece.link, wait.begin_ns, piece.begin_ns, piece.end_ns});
    }
  }
  std::map<int, std::vector<std::pair<int64_t, int64_t>>> traffic;
  for (const TrafficSpan& span : worker.traffic) {
    if (span.begin_ns < end && span.end_ns > begin) {
      traffic[span.link].emplace_back(span.begin_ns, span.end_ns);
    }
  }
  for (const auto& [source, activities] : open_) {  // on the wire now
    for (const Activity& activity : activities) {
      if (activity.category != Category::kTransfer || LifeStage(activity.stage) != Stage::kWire ||
          activity.link < 0 || activity.source == kNoValue || activity.begin_ns >= end) {
        continue;
      }
      const auto& link = model_.links()[static_cast<size_t>(activity.link)];
      if (link.from_pool == named.pool && static_cast<int64_t>(activity.source) == named.index) {
        traffic[activity.link].emplace_back(activity.begin_ns, end);
      }
    }
  }
  worker.occupancy.Forget(end);
  for (auto& [link, spans] : traffic) {
    link_row(link).traffic_ns = UnionNs(spans, begin, end);
  }
  rows.workers.push_back(row);
  for (auto& [link, on_link] : links) rows.worker_links.push_back(std::move(on_link));
}

void WindowBuilder::CloseLinks(int64_t begin, int64_t end, WindowRows& rows) {
  const int64_t bucket = begin / window_ns_ * window_ns_;
  const auto sums = link_sums_.find(bucket);
  for (int id = 0; id < static_cast<int>(model_.links().size()); ++id) {
    const RunModel::Link& link = model_.links()[static_cast<size_t>(id)];
    LinkWindowRow row{model_.run_id(), link.name, begin, end - begin};
    row.capacity = link.capacity;
    if (sums != link_sums_.end()) {
      const LinkSums& sum = sums->second[id];
      row.transfers = sum.transfers;
      row.raw_bytes = sum.raw_bytes;
      row.wire_bytes = sum.wire_bytes;
      row.discarded = sum.discarded;
      row.stage_ns = sum.stage_ns;
      row.faults = sum.faults;
    }
    const LinkDepth::Window depth = depths_[id].Close(begin, end);
    row.depth_mean = depth.mean;
    row.depth_max = depth.max;
    rows.links.push_back(row);
  }
  if (sums != link_sums_.end()) link_sums_.erase(sums);
}

void WindowBuilder::FillShares(WindowRows& rows) const {
  for (LinkWindowRow& row : rows.links) {
    const auto known = std::find_if(model_.links().begin(), model_.links().end(),
                                    [&](const auto& link) { return link.name == row.link; });
    double senders = 0;  // wall time of theirs
    double ends = 0;
    for (const WorkerWindowRow& worker : rows.workers) {
      const bool sends = worker.pool == known->from_pool;
      if (sends) senders += static_cast<double>(worker.window_ns);
      if (sends || worker.pool == known->to_pool) ends += static_cast<double>(worker.window_ns);
    }
    double traffic = 0;
    double exposed = 0;
    for (const WorkerLinkWindowRow& worker : rows.worker_links) {
      if (worker.link != row.link) continue;
      if (worker.pool == known->from_pool) traffic += static_cast<double>(worker.traffic_ns);
      exposed += static_cast<double>(worker.queued_ns + worker.encode_ns + worker.wire_ns +
                                     worker.decode_ns);
    }
    row.traffic_share = senders > 0 ? traffic / senders : 0;
    row.exposed_share = ends > 0 ? exposed / ends : 0;
  }
}

const MessageLife* WindowBuilder::MessageOf(const Activity& wait) const {
  if (!wait.mapped || wait.sequence != kNoValue || wait.worker < 0) {
    return messages_.Find(wait.link, wait.source, wait.sequence);
  }
  const auto index = model_.workers()[static_cast<size_t>(wait.worker)].index;
  return messages_.Arrived(wait.link, static_cast<uint64_t>(index), wait.begin_ns, wait.end_ns);
}

}  // namespace poolscope
