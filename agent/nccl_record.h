#pragma once

#include <cstdint>

#include "agent/process.h"

namespace poolscope::agent::nccl {

// What a range's times are.
enum class Timing { kEnqueued, kProxy, kKernel };

// One operation as it is written into the session. Names are string ids.
struct OperationRecord {
  uint32_t lane = 0;
  uint32_t function = 0, datatype = 0, algorithm = 0, protocol = 0;
  uint64_t communicator = 0;
  int64_t rank = 0, ranks = 0;
  uint64_t sequence = 0;
  uint64_t bytes = 0, count = 0;
  int64_t peer = 0;
  uint32_t channels = 0;
  uint32_t tid = 0;
  int64_t called_ns = 0;  // CLOCK_MONOTONIC, as are:
  int64_t start_ns = 0, end_ns = 0;
  Timing timing = Timing::kEnqueued;
  uint64_t group = 0;                       // of the process, from 1; 0: none
  uint32_t proxies = 0;                     // network operations that proxies made for it
  uint64_t slowest_channel = ~uint64_t{0};  // that stopped last; all ones: none was seen
  uint64_t channel_spread_ns = 0;           // from the first channel's stop to the last one's
  uint64_t open_id = 0;  // in the process's table of open ranges, 0: it is not there
};

// Defines the domain and the payload schema, once; inside a Registering.
void DefineRecord();

// Puts it into the process's table of open ranges, as begun now: its open_id from then on. Inside
// an Inside.
void Open(ThreadWriter& writer, OperationRecord& record);
// Takes it out again, without a record.
void Close(OperationRecord& record);
void ForgetOpenInChild();  // those of the parent

// Writes it as an activity of its lane, in the ring of the calling thread, and takes it out of the
// table. Without a lane it is counted as missing.
void Write(OperationRecord record);

}  // namespace poolscope::agent::nccl
