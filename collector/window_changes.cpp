// The part of WindowBuilder that changes windows which are closed: waits that are attributed when
// they end, and what devices did, which is told when it is over.

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <set>
#include <utility>

#include "collector/windows.h"

namespace poolscope {
namespace {

// How long messages and unattributed waits are remembered.
constexpr int64_t kMemoryNs = 120'000'000'000;
// For what a device did windows are closed for good this long after they ended, or once more
// activities or transfers than so many of its worker came since; of a worker for which no device
// has done anything yet, fewer.
constexpr int64_t kReopenNs = 20'000'000'000;
constexpr size_t kMaxKept = 8192, kMaxKeptOfOthers = 1024;

WorkerLinkWindowRow* FindRow(std::vector<WorkerLinkWindowRow>& rows, const std::string& pool,
                             int64_t index, const std::string& link) {
  for (WorkerLinkWindowRow& row : rows) {
    if (row.worker_index == index && row.pool == pool && row.link == link) return &row;
  }
  return nullptr;
}

// The begin of a range may move by some ns between two looks: the clock's timeline is refined.
constexpr int64_t kSameNs = 2000;

// Whether the activity is the wait that began so, of which [from_ns, until_ns) is a piece.
bool SameWait(const Activity& activity, int link, int64_t begin_ns, int64_t from_ns,
              int64_t until_ns) {
  return activity.category == Category::kWaitLink && activity.link == link &&
         (std::abs(activity.begin_ns - begin_ns) <= kSameNs ||
          (activity.operation && activity.begin_ns < until_ns && activity.end_ns > from_ns));
}

}  // namespace

void WindowBuilder::SettlePending(std::vector<WindowRows>& out) {
  std::set<int64_t> changed;
  std::erase_if(pending_, [&](const Pending& piece) {
    const Worker& worker = workers_[static_cast<size_t>(piece.worker)];
    const auto fresh = worker.activities.begin() + static_cast<int64_t>(worker.settled);
    const auto wait = std::find_if(fresh, worker.activities.end(), [&](const Activity& a) {
      return SameWait(a, piece.link, piece.wait_begin_ns, piece.begin_ns, piece.end_ns);
    });
    if (wait == worker.activities.end()) return piece.end_ns < closed_ns_ - kMemoryNs;
    const MessageLife* life = MessageOf(*wait);
    const auto window = recent_.find(piece.window_ns);
    if (life == nullptr || window == recent_.end()) return true;
    const RunModel::Worker& named = model_.workers()[static_cast<size_t>(piece.worker)];
    const std::string& link = model_.links()[static_cast<size_t>(piece.link)].name;
    if (auto* row = FindRow(window->second.worker_links, named.pool, named.index, link)) {
      row->unattributed_ns -= piece.end_ns - piece.begin_ns;
      life->Split(piece.begin_ns, piece.end_ns).AddTo(*row);
      changed.insert(piece.window_ns);
    }
    return true;
  });
  for (Worker& worker : workers_) worker.settled = worker.activities.size();
  for (const int64_t start : changed) {
    WindowRows& rows = recent_[start];
    FillShares(rows);
    GiveAgain(rows, out);
  }
}

int64_t WindowBuilder::LateBefore(int worker) const {
  int64_t kept_ns = std::max(begun_ns_, closed_ns_ - kReopenNs);
  if (static_cast<size_t>(worker) < workers_.size()) {
    const Worker& known = workers_[static_cast<size_t>(worker)];
    if (known.occupancy.known()) return closed_ns_;
    kept_ns = std::max(kept_ns, known.kept_from_ns);
  }
  return std::min(closed_ns_, (kept_ns + window_ns_ - 1) / window_ns_ * window_ns_);
}

void WindowBuilder::MarkLate(const Activity& activity) {
  const int64_t from_ns = std::max(activity.begin_ns, LateBefore(activity.worker));
  for (auto it = recent_.lower_bound(from_ns / window_ns_ * window_ns_);
       it != recent_.end() && it->first < activity.end_ns; ++it) {
    late_.insert({it->first, activity.worker});
  }
}

void WindowBuilder::CountLate(std::vector<WindowRows>& out) {
  for (const auto& [start_ns, worker] : std::exchange(late_, {})) {
    const auto found = recent_.find(start_ns);
    if (found == recent_.end()) continue;
    WindowRows& rows = found->second;
    const RunModel::Worker& named = model_.workers()[static_cast<size_t>(worker)];
    const auto of_worker = [&](const auto& row) {
      return row.pool == named.pool && row.worker_index == named.index;
    };
    // A row that was stored keeps its extent, and so its place.
    int64_t begin_ns = std::max(start_ns, workers_[static_cast<size_t>(worker)].first_ns);
    int64_t end_ns = start_ns + rows.window_ns;
    const auto row = std::find_if(rows.workers.begin(), rows.workers.end(), of_worker);
    if (row != rows.workers.end()) {
      begin_ns = row->start_ns;
      end_ns = begin_ns + row->window_ns;
    }
    std::vector<WorkerLinkWindowRow> stored;
    std::copy_if(rows.worker_links.begin(), rows.worker_links.end(), std::back_inserter(stored),
                 of_worker);
    std::erase_if(rows.workers, of_worker);
    std::erase_if(rows.worker_links, of_worker);
    const auto piece_of = [&, start = start_ns, id = worker](const Pending& piece) {
      return piece.window_ns == start && piece.worker == id;
    };
    std::erase_if(pending_, piece_of);
    CloseWorker(worker, begin_ns, end_ns, OpenOf(worker), rows);
    for (const WorkerLinkWindowRow& before : stored) {  // one that holds no more is stored as such
      if (FindRow(rows.worker_links, named.pool, named.index, before.link) != nullptr) continue;
      rows.worker_links.push_back({before.run_id, before.pool, before.worker_index, before.link,
                                   before.start_ns, before.window_ns});
    }
    FillPools(rows);
    FillShares(rows);
    GiveAgain(rows, out);
  }
}

void WindowBuilder::GiveAgain(const WindowRows& rows, std::vector<WindowRows>& out) {
  const auto same = std::find_if(out.begin(), out.end(), [&](const WindowRows& window) {
    return window.start_ns == rows.start_ns;
  });
  if (same != out.end()) {
    *same = rows;
  } else {
    out.push_back(rows);
  }
}

void WindowBuilder::Prune() {
  for (Worker& worker : workers_) {
    int64_t& kept_ns = worker.kept_from_ns;
    kept_ns = std::max(kept_ns, closed_ns_ - kReopenNs);
    DropBefore(worker, kept_ns);
    const size_t most = worker.has_device ? kMaxKept : kMaxKeptOfOthers;
    while (std::max(worker.activities.size(), worker.traffic.size()) > most &&
           kept_ns < closed_ns_) {
      const int64_t age_ns = closed_ns_ - kept_ns;
      kept_ns = age_ns < window_ns_ ? closed_ns_ : closed_ns_ - age_ns / 2;
      DropBefore(worker, kept_ns);
    }
  }
  messages_.Prune(closed_ns_ - kMemoryNs);
  int64_t needed_ns = closed_ns_ - kReopenNs - window_ns_;
  for (const Pending& piece : pending_) needed_ns = std::min(needed_ns, piece.window_ns);
  recent_.erase(recent_.begin(), recent_.lower_bound(needed_ns));
}

void WindowBuilder::DropBefore(Worker& worker, int64_t ns) {
  size_t kept = 0;
  size_t settled = 0;
  for (size_t i = 0; i < worker.activities.size(); ++i) {
    if (worker.activities[i].end_ns <= ns) continue;
    if (i < worker.settled) ++settled;
    worker.activities[kept] = worker.activities[i];
    worker.discarded[kept] = worker.discarded[i];
    ++kept;
  }
  worker.settled = settled;
  worker.activities.resize(kept);
  worker.discarded.resize(kept);
  std::erase_if(worker.traffic, [&](const TrafficSpan& span) { return span.end_ns <= ns; });
  std::erase_if(worker.unknown, [&](const StateInterval& span) { return span.end_ns <= ns; });
}

}  // namespace poolscope
