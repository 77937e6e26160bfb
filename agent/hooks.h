#pragma once

#include "agent/nvtx.h"

namespace poolscope::agent {

// Fills the function tables of one NVTX client library (core and core2). False: they are not as
// this NVTX version has them.
bool HookCore(NvtxGetExportTableFunc_t get_export_table);

// Fills the slots of NVTX's payload or counters extension in one client library.
void HookPayloads(const nvtxExtModuleSegment_t& segment);
void HookCounters(const nvtxExtModuleSegment_t& segment);

}  // namespace poolscope::agent
