#include "advisor/window_totals.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

namespace poolscope {
namespace {

size_t At(State state) { return static_cast<size_t>(state); }

// Keeps, of each pool or link, the rows wholly inside the span, if it has any: in a run of a second
// or two one pool's last window may end before the span's end and another's just after it.
template <typename Row>
void KeepInside(std::vector<Row>& rows, const AnalysedSpan& span, std::string Row::*name) {
  const auto inside = [&span](const Row& row) {
    return row.start_ns >= span.begin_ns && row.start_ns + row.window_ns <= span.end_ns;
  };
  std::set<std::string> seen;
  for (const Row& row : rows) {
    if (inside(row)) seen.insert(row.*name);
  }
  std::erase_if(rows, [&](const Row& row) { return !inside(row) && seen.contains(row.*name); });
}

template <typename Totals, typename Row>
void Extend(Totals& totals, const Row& row) {
  const int64_t end = row.start_ns + row.window_ns;
  if (totals.begin_ns == totals.end_ns) {
    totals.begin_ns = row.start_ns;
    totals.end_ns = end;
  }
  totals.begin_ns = std::min(totals.begin_ns, row.start_ns);
  totals.end_ns = std::max(totals.end_ns, end);
}

void SumPools(const std::vector<WorkerWindowRow>& rows, WindowTotals& totals) {
  for (PoolTotals& pool : totals.pools) {
    StateNs sum{};
    int64_t wall = 0;
    for (const WorkerWindowRow& row : rows) {
      if (row.pool != pool.pool) continue;
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += row.state_ns[i];
      wall += row.window_ns;
      Extend(pool, row);
      totals.window_ns = row.window_ns;
    }
    if (wall <= 0) continue;
    for (size_t i = 0; i < sum.size(); ++i) {
      pool.state_ratios[i] = static_cast<double>(sum[i]) / static_cast<double>(wall);
    }
    pool.busy_ratio =
        pool.state_ratios[At(State::kBusy)] + pool.state_ratios[At(State::kBusyDiscarded)];
  }
}

void SumLinks(const std::vector<LinkWindowRow>& rows, WindowTotals& totals) {
  for (LinkTotals& link : totals.links) {
    double wall = 0;
    std::array<int64_t, 5> stage_ns{};
    for (const LinkWindowRow& row : rows) {
      if (row.link != link.link) continue;
      const double weight = static_cast<double>(row.window_ns);
      wall += weight;
      link.transfers += row.transfers;
      link.raw_bytes += row.raw_bytes;
      link.wire_bytes += row.wire_bytes;
      link.discarded += row.discarded;
      link.capacity = std::max(link.capacity, row.capacity);
      link.depth_max = std::max(link.depth_max, row.depth_max);
      link.traffic_share += weight * row.traffic_share;
      link.exposed_share += weight * row.exposed_share;
      link.depth_mean += weight * row.depth_mean;
      for (size_t i = 0; i < stage_ns.size(); ++i) stage_ns[i] += row.stage_ns[i];
      Extend(link, row);
    }
    if (wall > 0) {
      link.traffic_share /= wall;
      link.exposed_share /= wall;
      link.depth_mean /= wall;
    }
    for (size_t i = 0; i < stage_ns.size() && link.transfers > 0; ++i) {
      link.stage_seconds[i] =
          static_cast<double>(stage_ns[i]) * 1e-9 / static_cast<double>(link.transfers);
    }
  }
}

void SumWorkerLinks(const RunData& run, const std::vector<WorkerLinkWindowRow>& rows,
                    WindowTotals& totals) {
  for (size_t i = 0; i < totals.links.size(); ++i) {
    LinkTotals& link = totals.links[i];
    const auto worker_ns = [&](const std::string& name) {
      const PoolRow* pool = run.Pool(name);
      const double workers = pool == nullptr ? 1 : std::max<double>(1, double(pool->workers));
      return workers * static_cast<double>(link.end_ns - link.begin_ns);
    };
    const double sender_ns = worker_ns(run.links[i].from_pool);
    const double receiver_ns = worker_ns(run.links[i].to_pool);
    if (sender_ns <= 0 || receiver_ns <= 0) continue;
    for (const WorkerLinkWindowRow& row : rows) {
      if (row.link != link.link) continue;
      if (row.pool == run.links[i].from_pool) {
        link.blocked_share += static_cast<double>(row.blocked_ns) / sender_ns;
      }
      if (row.pool != run.links[i].to_pool) continue;  // a collective makes both ends wait
      link.wait_share += static_cast<double>(row.wait_ns) / receiver_ns;
      link.upstream_busy_share += static_cast<double>(row.upstream_busy_ns) / receiver_ns;
      link.unattributed_share += static_cast<double>(row.unattributed_ns) / receiver_ns;
    }
  }
}

// Of a pool's other work, the share of each name is that in the chunks that touch the span.
Status SumStalls(const Store& store, const RunData& run, Store::Span span, WindowTotals& totals) {
  const auto tracks = store.Tracks(run.run.run_id);
  if (!tracks) return tracks.error();
  for (PoolTotals& pool : totals.pools) {
    const double other_work = pool.state_ratios[At(State::kOtherWork)];
    if (other_work <= 0) continue;
    std::map<uint32_t, int64_t> ns;  // by name
    for (const TrackRow& track : *tracks) {
      const bool own = std::any_of(run.threads.begin(), run.threads.end(), [&](const auto& each) {
        return each.thread_id == track.thread_id && each.pool == pool.pool;
      });
      if (!own || track.kind != static_cast<uint32_t>(EventKind::kRange)) continue;
      const auto names = store.ChunkNames(track.track_id, span);
      if (!names) return names.error();
      for (const Store::NameTotal& each : *names) {
        if (each.category == static_cast<uint32_t>(Category::kOtherWork)) {
          ns[each.name] += each.total_ns;
        }
      }
    }
    int64_t all = 0, stalls = 0, most = 0;
    for (const auto& [id, total] : ns) {
      const auto name = store.String(id);
      if (!name) return name.error();
      all += total;
      if (name->rfind("checkpoint", 0) != 0 && name->rfind("evaluation", 0) != 0) continue;
      stalls += total;
      if (total > most) pool.stall = *name;
      most = std::max(most, total);
    }
    if (all > 0) pool.stall_ratio = other_work * static_cast<double>(stalls) / double(all);
  }
  return {};
}

}  // namespace

const PoolTotals* WindowTotals::Pool(const std::string& name) const {
  for (const PoolTotals& pool : pools) {
    if (pool.pool == name) return &pool;
  }
  return nullptr;
}

const LinkTotals* WindowTotals::Link(const std::string& name) const {
  for (const LinkTotals& link : links) {
    if (link.link == name) return &link;
  }
  return nullptr;
}

Result<WindowTotals> SumWindows(const Store& store, const RunData& run, const AnalysedSpan& span) {
  WindowTotals totals;
  for (const PoolRow& pool : run.pools) totals.pools.push_back({.pool = pool.pool});
  for (const LinkRow& link : run.links) totals.links.push_back({.link = link.link});
  const std::string& id = run.run.run_id;
  const Store::Span range{span.begin_ns, span.end_ns};
  auto workers = store.WorkerWindows(id, range);
  if (!workers) return workers.error();
  auto links = store.LinkWindows(id, range);
  if (!links) return links.error();
  auto worker_links = store.WorkerLinkWindows(id, range);
  if (!worker_links) return worker_links.error();
  auto versions = store.VersionWindows(id, range);
  if (!versions) return versions.error();
  KeepInside(*workers, span, &WorkerWindowRow::pool);
  KeepInside(*links, span, &LinkWindowRow::link);
  SumPools(*workers, totals);
  if (auto summed = SumStalls(store, run, range, totals); !summed.ok()) return summed.error();
  SumLinks(*links, totals);
  // Rows exist only where something happened: the span of the link's own windows decides.
  std::erase_if(*worker_links, [&](const WorkerLinkWindowRow& row) {
    const LinkTotals* link = totals.Link(row.link);
    return link == nullptr || row.start_ns < link->begin_ns ||
           row.start_ns + row.window_ns > link->end_ns;
  });
  SumWorkerLinks(run, *worker_links, totals);
  int64_t applied = 0;
  int64_t lag_sum = 0;
  for (const VersionWindowRow& row : *versions) {
    applied += row.applied;
    lag_sum += row.lag_sum;
    totals.lag_max = std::max(totals.lag_max, row.lag_max);
  }
  if (applied > 0) totals.lag_mean = static_cast<double>(lag_sum) / static_cast<double>(applied);
  return totals;
}

}  // namespace poolscope
