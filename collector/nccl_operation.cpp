#include "collector/nccl_operation.h"

#include <algorithm>
#include <array>

namespace poolscope {
namespace {

constexpr std::array<const char*, static_cast<size_t>(NcclFunction::kCount)> kNames = {
    "AllReduce", "ReduceScatter", "AllGather", "AlltoAll", "Broadcast", "Reduce",
    "Scatter",   "Gather",        "Send",      "Recv",     "other"};
constexpr int64_t kMaxRanks = 1 << 20;

}  // namespace

NcclFunction NcclFunctionOf(std::string_view name) {
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  return found == kNames.end() ? NcclFunction::kOther
                               : static_cast<NcclFunction>(found - kNames.begin());
}

const char* NcclFunctionName(NcclFunction function) {
  return kNames[static_cast<size_t>(function)];
}

bool TakeNccl(std::span<const uint64_t> values, std::string_view function, std::string_view timing,
              NcclOperation& out) {
  if (values.size() < kNcclFields) return false;
  out.function = NcclFunctionOf(function);
  out.timed = timing != "enqueued";
  out.communicator = values[kNcclCommunicator];
  out.rank = static_cast<int64_t>(values[kNcclRank]);
  out.ranks = static_cast<int64_t>(values[kNcclRanks]);
  out.sequence = values[kNcclSequence];
  out.peer = static_cast<int64_t>(values[kNcclPeer]);
  out.bytes = values[kNcclBytes];
  out.open_id = values.size() > kNcclOpenId ? values[kNcclOpenId] : 0;
  return out.ranks >= 0 && out.ranks <= kMaxRanks && out.rank < kMaxRanks &&
         out.bytes < uint64_t{1} << 50;
}

NcclSize SizeOf(NcclFunction function, uint64_t bytes, int64_t ranks) {
  const double each = static_cast<double>(bytes);
  const double n = static_cast<double>(std::max<int64_t>(ranks, 1));
  switch (function) {
    case NcclFunction::kAllReduce:
      return {each, 2 * (n - 1) / n};
    case NcclFunction::kReduceScatter:
    case NcclFunction::kAllGather:
    case NcclFunction::kAlltoAll:
    case NcclFunction::kScatter:
    case NcclFunction::kGather:
      return {each * n, (n - 1) / n};
    default:
      return {each, 1};
  }
}

}  // namespace poolscope
