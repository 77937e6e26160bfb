#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "store/rows.h"

// What is drawn of ranges and states, computed without any drawing library. Times in nanoseconds.
namespace poolscope {

// A rectangle of a row: one event (events == 1), or several that are too narrow to see alone.
struct Bar {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  uint32_t name = 0;      // of several: the one that covers most
  uint32_t category = 0;  // as EventLook's
  uint32_t events = 1;
  uint16_t row = 0;
  uint8_t covered = 255;  // share of [begin, end] that events cover, 255 is all
  uint8_t stage = 0;      // Stage, for transfers
  bool inferred = false;  // as EventLook's
  uint32_t colour = 0;    // likewise
};

// Merges ranges that are narrower than a column of `column_ns` into one bar per column and row, and
// neighbouring columns that look the same into one. Columns stand on a fixed grid of absolute time,
// so that panning does not change what is merged. Per row there are at most two bars per column
// touched. Add by row in order of begin; a range that overlaps its predecessor is cut at its end.
class BarMerger {
 public:
  explicit BarMerger(int64_t column_ns) : column_ns_(column_ns > 0 ? column_ns : 1) {}

  void Add(const Bar& event);
  // `events` events that cover `covered_ns` of [begin, end], as a chunk's summary tells them.
  void AddSummary(const Bar& summary, int64_t covered_ns);
  std::vector<Bar> Finish();  // by row, then begin

 private:
  struct Name {
    Bar like;
    int64_t covered_ns;
  };
  struct Row {
    std::vector<Bar> bars;
    int64_t begin_ns = 0, end_ns = 0, covered_ns = 0;  // the open column
    uint32_t events = 0;
    bool open = false;
    std::vector<Name> names;
  };
  Row& RowOf(uint16_t row);
  void Flush(Row& row, uint16_t index);
  void Push(Row& row, const Bar& bar);
  int64_t Column(int64_t time_ns) const;

  int64_t column_ns_;
  std::vector<Row> rows_;
};

// Rows for ranges that overlap one another: each goes to the first row that is free at its begin.
// Place in order of begin. When `max_rows` are taken, the row that is free first is used.
class RowPacker {
 public:
  explicit RowPacker(uint16_t max_rows) : max_rows_(max_rows) {}
  uint16_t Place(int64_t begin_ns, int64_t end_ns);
  uint16_t rows() const { return static_cast<uint16_t>(free_at_.size()); }

 private:
  uint16_t max_rows_;
  std::vector<int64_t> free_at_;
};

struct StateSlice {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  State state = State::kIdle;
};

// The state split of [begin, end]: at each instant the state that comes first in `State`'s order,
// idle where there is none. The slices fill the span without gaps. `ranges` in any order.
std::vector<StateSlice> SplitStates(std::vector<StateSlice> ranges, int64_t begin_ns,
                                    int64_t end_ns);

// Shares of the states in a part of the time, 255 is all.
struct StateColumn {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  std::array<uint8_t, static_cast<size_t>(State::kCount)> share{};
};

// Slices (in order, without gaps) reduced to at most two columns per `column_ns` of grid. Where a
// slice is shorter than that, its whole grid column becomes shares, so that nothing short is lost
// or drawn wider than it is; what is longer stays exact.
std::vector<StateColumn> ColumnsOf(std::vector<StateSlice> slices, int64_t column_ns);
// Windows of one worker reduced to columns of at least `column_ns`. Add in order of start.
class StateColumnMaker {
 public:
  explicit StateColumnMaker(int64_t column_ns) : column_ns_(column_ns > 0 ? column_ns : 1) {}
  void Add(int64_t start_ns, int64_t window_ns, const StateNs& state_ns);
  std::vector<StateColumn> Finish();

 private:
  void Flush();

  int64_t column_ns_;
  int64_t begin_ns_ = 0, end_ns_ = 0;
  bool open_ = false;
  StateNs sum_{};
  std::vector<StateColumn> columns_;
};

}  // namespace poolscope
