// The floor that the agent is measured against: an injected NVTX tool whose push and pop read the
// TSC and do nothing else.

#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>

#include "trace/clock.h"

namespace {

volatile uint64_t last_ticks;

int Push(const char*) {
  last_ticks = poolscope::ReadTicks(poolscope::ClockKind::kTsc);
  return 0;
}

int Pop() {
  last_ticks = poolscope::ReadTicks(poolscope::ClockKind::kTsc);
  return 0;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    NvtxGetExportTableFunc_t get_export_table) {
  const auto* callbacks =
      static_cast<const NvtxExportTableCallbacks*>(get_export_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned int size = 0;
  callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &size);
  *table[NVTX_CBID_CORE_RangePushA] = reinterpret_cast<NvtxFunctionPointer>(Push);
  *table[NVTX_CBID_CORE_RangePop] = reinterpret_cast<NvtxFunctionPointer>(Pop);
  return 1;
}
