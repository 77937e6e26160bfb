#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace poolscope::trainer {

struct Options;

// A worker of a pool, by name: "compute/2".
struct WorkerName {
  std::string pool;
  uint64_t index = 0;
};

// Workers and links that are slower than the others, on purpose.
struct SlownessOptions {
  struct Slow {  // operations of steps [from, to] take `factor` times as long
    WorkerName worker;
    double factor = 1;
    uint64_t from = 0;
    uint64_t to = UINT64_MAX;
  };
  struct Stall {  // the first operation of `step` or of a later one is held up once
    WorkerName worker;
    uint64_t step = 0;
    double seconds = 0;
  };
  struct Pause {  // around each transfer: of the sender before the hand-over, of the receiver after
    std::string link;
    double before_seconds = 0;
    double after_seconds = 0;
  };
  std::vector<Slow> slow;
  std::vector<Stall> stalls;
  std::vector<Pause> pauses;

  // Seconds that the sender (or the receiver) of a message on `link` pauses.
  double Before(const std::string& link) const;
  double After(const std::string& link) const;
};

void AddSlownessOptions(CLI::App& app, SlownessOptions& slowness);
// What is wrong with them beside the others: one line, or "".
std::string CheckSlowness(const Options& options);

void AnnotateSlowness(const SlownessOptions& slowness);

}  // namespace poolscope::trainer
