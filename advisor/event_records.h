#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "advisor/run_data.h"

// The events of the annotation contract, joined into records that calibration reads.
namespace poolscope {

struct WorkRecord {
  int pool = 0;  // index in RunData::pools
  int worker = 0;
  uint32_t name = 0;  // string id
  int64_t start_ns = 0, end_ns = 0;
  uint64_t step = 0, micro_batch = 0, scope = 0;
  int64_t cpu_ns = -1;  // -1: not known
  bool mapped = false;  // a mapping made it of another event
};

struct StageTime {
  int64_t start_ns = 0, end_ns = 0;  // both 0: not seen
  bool seen() const { return end_ns != 0; }
};

struct TransferRecord {
  int link = 0;  // index in RunData::links
  uint32_t source = 0, destination = 0;
  uint64_t sequence = 0;
  uint64_t step = 0, micro_batch = 0;
  int64_t raw_bytes = 0, wire_bytes = 0;
  uint32_t codec = 0;               // string id, 0 none
  std::array<StageTime, 5> stages;  // by Stage

  const StageTime& stage(int index) const { return stages[static_cast<size_t>(index)]; }
};

// A wait on a link that a message ended.
struct WaitRecord {
  int pool = 0, worker = 0;
  int link = 0;
  int64_t start_ns = 0, end_ns = 0;
  uint64_t source = 0, sequence = 0;
};

// Anything on a worker's own thread, for the unmarked gaps between.
struct OwnRange {
  int64_t start_ns = 0, end_ns = 0;
  uint32_t category = 0;
  uint32_t name = 0;
  int stage = -1;  // of a transfer
};

struct EventRecords {
  int64_t begin_ns = 0;  // records end at or after this
  std::vector<WorkRecord> work;
  std::vector<TransferRecord> transfers;  // by link, source, destination, sequence
  std::vector<WaitRecord> waits;
  std::vector<std::vector<std::vector<OwnRange>>> own;  // [pool][worker], by start
  std::vector<std::pair<int64_t, int64_t>> phases;      // warm-up, compile, evaluation
  std::vector<std::pair<uint32_t, std::string>> names;  // of work
  bool inferred = false;  // steps and micro-batches are, by when the work ran

  std::string Name(uint32_t id) const;
};

// Decodes the newest chunks of the span, about `budget` events at most, and each track's first for
// the probes that were made before the first step.
Result<EventRecords> ReadEventRecords(const Store& store, const RunData& run,
                                      const AnalysedSpan& span, int64_t budget);

}  // namespace poolscope
