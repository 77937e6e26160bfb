#pragma once

#include <span>

#include "agent/nvtx.h"

namespace poolscope::agent {

struct Hook {
  unsigned int id;
  NvtxFunctionPointer function;
};

template <typename F>
NvtxFunctionPointer Generic(F* function) {
  return reinterpret_cast<NvtxFunctionPointer>(function);
}

// Puts the functions into a module's table. False: the client has no such module.
bool Fill(const NvtxExportTableCallbacks& callbacks, NvtxCallbackModule module,
          std::span<const Hook> hooks);

// Fills the function tables of one NVTX client library. False: core and core2 are not as this NVTX
// version has them.
bool HookCore(NvtxGetExportTableFunc_t get_export_table);

// Fills those of CUDA, CUDA runtime, OpenCL and synchronisation, where the client has them.
void HookObjects(const NvtxExportTableCallbacks& callbacks);

// Fills the slots of NVTX's payload or counters extension in one client library. HookDeferred is
// the part of HookPayloads for events of the past.
void HookPayloads(const nvtxExtModuleSegment_t& segment);
void HookDeferred(const nvtxExtModuleSegment_t& segment);
void HookCounters(const nvtxExtModuleSegment_t& segment);

template <typename F>
void FillSlot(const nvtxExtModuleSegment_t& segment, size_t slot, F* function) {
  if (slot < segment.slotCount) segment.functionSlots[slot] = reinterpret_cast<intptr_t>(function);
}

}  // namespace poolscope::agent
