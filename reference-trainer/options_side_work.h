#pragma once

#include <cstdint>
#include <string>

#include "reference-trainer/device_spec.h"

namespace CLI {
class App;
}

namespace poolscope::trainer {

struct Options;

// What the workers of a pool do while they have nothing else to do.
struct SideWorkOptions {
  enum class Kind { kNone, kSynthetic, kDataPreparation };
  Kind kind = Kind::kNone;
  PoolRole pool = PoolRole::kUpdate;
  double slice_seconds = 0.001;  // at most, before they look for their own work again
};

void AddSideWorkOptions(CLI::App& app, SideWorkOptions& side_work);
// What is wrong with them beside the others: one line, or "".
std::string CheckSideWork(const CLI::App& app, const Options& options);

void AnnotateSideWork(const SideWorkOptions& side_work);
const char* SideWorkName(SideWorkOptions::Kind kind);  // as the flag has it

}  // namespace poolscope::trainer
