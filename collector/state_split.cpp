#include "collector/state_split.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace poolscope {

std::vector<StatePiece> SplitStates(std::span<const StateInterval> intervals, int64_t begin_ns,
                                    int64_t end_ns) {
  struct Edge {
    int64_t at;
    bool opens;
    size_t index;
  };
  std::vector<Edge> edges;
  for (size_t i = 0; i < intervals.size(); ++i) {
    const int64_t begin = std::max(intervals[i].begin_ns, begin_ns);
    const int64_t end = std::min(intervals[i].end_ns, end_ns);
    if (begin >= end || intervals[i].state == State::kIdle) continue;
    edges.push_back({begin, true, i});
    edges.push_back({end, false, i});
  }
  std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) { return a.at < b.at; });

  using Rank = std::tuple<State, int64_t, size_t>;  // the smallest decides
  std::set<Rank> holding;
  const auto rank = [&](size_t i) { return Rank{intervals[i].state, intervals[i].begin_ns, i}; };
  std::vector<StatePiece> pieces;
  const auto add = [&](int64_t from, int64_t to) {
    if (from >= to) return;
    StatePiece piece{from, to};
    if (!holding.empty()) {
      const StateInterval& first = intervals[std::get<2>(*holding.begin())];
      piece.state = first.state;
      piece.link = first.link;
      piece.tag = first.tag;
    }
    if (!pieces.empty() && pieces.back().state == piece.state && pieces.back().tag == piece.tag &&
        pieces.back().link == piece.link) {
      pieces.back().end_ns = to;
    } else {
      pieces.push_back(piece);
    }
  };
  int64_t at = begin_ns;
  for (const Edge& edge : edges) {
    add(at, edge.at);
    at = edge.at;
    if (edge.opens) {
      holding.insert(rank(edge.index));
    } else {
      holding.erase(rank(edge.index));
    }
  }
  add(at, end_ns);
  return pieces;
}

}  // namespace poolscope
