#include "advisor/link_fit.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "advisor/run_data.h"

namespace poolscope {
namespace {

constexpr size_t kEnoughBacklog = 8;
constexpr double kApartSizes = 1.5;  // sizes closer than this factor do not separate the two

struct SizeMedian {
  double bytes, wire_ns;
  size_t count;
};

std::vector<SizeMedian> MediansBySize(const std::vector<TransferRecord>& transfers) {
  std::map<int64_t, std::vector<double>> by_size;
  for (const TransferRecord& t : transfers) {
    if (!t.stage(2).seen()) continue;
    by_size[t.wire_bytes].push_back(static_cast<double>(t.stage(2).end_ns - t.stage(2).start_ns));
  }
  std::vector<SizeMedian> medians;
  for (auto& [bytes, ns] : by_size) {
    const size_t count = ns.size();
    medians.push_back({static_cast<double>(bytes), Median(std::move(ns)), count});
  }
  return medians;
}

// Lane time per byte of messages right behind which another one waited; one lane only.
std::vector<double> BacklogNsPerByte(std::vector<TransferRecord> transfers) {
  std::erase_if(transfers, [](const TransferRecord& t) {
    return !t.stage(0).seen() || !t.stage(2).seen() || t.wire_bytes <= 0;
  });
  std::sort(transfers.begin(), transfers.end(),
            [](const TransferRecord& a, const TransferRecord& b) {
              return a.stage(2).start_ns < b.stage(2).start_ns;
            });
  std::vector<double> values;
  for (size_t i = 0; i + 1 < transfers.size(); ++i) {
    const TransferRecord& ahead = transfers[i];
    const TransferRecord& behind = transfers[i + 1];
    // Both waited: the first took the lane the instant it became free, and so did the second.
    const bool waited = i > 0 && ahead.stage(0).start_ns < transfers[i - 1].stage(2).start_ns;
    if (!waited || behind.stage(0).start_ns >= ahead.stage(2).start_ns) continue;
    values.push_back(static_cast<double>(behind.stage(2).start_ns - ahead.stage(2).start_ns) /
                     static_cast<double>(ahead.wire_bytes));
  }
  return values;
}

}  // namespace

LinkFit FitLink(const std::vector<TransferRecord>& transfers, int lanes) {
  LinkFit fit;
  const std::vector<SizeMedian> sizes = MediansBySize(transfers);
  if (sizes.empty()) return fit;
  const SizeMedian& typical =
      *std::max_element(sizes.begin(), sizes.end(), [](const SizeMedian& a, const SizeMedian& b) {
        return static_cast<double>(a.count) * a.bytes < static_cast<double>(b.count) * b.bytes;
      });
  fit.typical_ns = typical.wire_ns;
  fit.typical_bytes = typical.bytes;
  for (const TransferRecord& t : transfers) fit.transfers += t.step != kNoValue;

  // Messages behind each other come first: a late wake-up moves two starts, and cancels out.
  const std::vector<double> backlog =
      lanes <= 1 ? BacklogNsPerByte(transfers) : std::vector<double>{};
  const SizeMedian& smallest = sizes.front();
  const bool two_sizes = typical.bytes > smallest.bytes * kApartSizes;
  if (backlog.size() >= kEnoughBacklog || two_sizes) {
    // The spacing holds even where it exceeds the wire stage: a lane that is woken late marks its
    // start late and still makes up for it.
    fit.ns_per_byte = backlog.size() >= kEnoughBacklog
                          ? Median(backlog)
                          : std::max(0.0, (typical.wire_ns - smallest.wire_ns) /
                                              (typical.bytes - smallest.bytes));
    fit.latency_ns = std::max(0.0, typical.wire_ns - fit.ns_per_byte * typical.bytes);
    return fit;
  }
  fit.ambiguous = true;
  fit.ns_per_byte = typical.wire_ns / 2 / std::max(1.0, typical.bytes);
  fit.latency_ns = typical.wire_ns / 2;
  return fit;
}

}  // namespace poolscope
