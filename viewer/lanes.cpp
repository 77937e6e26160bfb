#include "viewer/lanes.h"

#include <fmt/format.h>

#include <algorithm>
#include <compare>
#include <map>
#include <set>
#include <tuple>

namespace poolscope {
namespace {

constexpr size_t kMaxThreadLanes = 32;  // of a process; of more threads some share one
constexpr uint16_t kMaxRows = 12;       // deeper nesting is drawn in the last row

int RoleRank(const std::string& role) {
  if (role == "rollout") return 0;
  if (role == "compute") return 1;
  if (role == "trainer") return 2;
  if (role == "update") return 3;
  return 4;
}

class LaneMaker {
 public:
  explicit LaneMaker(const LaneSource& source) : source_(source) {
    for (const ThreadRow& thread : source_.threads) threads_[thread.thread_id] = &thread;
    for (const LaneSource::Track& track : source_.tracks) {
      if (IsRanges(track)) tracks_.emplace(track.row.thread_id, &track);
    }
    for (const LaneSource::Track& track : source_.tracks) {
      if (track.row.kind == static_cast<uint32_t>(EventKind::kCounter)) SortIn(track);
    }
  }

  std::vector<Lane> Make() {
    std::vector<PoolRow> pools = source_.pools;
    std::stable_sort(pools.begin(), pools.end(), [](const PoolRow& a, const PoolRow& b) {
      return RoleRank(a.role) < RoleRank(b.role);
    });
    std::set<std::string> drawn;
    for (const PoolRow& pool : pools) {
      AddPool(pool);
      for (const LinkRow& link : source_.links) {
        if (link.from_pool != pool.pool && link.to_pool != pool.pool) continue;
        if (drawn.insert(link.link).second) AddLink(link);
      }
    }
    for (const LinkRow& link : source_.links) {
      if (drawn.insert(link.link).second) AddLink(link);
    }
    AddOthers();
    AddCounters();
    return std::move(lanes_);
  }

 private:
  // A worker, or a process where it is none's ("" and the session).
  struct Owner {
    std::string pool;
    int64_t worker = -1;
    std::string session;
    auto operator<=>(const Owner&) const = default;
  };

  static bool IsRanges(const LaneSource::Track& track) {
    return track.row.kind == static_cast<uint32_t>(EventKind::kRange);
  }
  static Owner OwnerOf(const ThreadRow& thread) {
    return thread.pool.empty() ? Owner{"", -1, thread.session_id}
                               : Owner{thread.pool, thread.worker_index, ""};
  }
  static std::string NameOf(const ThreadRow& thread) {
    return thread.name.empty() ? fmt::format("thread {}", thread.tid) : thread.name;
  }

  // Beside its worker: short, for the gutter is narrow.
  static std::string LabelOf(const ThreadRow& thread) {
    if ((thread.tid & kMappedTid) != 0) return "    as mapped";  // below what was mapped
    const size_t rank = thread.name.rfind(" rank ");
    if (thread.tid < kFirstLaneThread || rank == std::string::npos || rank < 16)
      return NameOf(thread);
    // "NCCL world 0000000000000abc rank 0": of the hash its end.
    return thread.name.substr(0, rank - 16) + "\xe2\x80\xa6" + thread.name.substr(rank - 4);
  }

  // Puts a counter where it is drawn.
  void SortIn(const LaneSource::Track& track) {
    const auto found = threads_.find(track.row.thread_id);
    if (found == threads_.end()) return;
    const ThreadRow& thread = *found->second;
    if ((thread.tid & kMappedTid) != 0) return;  // drawn as the program's own
    for (const LinkRow& link : source_.links) {
      if (track.counter == link.link + ".depth") return;
    }
    const size_t dot = track.counter.find('.');
    if (track.counter.rfind("device ", 0) != 0 || dot == std::string::npos) {
      const std::string owner = thread.pool.empty()
                                    ? NameOf(thread)
                                    : fmt::format("{} {}", thread.pool, thread.worker_index);
      counters_[{track.counter, owner, thread.session_id}].push_back(track.row.track_id);
      return;
    }
    // Whoever sampled it: its worker is the one whose streams the device has.
    Owner owner = OwnerOf(thread);
    const std::string device = track.counter.substr(0, dot);
    for (const ThreadRow& stream : source_.threads) {
      if (stream.session_id != thread.session_id || stream.pool.empty()) continue;
      if (stream.tid < kFirstLaneThread || stream.name.rfind(device + " ", 0) != 0) continue;
      owner = OwnerOf(stream);
      break;
    }
    device_counters_[owner][track.counter].push_back(track.row.track_id);
  }

  void AddDeviceCounters(const Owner& owner) {
    const auto found = device_counters_.find(owner);
    if (found == device_counters_.end()) return;
    for (const auto& [name, tracks] : found->second) {
      const size_t dot = name.find('.');
      std::string label = name.substr(dot + 1);
      std::replace(label.begin(), label.end(), '_', ' ');
      Lane lane{LaneKind::kCounter, label, name.substr(0, dot), owner.pool, owner.worker, tracks};
      lane.counter = name;
      lanes_.push_back(std::move(lane));
    }
  }

  void AddCounters() {
    if (counters_.empty()) return;
    Lane title{LaneKind::kCounters, "counters", {}, "counters"};
    title.detail = fmt::format("{} that the program keeps", counters_.size());
    lanes_.push_back(std::move(title));
    for (const auto& [key, tracks] : counters_) {
      const auto& [name, owner, session] = key;
      Lane lane{LaneKind::kCounter, name, owner, "counters", -1, tracks};
      lane.counter = name;
      lanes_.push_back(std::move(lane));
    }
  }

  // "*": every link's wire is on this thread.
  static std::string WireLink(const std::string& thread_name) {
    if (thread_name.rfind("link/", 0) != 0) return {};
    const size_t slash = thread_name.rfind('/');
    return slash > 5 ? thread_name.substr(5, slash - 5) : thread_name.substr(5);
  }

  void AddRanges(const ThreadRow& thread, const std::string& label, const std::string& subject) {
    const auto [begin, end] = tracks_.equal_range(thread.thread_id);
    for (auto it = begin; it != end; ++it) {
      const LaneSource::Track& track = *it->second;
      Lane lane{LaneKind::kRanges, label, {}, subject, thread.worker_index, {track.row.track_id}};
      lane.detail = LabelOf(thread);
      lane.rows = std::min<uint16_t>(kMaxRows, static_cast<uint16_t>(track.max_depth + 1));
      lanes_.push_back(std::move(lane));
    }
  }

  // Of the worker's threads, and of the streams that they may have launched on.
  std::vector<int64_t> StateTracks(const std::string& pool, int64_t worker) const {
    const auto own = [&](const ThreadRow& thread) {
      return thread.pool == pool && thread.worker_index == worker;
    };
    std::set<std::string> sessions;
    for (const ThreadRow& thread : source_.threads) {
      if (own(thread)) sessions.insert(thread.session_id);
    }
    std::vector<int64_t> tracks;
    for (const ThreadRow& thread : source_.threads) {
      const bool stream = thread.tid >= kFirstLaneThread && (thread.tid & kMappedTid) == 0;
      if (!own(thread) && !(stream && sessions.count(thread.session_id) != 0)) continue;
      const auto [begin, end] = tracks_.equal_range(thread.thread_id);
      for (auto it = begin; it != end; ++it) tracks.push_back(it->second->row.track_id);
    }
    return tracks;
  }

  void AddPool(const PoolRow& pool) {
    Lane title{LaneKind::kPool, pool.pool, {}, pool.pool};
    title.detail =
        fmt::format("{} pool, {} worker{}", pool.role, pool.workers, pool.workers == 1 ? "" : "s");
    lanes_.push_back(std::move(title));
    std::set<int64_t> workers;
    for (const WorkerRow& worker : source_.workers) {
      if (worker.pool == pool.pool) workers.insert(worker.worker_index);
    }
    for (const ThreadRow& thread : source_.threads) {
      if (thread.pool == pool.pool && thread.worker_index >= 0) workers.insert(thread.worker_index);
    }
    for (const int64_t worker : workers) {
      Lane states{
          LaneKind::kStates, fmt::format("{} {}", pool.pool, worker), {}, pool.pool, worker};
      states.tracks = StateTracks(pool.pool, worker);
      lanes_.push_back(std::move(states));
      for (const ThreadRow* thread : ThreadsOf(pool.pool, worker))
        AddRanges(*thread, {}, pool.pool);
      AddDeviceCounters({pool.pool, worker, ""});
    }
  }

  // Of a worker: its threads, its devices' streams by number, communicators, the rest; what a
  // mapping made of each below it.
  std::vector<const ThreadRow*> ThreadsOf(const std::string& pool, int64_t worker) const {
    // Kind, name by length and text ("stream 9" before "stream 10"), origin, whether it is mapped.
    using Order = std::tuple<int, size_t, std::string, int64_t, bool>;
    std::map<std::pair<std::string, int64_t>, int64_t> ids;  // by session and the system's id
    std::vector<std::pair<Order, const ThreadRow*>> sorted;
    for (const ThreadRow& thread : source_.threads) {
      ids[{thread.session_id, thread.tid}] = thread.thread_id;
    }
    for (const ThreadRow& thread : source_.threads) {
      if (thread.pool != pool || thread.worker_index != worker) continue;
      const bool lane = thread.tid >= kFirstLaneThread;
      const auto is = [&](const char* prefix) { return thread.name.rfind(prefix, 0) == 0; };
      const int kind = !lane ? 0 : is("device") ? 1 : is("NCCL") ? 2 : 3;
      const std::string name = !lane ? "" : thread.name.substr(0, thread.name.find(" (as mapped)"));
      const auto origin = ids.find({thread.session_id, thread.tid & ~kMappedTid});
      sorted.push_back(
          {{kind, name.size(), name, origin == ids.end() ? thread.thread_id : origin->second,
            (thread.tid & kMappedTid) != 0},
           &thread});
    }
    std::sort(sorted.begin(), sorted.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<const ThreadRow*> threads;
    for (const auto& [order, thread] : sorted) threads.push_back(thread);
    return threads;
  }

  void AddLink(const LinkRow& link) {
    Lane title{LaneKind::kLink, link.link, {}, link.link};
    title.detail = fmt::format("{} \xe2\x86\x92 {}", link.from_pool, link.to_pool);
    lanes_.push_back(std::move(title));
    Lane wire{LaneKind::kWire, "wire", {}, link.link};
    std::vector<int64_t> both_ends;
    for (const LaneSource::Track& track : source_.tracks) {
      if (track.row.kind != static_cast<uint32_t>(EventKind::kRange)) continue;
      for (const ThreadRow& thread : source_.threads) {
        if (thread.thread_id != track.row.thread_id) continue;
        const std::string wires = WireLink(thread.name);
        if (wires == link.link || wires == "*") wire.tracks.push_back(track.row.track_id);
        if (!thread.pool.empty() &&
            (thread.pool == link.from_pool || thread.pool == link.to_pool)) {
          both_ends.push_back(track.row.track_id);
        }
      }
    }
    // Without threads of its own, the wire stages lie on the workers.
    if (wire.tracks.empty()) wire.tracks = both_ends;
    wire.rows = static_cast<uint16_t>(std::clamp<int64_t>(link.lanes, 1, kMaxRows));
    Lane lag{LaneKind::kLag, "version lag", "updates", link.link, -1, both_ends};
    Lane depth{LaneKind::kDepth, "depth", {}, link.link};
    if (link.capacity > 0) depth.detail = fmt::format("of {} messages", link.capacity);
    for (const LaneSource::Track& track : source_.tracks) {
      if (track.counter == link.link + ".depth") depth.tracks.push_back(track.row.track_id);
    }
    Lane bandwidth{LaneKind::kBandwidth, "bandwidth", "bytes/s", link.link, -1, wire.tracks};
    lanes_.push_back(std::move(wire));
    if (!depth.tracks.empty() || link.capacity > 0) lanes_.push_back(std::move(depth));
    lanes_.push_back(std::move(bandwidth));
    // Work is applied, and so lags, where the updates are made.
    for (const PoolRow& pool : source_.pools) {
      if (pool.pool == link.to_pool && (pool.role == "update" || pool.role == "trainer")) {
        lanes_.push_back(lag);
      }
    }
  }

  void AddOthers() {
    std::map<std::string, std::vector<const ThreadRow*>> by_process;
    std::vector<std::string> sessions;  // in the order of their first threads
    for (const ThreadRow& thread : source_.threads) {
      if (!thread.pool.empty() || tracks_.count(thread.thread_id) == 0) continue;
      const std::string link = WireLink(thread.name);
      const bool known =
          std::any_of(source_.links.begin(), source_.links.end(),
                      [&](const LinkRow& row) { return row.link == link || link == "*"; });
      if (known) continue;
      std::vector<const ThreadRow*>& threads = by_process[thread.session_id];
      if (threads.empty()) sessions.push_back(thread.session_id);
      threads.push_back(&thread);
    }
    for (const std::string& session : sessions) {
      const std::vector<const ThreadRow*>& threads = by_process[session];
      Lane title{
          LaneKind::kOther, source_.pools.empty() ? "threads" : "other threads", {}, session};
      title.detail = source_.pools.empty() ? "no pools in this run" : "in no pool";
      for (const ProcessRow& process : source_.processes) {
        if (process.session_id != session || sessions.size() == 1) continue;
        title.label = fmt::format("process {}", process.pid);
        title.detail = fmt::format("{} thread{} in no pool, {}", threads.size(),
                                   threads.size() == 1 ? "" : "s", process.command);
      }
      lanes_.push_back(std::move(title));
      AddThreads(threads);
      AddDeviceCounters({"", -1, session});
    }
  }

  // Of one process, each by its name, with its number where others have the name too.
  void AddThreads(const std::vector<const ThreadRow*>& threads) {
    std::map<std::string, int> names;
    for (const ThreadRow* thread : threads) ++names[thread->name];
    const size_t first = lanes_.size();
    for (const ThreadRow* thread : threads) {
      const bool clear = thread->name.empty() || names[thread->name] == 1;
      AddRanges(*thread, clear ? NameOf(*thread) : fmt::format("{} {}", thread->name, thread->tid),
                "");
    }
    if (source_.ended && threads.size() > kMaxThreadLanes) ShareLanes(first);
  }

  // Lets lanes from `first` on that show times which do not overlap be one.
  void ShareLanes(size_t first) {
    std::map<int64_t, std::pair<int64_t, int64_t>> times;  // by track
    for (const LaneSource::Track& track : source_.tracks) {
      times[track.row.track_id] = {track.first_ns, track.last_ns};
    }
    std::vector<Lane> apart(lanes_.begin() + static_cast<std::ptrdiff_t>(first), lanes_.end());
    lanes_.resize(first);
    std::stable_sort(apart.begin(), apart.end(), [&](const Lane& a, const Lane& b) {
      return times[a.tracks[0]].first < times[b.tracks[0]].first;
    });
    std::multimap<int64_t, size_t> free_at;  // lanes by when they are free
    for (Lane& lane : apart) {
      const auto [begin_ns, end_ns] = times[lane.tracks[0]];
      auto free = free_at.lower_bound(begin_ns);  // the one that was free last, before
      if (free == free_at.begin()) {
        free_at.emplace(end_ns, lanes_.size());
        lanes_.push_back(std::move(lane));
        continue;
      }
      --free;
      Lane& shared = lanes_[free->second];
      shared.tracks.push_back(lane.tracks[0]);
      shared.rows = std::max(shared.rows, lane.rows);
      shared.label = fmt::format("{} threads in turn", shared.tracks.size());
      free_at.emplace(end_ns, free->second);
      free_at.erase(free);
    }
  }

  const LaneSource& source_;
  std::map<int64_t, const ThreadRow*> threads_;              // by id
  std::multimap<int64_t, const LaneSource::Track*> tracks_;  // of ranges, by thread
  std::map<Owner, std::map<std::string, std::vector<int64_t>>> device_counters_;
  // By name, whose it is, and session.
  std::map<std::tuple<std::string, std::string, std::string>, std::vector<int64_t>> counters_;
  std::vector<Lane> lanes_;
};

}  // namespace

std::vector<Lane> MakeLanes(const LaneSource& source) { return LaneMaker(source).Make(); }

}  // namespace poolscope
