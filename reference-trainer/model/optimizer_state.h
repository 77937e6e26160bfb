#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace poolscope::trainer {

enum class Offload { kNone, kHost, kFile };
const char* OffloadName(Offload offload);

// Where the optimizer's state lies.
struct OffloadOptions {
  Offload to = Offload::kNone;
  double resident_fraction = 0;    // of each shard's parameters whose state is not offloaded
  std::string folder;              // kFile; "": that for temporary files
  double bytes_per_second = 25e9;  // of an emulated device's link to its host, 0: unlimited
};

// Bytes of the state of AdamW in fp32: 16 per parameter. Of an offloaded parameter the master
// weight and both moments are offloaded (12 bytes); the sum of gradients always stays, since every
// message is added to it.
struct StateSizes {
  uint64_t parameters = 0;
  uint64_t offloaded_parameters = 0;

  uint64_t master_weights() const { return 4 * parameters; }
  uint64_t first_moment() const { return 4 * parameters; }
  uint64_t second_moment() const { return 4 * parameters; }
  uint64_t gradient_sum() const { return 4 * parameters; }
  uint64_t total() const { return 16 * parameters; }
  uint64_t offloaded() const { return 12 * offloaded_parameters; }
  uint64_t resident() const { return total() - offloaded(); }
};
StateSizes SizesOfState(uint64_t parameters, const OffloadOptions& offload);

// Master weights and moments of a shard: zeros at first. The last `offloaded` of each array are, by
// kFile, pages of a file that has no name and goes with the process; by kHost they are ordinary
// memory that is only worked on through a staging block.
class OptimizerState {
 public:
  // Throws std::runtime_error, one line, where the file cannot be made or the disk has no room.
  OptimizerState(size_t count, const OffloadOptions& options);
  ~OptimizerState();
  OptimizerState(const OptimizerState&) = delete;
  OptimizerState& operator=(const OptimizerState&) = delete;

  size_t resident() const { return resident_; }  // parameters before the first offloaded one
  std::span<float> master() const { return {at_[0], count_}; }
  std::span<float> first() const { return {at_[1], count_}; }
  std::span<float> second() const { return {at_[2], count_}; }

  // The parameters [begin, end) have been written back: their pages need not stay in memory.
  void Release(size_t begin, size_t end) const;

 private:
  const size_t count_;
  const size_t resident_;
  const bool file_;
  void* memory_ = nullptr;
  size_t bytes_ = 0;
  float* at_[3] = {};
};

}  // namespace poolscope::trainer
