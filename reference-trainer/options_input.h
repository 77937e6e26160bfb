#pragma once

#include <cstdint>
#include <string>

namespace CLI {
class App;
}

namespace poolscope::trainer {

struct Options;

// How micro-batches come to the compute workers.
struct InputOptions {
  double delay_seconds = 0;  // that preparing one takes
  uint64_t workers = 0;      // threads that prepare; 0: a worker prepares its own when it needs it
  uint64_t prefetch = 2;     // ready before anybody asks, of all workers

  bool any() const { return delay_seconds > 0 || workers > 0; }
};

void AddInputOptions(CLI::App& app, InputOptions& input);
// What is wrong with them beside the others: one line, or "".
std::string CheckInput(const CLI::App& app, const Options& options);

void AnnotateInput(const InputOptions& input);

}  // namespace poolscope::trainer
