#pragma once

#include <cstdint>

#include "agent/process.h"

namespace poolscope::agent::cupti {

// Says which device the process's number stands for, as CUDA's driver knows it: a mark of domain
// "cuda" with payload `cuda.device`. Nothing where the driver is not in the process or does not
// say. Inside an Inside, by the one thread that writes what devices do.
void DescribeDevice(ThreadWriter& writer, uint32_t device);

}  // namespace poolscope::agent::cupti
