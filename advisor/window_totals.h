#pragma once

#include <string>
#include <vector>

#include "advisor/run_data.h"
#include "store/store.h"

// Sums over the windows inside the analysed span, which the collector computed.
namespace poolscope {

struct PoolTotals {
  std::string pool;
  double busy_ratio = 0;  // busy and busy_discarded
  std::array<double, static_cast<size_t>(State::kCount)> state_ratios{};
  // The part of other_work that is called checkpoint... or evaluation..., and the name of most of
  // it.
  double stall_ratio = 0;
  std::string stall;
  int64_t begin_ns = 0, end_ns = 0;  // of the windows summed; equal where there was none
};

// Shares are of the worker seconds of the pool named.
struct LinkTotals {
  std::string link;
  int64_t transfers = 0, raw_bytes = 0, wire_bytes = 0, discarded = 0, capacity = 0;
  double traffic_share = 0, exposed_share = 0, depth_mean = 0, depth_max = 0;
  std::array<double, 5> stage_seconds{};  // mean by Stage
  double blocked_share = 0;               // senders, blocked on this link
  double wait_share = 0;                  // receivers, waiting for this link
  double upstream_busy_share = 0;  // receivers: the part of wait_share that is not the link's doing
  double unattributed_share = 0;   // receivers: the part of wait_share of no known message
  int64_t begin_ns = 0, end_ns = 0;

  // Receivers: the part of wait_share that the link is to blame for.
  double own_wait_share() const { return wait_share - upstream_busy_share - unattributed_share; }
};

struct WindowTotals {
  std::vector<PoolTotals> pools;  // in the order of RunData::pools
  std::vector<LinkTotals> links;  // in the order of RunData::links
  double lag_mean = 0;
  int64_t lag_max = 0;
  int64_t window_ns = 0;  // of one window; 0 where there is none

  const PoolTotals* Pool(const std::string& name) const;
  const LinkTotals* Link(const std::string& name) const;
};

// Windows wholly inside the span; where that is none, those that overlap it.
Result<WindowTotals> SumWindows(const Store& store, const RunData& run, const AnalysedSpan& span);

}  // namespace poolscope
