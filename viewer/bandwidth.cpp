#include "viewer/bandwidth.h"

#include <algorithm>

namespace poolscope {

std::vector<WireRate> RatesOf(std::vector<WireMessage> lane) {
  std::sort(lane.begin(), lane.end(), [](const WireMessage& a, const WireMessage& b) {
    return a.end_ns != b.end_ns ? a.end_ns < b.end_ns : a.begin_ns < b.begin_ns;
  });
  std::vector<WireRate> rates;
  double bytes = 0;  // of the last piece
  for (const WireMessage& message : lane) {
    const int64_t length = std::max<int64_t>(1, message.end_ns - message.begin_ns);
    const bool follows =
        !rates.empty() && message.begin_ns - rates.back().end_ns <= std::max(length / 2, kLateNs);
    const bool joins = follows && (message.end_ns <= rates.back().end_ns ||
                                   rates.back().end_ns - rates.back().begin_ns < kSteadyNs);
    if (!joins) {
      const int64_t begin = follows ? rates.back().end_ns : message.begin_ns;
      rates.push_back({begin, std::max(message.end_ns, begin + 1), 0});
      bytes = 0;
    }
    WireRate& last = rates.back();
    last.end_ns = std::max(last.end_ns, message.end_ns);
    bytes += message.bytes;
    last.bytes_per_ns = bytes / static_cast<double>(last.end_ns - last.begin_ns);
  }
  return rates;
}

void BandwidthBuckets::Add(const WireRate& rate) {
  int64_t at = std::max(rate.begin_ns, first_ns_);
  while (at < rate.end_ns) {
    const auto bucket = static_cast<size_t>((at - first_ns_) / bucket_ns_);
    if (bucket >= bytes_.size()) break;
    const int64_t until = std::min(rate.end_ns, BeginOf(bucket + 1));
    bytes_[bucket] += rate.bytes_per_ns * static_cast<double>(until - at);
    at = until;
  }
}

std::vector<double> RatesOfColumns(const std::vector<LinkColumn>& columns, int64_t lanes) {
  std::vector<double> rates(columns.size(), 0.0);
  // From the last back: bytes, and the wire's time for them, that a column has no room for.
  double bytes = 0;
  double wire_ns = 0;
  for (size_t i = columns.size(); i-- > 0;) {
    const LinkColumn& column = columns[i];
    const auto own = static_cast<double>(std::max<int64_t>(1, column.end_ns - column.begin_ns));
    // Messages may overlap on the wire (latency), so that their sum alone does not tell how far
    // back they reach: not further than one message before the column, nor than those after it.
    double reach = wire_ns;
    if (column.transfers > 0) {
      reach = std::max(reach,
                       static_cast<double>(column.wire_ns) / static_cast<double>(column.transfers));
    }
    bytes += static_cast<double>(column.wire_bytes);
    wire_ns +=
        static_cast<double>(column.wire_ns) / static_cast<double>(std::max<int64_t>(1, lanes));
    const double rest = std::clamp(wire_ns - own, 0.0, reach);
    const double placed = bytes * own / (own + rest);
    rates[i] = placed / own * 1e9;
    bytes -= placed;
    wire_ns = rest;
    if (rest <= 0) bytes = 0;
  }
  return rates;
}

}  // namespace poolscope
