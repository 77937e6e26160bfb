#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace poolscope::trainer {

// Which micro-batches of the data are part of the updates made: all before `next`, less `open`.
struct DataPosition {
  uint64_t next = 0;
  std::vector<uint64_t> open;  // ascending

  bool operator==(const DataPosition&) const = default;
};

// What training goes on from. Arrays hold values of the whole model in the order of its flat
// parameters, however many workers had them, so that any number of workers can go on:
//   master_weights, first_moment, second_moment
//   sent_weights   1bit-delta: what the replicas hold
//   residual/I     error feedback of compute worker I's gradients
//   replica/I      weights of compute worker I; of a full checkpoint
// No arrays where nothing is computed.
struct TrainingState {
  uint64_t step = 0;  // updates made, which is the version of the weights
  DataPosition data;
  std::map<std::string, std::vector<float>> arrays;
};

}  // namespace poolscope::trainer
