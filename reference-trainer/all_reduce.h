#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "reference-trainer/worker.h"

namespace poolscope::trainer {

// One compute worker's part in a ring all-reduce (Patarasuk, Yuan 2009) over the link `allreduce`:
// each of R ranks passes 2 (R − 1) ÷ R of the values on to the next one, in R chunks. Chunk c is
// summed in the order c, c + 1, ..., c − 1 of the ranks; then the sums go round.
//
// The worker is in wait_peer throughout, but while it adds, which is its work.
class AllReduce {
 public:
  // Of compute worker `index`, whose device and signal these are; all outlive it.
  AllReduce(Job& job, Worker& worker, size_t index, Device& device, Signal& signal);

  // Compute workers 0 .. ranks − 1 each call this once a step. Makes `sum`, which says what this
  // one has computed, that of all; of values[parameters] (or empty) Of then has the sums. Throws
  // Abandoned.
  void Run(uint64_t ranks, MessageFields& sum, std::span<const float> values);
  // The sums of a shard, until the next call.
  std::span<const float> Of(const Ranges& ranges) { return Gather(values_, ranges, gathered_); }

 private:
  MessagePtr Take(uint64_t step, uint64_t hop);

  Job& job_;
  Worker& worker_;
  const size_t index_;
  Device& device_;
  Signal& signal_;
  std::vector<float> values_;     // [parameters]
  std::vector<float> gathered_;   // of a shard, where it has several ranges
  std::deque<MessagePtr> early_;  // pieces that came before their turn
};

}  // namespace poolscope::trainer
