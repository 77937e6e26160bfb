#pragma once

#include <cstdint>
#include <span>

#include "reference-trainer/wire_block.h"

namespace poolscope::trainer {

// What a bad network does. Probabilities are per block and try, acknowledgements included.
struct Faults {
  double loss = 0;
  double corruption = 0;  // up to 32 neighbouring bits
  double reorder = 0;     // held back, so that later blocks overtake it
  double duplicate = 0;
  int64_t delay_ns = 0;  // mean of what every block is late by, exponentially distributed

  bool any() const {
    return loss > 0 || corruption > 0 || reorder > 0 || duplicate > 0 || delay_ns > 0;
  }
};

// What the wire did and what the ends made of it, without probes. Blocks, acknowledgements included
// where not said otherwise.
struct FaultCounts {
  uint64_t losses = 0;         // injected
  uint64_t corruptions = 0;    // injected, and not lost
  uint64_t repeats = 0;        // injected
  uint64_t retries = 0;        // blocks of data sent again
  uint64_t retried_bytes = 0;  // of them
  uint64_t corrupt = 0;        // found damaged on arrival
  uint64_t duplicates = 0;     // blocks of data that had arrived before
  uint64_t lost = 0;           // best effort: messages that did not arrive
};

// What becomes of one block on one try.
struct Fate {
  bool lost = false;
  bool held = false;
  bool repeated = false;
  uint64_t damage = 0;  // 0: none, else what Damage() makes of it
  int64_t delay_ns = 0;
};

// Depends on nothing but its arguments: the same blocks meet the same faults whichever worker was
// first. `copy`: the second one of a repeated block.
Fate FateOf(const Faults& faults, uint64_t seed, const BlockHeader& block, bool copy);

// Inverts a burst of 1 to 32 bits, which every CRC of 32 bits detects.
void Damage(std::span<uint8_t> wire, uint64_t damage);

}  // namespace poolscope::trainer
