// The entry points that NVTX finds in the library named by NVTX_INJECTION64_PATH, and CUDA in that
// of CUDA_INJECTION64_PATH. NVTX calls each of its own once per client library (every shared object
// of the job has its own copy of NVTX), CUDA's driver calls its one when a process initialises it.

#include "agent/cupti_source.h"
#include "agent/hooks.h"
#include "agent/process.h"

#define POOLSCOPE_ENTRY extern "C" __attribute__((visibility("default")))

POOLSCOPE_ENTRY int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_export_table) {
  using namespace poolscope::agent;
  using poolscope::AgentOff;
  if (get_export_table == nullptr || !InitProcess()) return 0;
  if (HookCore(get_export_table)) return 1;
  SwitchOff("NVTX's function tables are not those of version 3", AgentOff::kNvtxTables);
  return 0;
}

// CUDA goes on whatever comes back.
POOLSCOPE_ENTRY int InitializeInjection() {
  using namespace poolscope::agent;
  if (InitProcess()) cupti::Start();
  return 1;
}

// A segment that is not known keeps its slots: NVTX makes them no-ops.
POOLSCOPE_ENTRY int InitializeInjectionNvtxExtension(nvtxExtModuleInfo_t* module) {
  using namespace poolscope::agent;
  if (module == nullptr || module->segmentsCount == 0 || module->segments == nullptr ||
      !InitProcess()) {
    return 0;
  }
  switch (module->moduleId) {
    case NVTX_EXT_PAYLOAD_MODULEID:
      HookPayloads(module->segments[0]);
      return 1;
    case NVTX_EXT_COUNTERS_MODULEID:
      HookCounters(module->segments[0]);
      return 1;
    default:
      return 0;
  }
}

// How the NVTX client in interface.cpp finds the agent; not exported.
extern "C" {
extern const NvtxInitializeInjectionNvtxFunc_t InitializeInjectionNvtx2_fnptr;
const NvtxInitializeInjectionNvtxFunc_t InitializeInjectionNvtx2_fnptr = InitializeInjectionNvtx2;
extern const NvtxExtInitializeInjectionFunc_t InitializeInjectionNvtxExtension_fnptr;
const NvtxExtInitializeInjectionFunc_t InitializeInjectionNvtxExtension_fnptr =
    InitializeInjectionNvtxExtension;
}
