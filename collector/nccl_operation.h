#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "collector/activity.h"
#include "trace/event.h"

namespace poolscope {

enum class NcclFunction : uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kAlltoAll,
  kBroadcast,
  kReduce,
  kScatter,
  kGather,
  kSend,
  kRecv,
  kOther,
  kCount
};
NcclFunction NcclFunctionOf(std::string_view name);
const char* NcclFunctionName(NcclFunction function);  // as NCCL writes it

// One of NCCL's operations, as one of its ranks saw it (docs/nccl.md).
struct NcclOperation {
  NcclFunction function = NcclFunction::kOther;
  bool timed = false;  // its times are of the operation itself, not of its enqueueing
  int worker = -1;     // of the RunModel
  int link = -1;       // that the mapping gives it to
  uint64_t communicator = 0;
  int64_t rank = -1;
  int64_t ranks = 0;  // 0: not known
  uint64_t sequence = kNoValue;
  int64_t peer = -1;     // root, or the other rank of a send or receive
  uint64_t bytes = 0;    // as NCCL counts them
  uint64_t open_id = 0;  // in the process's table of open ranges, 0: it never was there
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  Activity::Origin origin;

  bool point_to_point() const {
    return function == NcclFunction::kSend || function == NcclFunction::kRecv;
  }
};

// From the values of a payload nccl.operation; times, worker and link stay. `timing` is the text of
// its field. False: a value that the agent does not write.
enum NcclField : uint32_t {
  kNcclCommunicator,
  kNcclRank,
  kNcclRanks,
  kNcclSequence,
  kNcclBytes,
  kNcclPeer = 7,
  kNcclTid = 11,
  kNcclTiming = 13,
  kNcclFields,  // that every agent writes
  kNcclOpenId = kNcclFields
};
bool TakeNccl(std::span<const uint64_t> values, std::string_view function, std::string_view timing,
              NcclOperation& out);

// Size S and bus bandwidth factor of an operation of `ranks` ranks by nccl-tests
// (github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md): algorithm bandwidth is S ÷ time, bus
// bandwidth that times the factor. NCCL counts what one rank gives or gets where S is all ranks'
// buffer.
struct NcclSize {
  double bytes;
  double bus_factor;
};
NcclSize SizeOf(NcclFunction function, uint64_t bytes, int64_t ranks);

}  // namespace poolscope
