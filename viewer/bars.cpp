#include "viewer/bars.h"

#include <algorithm>
#include <cstdlib>

namespace poolscope {
namespace {

constexpr int kSameShade = 20;  // of 255: columns closer than this are drawn as one

int64_t FloorDivide(int64_t value, int64_t by) {
  const int64_t quotient = value / by;
  return value % by < 0 ? quotient - 1 : quotient;
}

uint8_t Share(double part, double whole) {
  if (whole <= 0) return 255;
  return static_cast<uint8_t>(std::clamp(part / whole * 255 + 0.5, 0.0, 255.0));
}

uint8_t Share(int64_t part, int64_t whole) {
  return Share(static_cast<double>(part), static_cast<double>(whole));
}

bool LookSame(const Bar& a, const Bar& b) {
  return a.name == b.name && a.category == b.category && a.inferred == b.inferred &&
         a.colour == b.colour;
}

// In 255ths of a nanosecond.
double CoveredNs(const Bar& bar) {
  return static_cast<double>(bar.end_ns - bar.begin_ns) * bar.covered;
}

StateColumn ColumnFrom(const StateNs& state_ns, int64_t begin_ns, int64_t end_ns) {
  int64_t total = 0;
  for (const int64_t ns : state_ns) total += ns;
  StateColumn column{begin_ns, end_ns, {}};
  for (size_t i = 0; i < state_ns.size(); ++i) {
    column.share[i] = total > 0 ? Share(state_ns[i], total) : 0;
  }
  return column;
}

void PushColumn(std::vector<StateColumn>& columns, const StateColumn& column) {
  if (!columns.empty() && columns.back().end_ns == column.begin_ns) {
    bool same = true;
    for (size_t i = 0; i < column.share.size(); ++i) {
      same = same && std::abs(column.share[i] - columns.back().share[i]) <= 6;
    }
    if (same) {
      StateColumn& last = columns.back();
      const auto before = static_cast<double>(last.end_ns - last.begin_ns);
      const auto more = static_cast<double>(column.end_ns - column.begin_ns);
      for (size_t i = 0; i < column.share.size(); ++i) {
        const double mean = (last.share[i] * before + column.share[i] * more) / (before + more);
        last.share[i] = static_cast<uint8_t>(mean + 0.5);
      }
      last.end_ns = column.end_ns;
      return;
    }
  }
  columns.push_back(column);
}

// A slice of less than a 64th of a column between two long ones goes to the one before: it could
// not be seen, but would blur the edge between them.
void DropSpecks(std::vector<StateSlice>& slices, int64_t column_ns) {
  size_t kept = 0;
  for (size_t i = 0; i < slices.size(); ++i) {
    const auto length = [&](const StateSlice& slice) { return slice.end_ns - slice.begin_ns; };
    const bool speck = kept > 0 && i + 1 < slices.size() && length(slices[i]) < column_ns / 64 &&
                       length(slices[kept - 1]) >= column_ns && length(slices[i + 1]) >= column_ns;
    if (speck) {
      slices[kept - 1].end_ns = slices[i].end_ns;
    } else {
      slices[kept++] = slices[i];
    }
  }
  slices.resize(kept);
}

}  // namespace

int64_t BarMerger::Column(int64_t time_ns) const { return FloorDivide(time_ns, column_ns_); }

BarMerger::Row& BarMerger::RowOf(uint16_t row) {
  if (row >= rows_.size()) rows_.resize(row + size_t{1});
  return rows_[row];
}

void BarMerger::Push(Row& row, const Bar& bar) {
  if (!row.bars.empty()) {
    Bar& last = row.bars.back();
    const bool both_merged = last.events != 1 && bar.events != 1;
    if (both_merged && LookSame(last, bar) && bar.begin_ns - last.end_ns < column_ns_ &&
        std::abs(last.covered - bar.covered) <= kSameShade) {
      const double covered = CoveredNs(last) + CoveredNs(bar);
      last.end_ns = bar.end_ns;
      last.events += bar.events;
      last.covered = Share(covered / 255, static_cast<double>(last.end_ns - last.begin_ns));
      return;
    }
  }
  row.bars.push_back(bar);
}

void BarMerger::Flush(Row& row, uint16_t index) {
  if (!row.open) return;
  row.open = false;
  const auto most =
      std::max_element(row.names.begin(), row.names.end(),
                       [](const Name& a, const Name& b) { return a.covered_ns < b.covered_ns; });
  Bar bar = most->like;
  bar.begin_ns = row.begin_ns;
  bar.end_ns = row.end_ns;
  bar.events = row.events;
  bar.row = index;
  bar.covered = 255;
  if (row.events != 1) bar.covered = Share(row.covered_ns, row.end_ns - row.begin_ns);
  row.names.clear();
  Push(row, bar);
}

void BarMerger::Add(const Bar& event) {
  Row& row = RowOf(event.row);
  Bar bar = event;
  const int64_t taken = row.open           ? row.end_ns
                        : row.bars.empty() ? INT64_MIN
                                           : row.bars.back().end_ns;
  bar.begin_ns = std::max(bar.begin_ns, taken);
  if (bar.end_ns < bar.begin_ns) {  // wholly covered: counted where it lies
    if (row.open) {
      ++row.events;
    } else {
      ++row.bars.back().events;
    }
    return;
  }
  if (bar.end_ns - bar.begin_ns >= column_ns_) {
    Flush(row, event.row);
    row.bars.push_back(bar);
    return;
  }
  AddSummary(bar, bar.end_ns - bar.begin_ns);
}

void BarMerger::AddSummary(const Bar& summary, int64_t covered_ns) {
  Row& row = RowOf(summary.row);
  Bar part = summary;
  if (part.end_ns - part.begin_ns >= column_ns_) {
    Flush(row, part.row);
    if (!row.bars.empty()) part.begin_ns = std::max(part.begin_ns, row.bars.back().end_ns);
    if (part.end_ns <= part.begin_ns) return;
    part.covered = Share(covered_ns, summary.end_ns - summary.begin_ns);
    Push(row, part);
    return;
  }
  if (!row.open && !row.bars.empty()) {
    part.begin_ns = std::max(part.begin_ns, row.bars.back().end_ns);
    part.end_ns = std::max(part.end_ns, part.begin_ns);
  }
  if (row.open && Column(row.begin_ns) != Column(part.begin_ns)) Flush(row, part.row);
  if (!row.open) {
    row.open = true;
    row.begin_ns = part.begin_ns;
    row.end_ns = part.end_ns;
    row.covered_ns = 0;
    row.events = 0;
  }
  row.end_ns = std::max(row.end_ns, part.end_ns);
  row.covered_ns += covered_ns;
  row.events += part.events;
  for (Name& name : row.names) {
    if (LookSame(name.like, part)) {
      name.covered_ns += covered_ns;
      return;
    }
  }
  row.names.push_back({part, covered_ns});
}

std::vector<Bar> BarMerger::Finish() {
  std::vector<Bar> out;
  for (size_t i = 0; i < rows_.size(); ++i) {
    Flush(rows_[i], static_cast<uint16_t>(i));
    out.insert(out.end(), rows_[i].bars.begin(), rows_[i].bars.end());
  }
  rows_.clear();
  return out;
}

uint16_t RowPacker::Place(int64_t begin_ns, int64_t end_ns) {
  size_t best = 0;
  for (size_t i = 0; i < free_at_.size(); ++i) {
    if (free_at_[i] <= begin_ns) {
      free_at_[i] = end_ns;
      return static_cast<uint16_t>(i);
    }
    if (free_at_[i] < free_at_[best]) best = i;
  }
  if (free_at_.size() < max_rows_) {
    free_at_.push_back(end_ns);
    return static_cast<uint16_t>(free_at_.size() - 1);
  }
  free_at_[best] = std::max(free_at_[best], end_ns);
  return static_cast<uint16_t>(best);
}

std::vector<StateSlice> SplitStates(std::vector<StateSlice> ranges, int64_t begin_ns,
                                    int64_t end_ns) {
  struct Edge {
    int64_t at;
    int delta;
    size_t state;
  };
  std::vector<Edge> edges;
  edges.reserve(ranges.size() * 2);
  for (const StateSlice& range : ranges) {
    const int64_t from = std::max(range.begin_ns, begin_ns);
    const int64_t to = std::min(range.end_ns, end_ns);
    if (from >= to) continue;
    edges.push_back({from, 1, static_cast<size_t>(range.state)});
    edges.push_back({to, -1, static_cast<size_t>(range.state)});
  }
  std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) { return a.at < b.at; });
  std::array<int, static_cast<size_t>(State::kCount)> open{};
  std::vector<StateSlice> out;
  const auto emit = [&](int64_t from, int64_t to) {
    if (from >= to) return;
    State state = State::kIdle;
    for (size_t i = 0; i < open.size(); ++i) {
      if (open[i] > 0) {
        state = static_cast<State>(i);
        break;
      }
    }
    if (!out.empty() && out.back().state == state) {
      out.back().end_ns = to;
    } else {
      out.push_back({from, to, state});
    }
  };
  int64_t at = begin_ns;
  for (const Edge& edge : edges) {
    emit(at, edge.at);
    at = edge.at;
    open[edge.state] += edge.delta;
  }
  emit(at, end_ns);
  return out;
}

std::vector<StateColumn> ColumnsOf(std::vector<StateSlice> slices, int64_t column_ns) {
  column_ns = std::max<int64_t>(1, column_ns);
  DropSpecks(slices, column_ns);
  std::vector<int64_t> mixed;  // grid columns that a short slice touches, in order
  for (const StateSlice& slice : slices) {
    if (slice.end_ns - slice.begin_ns >= column_ns || slice.end_ns <= slice.begin_ns) continue;
    for (const int64_t at : {slice.begin_ns, slice.end_ns - 1}) {
      const int64_t column = FloorDivide(at, column_ns);
      if (mixed.empty() || mixed.back() < column) mixed.push_back(column);
    }
  }
  std::vector<StateColumn> out;
  StateNs state_ns{};
  int64_t begin = 0;
  int64_t end = 0;
  const auto flush = [&] {
    if (begin < end) PushColumn(out, ColumnFrom(state_ns, begin, end));
    begin = end;
    state_ns = {};
  };
  auto next = mixed.begin();
  for (const StateSlice& slice : slices) {
    int64_t at = slice.begin_ns;
    while (at < slice.end_ns) {
      const int64_t column = FloorDivide(at, column_ns);
      while (next != mixed.end() && *next < column) ++next;
      const bool is_mixed = next != mixed.end() && *next == column;
      int64_t until = slice.end_ns;
      if (is_mixed) {
        until = std::min(until, (column + 1) * column_ns);
        if (begin < end && FloorDivide(begin, column_ns) != column) flush();
        if (begin >= end) begin = at;
        end = until;
        state_ns[static_cast<size_t>(slice.state)] += until - at;
      } else {
        if (next != mixed.end()) until = std::min(until, *next * column_ns);
        flush();
        StateColumn exact{at, until, {}};
        exact.share[static_cast<size_t>(slice.state)] = 255;
        PushColumn(out, exact);
      }
      at = until;
    }
  }
  flush();
  return out;
}

void StateColumnMaker::Flush() {
  if (open_) PushColumn(columns_, ColumnFrom(sum_, begin_ns_, end_ns_));
  open_ = false;
  sum_ = {};
}

void StateColumnMaker::Add(int64_t start_ns, int64_t window_ns, const StateNs& state_ns) {
  if (open_ && (start_ns != end_ns_ ||
                FloorDivide(begin_ns_, column_ns_) != FloorDivide(start_ns, column_ns_))) {
    Flush();
  }
  if (!open_) begin_ns_ = start_ns;
  open_ = true;
  end_ns_ = start_ns + window_ns;
  for (size_t i = 0; i < sum_.size(); ++i) sum_[i] += state_ns[i];
}

std::vector<StateColumn> StateColumnMaker::Finish() {
  Flush();
  return std::move(columns_);
}

}  // namespace poolscope
