#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "reference-trainer/crossing.h"
#include "reference-trainer/link.h"

namespace CLI {
class App;
}

namespace poolscope::trainer {

struct Options;

// One link's wire.
struct WireOptions {
  bool reliability_given = false;
  bool reliable = true;  // false: best effort
  Faults faults;

  // Whether messages cross in blocks, by sequence number and checksum.
  bool in_blocks() const { return reliability_given || faults.any(); }
};

struct ReliabilityOptions {
  WireOptions gradients, weights;
  WireOptions requests;      // of parameter fetch
  uint64_t block_bytes = 0;  // 0: a message is one block
  int64_t timeout_ns = 0;    // 0: by the link's latency
  uint32_t limit = 10;       // tries
};

void AddReliabilityOptions(CLI::App& app, ReliabilityOptions& reliability);

// What is wrong with these together, in one line, or "".
std::string CheckReliability(const CLI::App& app, const Options& options);

// How a link of this shape is crossed; none: as if its wire were perfect.
std::optional<CrossingRules> RulesOf(const ReliabilityOptions& reliability, const WireOptions& wire,
                                     const Link::Shape& shape, uint64_t seed);

}  // namespace poolscope::trainer
