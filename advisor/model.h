#pragma once

#include <cstdint>
#include <string>
#include <vector>

// The system that the what-if simulates: a producing pool (compute), a consuming pool (update), a
// link each way. Times in nanoseconds. Filled by calibration, changed by knobs, run by simulation.
namespace poolscope {

// Measured values to draw from. A worker without its own (a pool that grew) draws from all.
struct Samples {
  std::vector<std::vector<double>> by_worker;
  std::vector<double> all;

  bool empty() const { return all.empty(); }
  double Mean() const;
};

enum class OperationScope { kPerMicroBatch, kPerShard, kFixed };

struct Operation {
  std::string name;
  OperationScope scope = OperationScope::kFixed;
  bool on_cores = false;  // samples are CPU time, spent on the shared cores
  double gap_ns = 0;      // unmarked time before it
  Samples samples;
};

struct PoolModel {
  std::string name;
  int workers = 1;
  int calibrated_workers = 1;          // when the samples were taken
  std::vector<Operation> micro_batch;  // once per micro-batch, in order
  std::vector<Operation> step;         // once per step and worker, in order
};

struct Codec {
  std::string name = "none";
  double ratio = 1;               // wire bytes / raw bytes
  double encode_ns_per_byte = 0;  // of raw bytes
  double decode_ns_per_byte = 0;
  bool assumed = false;  // from the catalogue, not from this run
};

struct LinkModel {
  std::string name;
  int lanes = 1;
  int depth = 2;           // messages per receiver
  double ns_per_byte = 0;  // of wire bytes on a lane; 0: unlimited
  double latency_ns = 0;
  double lane_overhead_ns = 0;   // per message on the lane, beside its bytes
  double raw_bytes = 0;          // what one compute worker sends or gets: over all shards
  Codec codec;                   // in use
  Codec bf16;                    // what bf16 would cost
  double apply_ns_per_byte = 0;  // of raw bytes
  double hand_over_ns = 0;       // unmarked time of the sender per message
  double take_ns = 0;            // unmarked time of the receiver per message
  double wake_ns = 0;            // from arrival until a waiting receiver runs
};

enum class StalePolicy { kWait, kDrop, kRecompute, kApply };

struct Model {
  bool async = false;
  int micro_batches = 1;  // per step
  int lag_bound = 1;
  StalePolicy stale = StalePolicy::kWait;
  double cores = 0;  // shared by operations on cores; 0: not limited
  PoolModel compute;
  PoolModel update;
  LinkModel gradients;  // compute -> update
  LinkModel weights;    // update -> compute
};

}  // namespace poolscope
