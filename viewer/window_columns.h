#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "store/store.h"
#include "viewer/bars.h"

namespace poolscope {

// What a link did in one column of time, summed over its windows.
struct LinkColumn {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  int64_t transfers = 0;
  int64_t wire_bytes = 0;
  int64_t wire_ns = 0;    // sum over transfers
  double depth_low = 0;   // lowest mean of a window
  double depth_high = 0;  // highest depth seen
};

// The window rows of a span reduced to columns, all workers and links in one pass each, in pieces
// of the span, so that neither time nor memory is spent once per lane. One span and column each.
class WindowColumns {
 public:
  WindowColumns(const Store& store, std::string run_id, Store::Span span, int64_t column_ns)
      : store_(store), run_id_(std::move(run_id)), span_(span), column_ns_(column_ns) {}

  Result<std::vector<StateColumn>> StatesOf(const std::string& pool, int64_t worker);
  Result<std::vector<LinkColumn>> LinkOf(const std::string& link);

 private:
  std::vector<Store::Span> Pieces() const;
  Status ReadWorkers();
  Status ReadLinks();

  const Store& store_;
  const std::string run_id_;
  const Store::Span span_;  // a piece of the run: no infinite ends
  const int64_t column_ns_;
  bool workers_read_ = false, links_read_ = false;
  std::map<std::pair<std::string, int64_t>, std::vector<StateColumn>> workers_;
  std::map<std::string, std::vector<LinkColumn>> links_;
};

}  // namespace poolscope
