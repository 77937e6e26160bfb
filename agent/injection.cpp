// The entry points that NVTX finds in the library named by NVTX_INJECTION64_PATH. It calls each
// once per client library (every shared object of the job has its own copy of NVTX).

#include "agent/hooks.h"
#include "agent/process.h"

#define POOLSCOPE_ENTRY extern "C" __attribute__((visibility("default")))

POOLSCOPE_ENTRY int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_export_table) {
  using namespace poolscope::agent;
  if (get_export_table == nullptr || !InitProcess()) return 0;
  if (HookCore(get_export_table)) return 1;
  SwitchOff("NVTX's function tables are not those of version 3");
  return 0;
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
