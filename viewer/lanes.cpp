#include "viewer/lanes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace poolscope {
namespace {

constexpr uint16_t kMaxRows = 12;  // deeper nesting is drawn in the last row

int RoleRank(const std::string& role) {
  if (role == "rollout") return 0;
  if (role == "compute") return 1;
  if (role == "trainer") return 2;
  if (role == "update") return 3;
  return 4;
}

class LaneMaker {
 public:
  explicit LaneMaker(const LaneSource& source) : source_(source) {}

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
    return std::move(lanes_);
  }

 private:
  // "*": every link's wire is on this thread.
  static std::string WireLink(const std::string& thread_name) {
    if (thread_name.rfind("link/", 0) != 0) return {};
    const size_t slash = thread_name.rfind('/');
    return slash > 5 ? thread_name.substr(5, slash - 5) : thread_name.substr(5);
  }

  void AddRanges(const ThreadRow& thread, const std::string& label, const std::string& subject) {
    for (const LaneSource::Track& track : source_.tracks) {
      if (track.row.thread_id != thread.thread_id) continue;
      if (track.row.kind != static_cast<uint32_t>(EventKind::kRange)) continue;
      Lane lane{LaneKind::kRanges, label, {}, subject, thread.worker_index, {track.row.track_id}};
      lane.detail = thread.name.empty() ? fmt::format("thread {}", thread.tid) : thread.name;
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
      for (const LaneSource::Track& track : source_.tracks) {
        if (track.row.thread_id == thread.thread_id &&
            track.row.kind == static_cast<uint32_t>(EventKind::kRange)) {
          tracks.push_back(track.row.track_id);
        }
      }
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
      for (const ThreadRow& thread : source_.threads) {
        if (thread.pool == pool.pool && thread.worker_index == worker) {
          AddRanges(thread, {}, pool.pool);
        }
      }
    }
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
    const size_t title = lanes_.size();
    for (const ThreadRow& thread : source_.threads) {
      if (!thread.pool.empty()) continue;
      const std::string link = WireLink(thread.name);
      const bool known =
          std::any_of(source_.links.begin(), source_.links.end(),
                      [&](const LinkRow& row) { return row.link == link || link == "*"; });
      if (!known) {
        AddRanges(thread, thread.name.empty() ? fmt::format("thread {}", thread.tid) : thread.name,
                  "");
      }
    }
    if (lanes_.size() == title) return;
    Lane other{LaneKind::kOther, source_.pools.empty() ? "threads" : "other threads", {}, ""};
    other.detail = source_.pools.empty() ? "no pools in this run" : "in no pool";
    lanes_.insert(lanes_.begin() + static_cast<std::ptrdiff_t>(title), std::move(other));
  }

  const LaneSource& source_;
  std::vector<Lane> lanes_;
};

float HeightOf(const Lane& lane, const LaneStyle& style) {
  switch (lane.kind) {
    case LaneKind::kPool:
    case LaneKind::kLink:
    case LaneKind::kOther:
      return style.title;
    case LaneKind::kStates:
      return style.states;
    case LaneKind::kRanges:
    case LaneKind::kWire:
      return style.row * static_cast<float>(std::max<uint16_t>(1, lane.rows));
    case LaneKind::kDepth:
    case LaneKind::kBandwidth:
    case LaneKind::kLag:
      return style.curve;
  }
  return 0;
}

}  // namespace

std::vector<Lane> MakeLanes(const LaneSource& source) { return LaneMaker(source).Make(); }

bool IsTitle(LaneKind kind) {
  return kind == LaneKind::kPool || kind == LaneKind::kLink || kind == LaneKind::kOther;
}

std::vector<LaneBox> StackLanes(const std::vector<Lane>& lanes, const std::vector<bool>& folded,
                                const LaneStyle& style) {
  std::vector<LaneBox> boxes(lanes.size());
  float y = 0;
  bool hidden = false;
  float states = style.states;
  float states_gap = style.gap;
  for (size_t i = 0; i < lanes.size(); ++i) {
    if (IsTitle(lanes[i].kind)) {
      if (i > 0) y += style.group_gap;
      hidden = i < folded.size() && folded[i];
      const auto workers = static_cast<float>(std::max<size_t>(1, WorkersBelow(lanes, i)));
      const float room = hidden ? std::floor(style.folded / workers) : style.states + style.gap;
      const bool whole = room >= style.states;
      states_gap = whole ? style.gap : room >= 2 * style.least_states ? 1 : 0;
      states = whole ? style.states : std::max(style.least_states, room - states_gap);
    } else if (hidden) {
      // A folded pool keeps its workers' states: they are the picture of the pool.
      if (lanes[i].kind != LaneKind::kStates) {
        boxes[i] = {y, 0};
        continue;
      }
    }
    const bool is_states = lanes[i].kind == LaneKind::kStates;
    const float height = is_states ? states : HeightOf(lanes[i], style);
    boxes[i] = {y, height};
    y += height;
    const bool ranges_follow =
        i + 1 < lanes.size() && lanes[i + 1].kind == LaneKind::kRanges && !hidden;
    y += !is_states ? style.gap : ranges_follow ? 1 : states_gap;
  }
  return boxes;
}

size_t WorkersBelow(const std::vector<Lane>& lanes, size_t title) {
  size_t workers = 0;
  for (size_t i = title + 1; i < lanes.size() && !IsTitle(lanes[i].kind); ++i) {
    workers += lanes[i].kind == LaneKind::kStates;
  }
  return workers;
}

std::vector<bool> StartFolded(const std::vector<Lane>& lanes) {
  std::vector<bool> folded(lanes.size(), false);
  std::vector<std::pair<size_t, size_t>> pools;  // workers, title
  size_t open = 0;
  for (size_t i = 0; i < lanes.size(); ++i) {
    if (lanes[i].kind != LaneKind::kPool) continue;
    pools.emplace_back(WorkersBelow(lanes, i), i);
    open += pools.back().first;
  }
  std::sort(pools.rbegin(), pools.rend());
  for (const auto& [workers, title] : pools) {
    // What a few pools of a few workers need is small; one large pool is not.
    if (workers <= kMaxOpenWorkers && open <= 2 * kMaxOpenWorkers) break;
    folded[title] = true;
    open -= workers;
  }
  return folded;
}

float StackHeight(const std::vector<LaneBox>& boxes) {
  float height = 0;
  for (const LaneBox& box : boxes) height = std::max(height, box.top + box.height);
  return height;
}

int LaneAt(const std::vector<LaneBox>& boxes, float y) {
  auto after = std::upper_bound(boxes.begin(), boxes.end(), y,
                                [](float at, const LaneBox& box) { return at < box.top; });
  while (after != boxes.begin()) {
    --after;
    if (after->height <= 0) continue;
    return y < after->top + after->height ? static_cast<int>(after - boxes.begin()) : -1;
  }
  return -1;
}

}  // namespace poolscope
