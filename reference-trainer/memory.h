#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reference-trainer/device_spec.h"

namespace poolscope::trainer {

struct Options;

// What one device holds for one worker at its peak, in bytes, by what it holds.
struct MemoryNeed {
  struct Part {
    const char* name;
    double bytes;
  };
  std::vector<Part> parts;

  double total() const;
};

// Of emulated devices: a parameter's weight in the run's precision and its gradient in fp32 for
// passes, 16 bytes of state for updates (less where they are offloaded), activations, and messages:
// full buffers and one under way. A monolithic worker needs all but messages; with parameter fetch
// a compute worker holds the weights of a few stages alone, and messages are blocks.
MemoryNeed MemoryOf(const Options& options, PoolRole pool, uint64_t index);

// Bytes of a device of the pool: what --device-memory says, else its profile's; 0: not bounded.
double DeviceCapacity(const Options& options, PoolRole pool);

// One line where a device cannot hold what its workers need, or "".
std::string CheckMemory(const Options& options);

// The memory of a worker's device as the run goes on, sampled as counters by the worker's thread.
class MemoryUse {
 public:
  MemoryUse(const Options& options, PoolRole pool, uint64_t index);

  // The worker begins `step`. Throws std::runtime_error, one line, where the device is full.
  void AtStep(uint64_t step);

 private:
  const bool emulated_;
  const std::string pool_;
  const uint64_t index_;
  const double need_, capacity_, leak_;
  uint64_t step_ = UINT64_MAX;  // of the last sample
};

}  // namespace poolscope::trainer
