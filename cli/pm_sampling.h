#pragma once

#include <string>

#include "trace/result.h"

namespace CLI {
class App;
}

namespace poolscope {

// --pm-sampling MS: devices' counters sampled by their hardware. 0: not asked for.
void AddPmSamplingFlag(CLI::App& command, int& interval_ms);

// The variable that tells the job's agent.
inline constexpr char kPmSamplingVariable[] = "POOLSCOPE_PM_SAMPLING_MS";

// Whether NVIDIA's driver lets a process like this one sample. The value says by what; the error
// why not and what to do, or that there is no driver.
Result<std::string> PmSamplingPermission();

}  // namespace poolscope
