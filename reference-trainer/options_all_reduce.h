#pragma once

#include <string>

#include "reference-trainer/link.h"

namespace CLI {
class App;
}

namespace poolscope::trainer {

struct Options;

// The collective inside the compute pool.
struct AllReduceOptions {
  bool on = false;  // one sum of gradients goes out, made inside the pool
  Link::Shape hop;  // from one worker to the next; each has a wire of its own
};

// The switch; the flags of its hops are a link's.
void AddAllReduceOptions(CLI::App& app, AllReduceOptions& all_reduce);
// What is wrong with them beside the others: one line, or "".
std::string CheckAllReduce(const CLI::App& app, const Options& options);

void AnnotateAllReduce(const AllReduceOptions& all_reduce);

}  // namespace poolscope::trainer
