// Where the rows of the timeline stand.
#include <algorithm>
#include <cmath>

#include "viewer/lanes.h"

namespace poolscope {
namespace {

float HeightOf(const Lane& lane, const LaneStyle& style) {
  switch (lane.kind) {
    case LaneKind::kPool:
    case LaneKind::kLink:
    case LaneKind::kOther:
    case LaneKind::kCounters:
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
    case LaneKind::kCounter:
      return style.counter;
  }
  return 0;
}

}  // namespace

bool IsTitle(LaneKind kind) {
  return kind == LaneKind::kPool || kind == LaneKind::kLink || kind == LaneKind::kOther ||
         kind == LaneKind::kCounters;
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
    folded[i] = lanes[i].kind == LaneKind::kCounters;
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
