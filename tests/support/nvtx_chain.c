// An NVTX tool that passes everything on to the one that NVTX_CHAIN_NEXT names, with a function of
// its own in front of one of the other's.

#include <dlfcn.h>
#include <stdlib.h>

#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>

#define ENTRY __attribute__((visibility("default")))

ENTRY int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_export_table);

static nvtxRangePushA_impl_fntype next_push;

static int Push(const char* name) { return next_push(name); }

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_export_table) {
  void* library = dlopen(getenv("NVTX_CHAIN_NEXT"), RTLD_LAZY);
  int (*init)(NvtxGetExportTableFunc_t) =
      library ? (int (*)(NvtxGetExportTableFunc_t))dlsym(library, "InitializeInjectionNvtx2") : 0;
  if (init == 0 || init(get_export_table) == 0) return 0;
  const NvtxExportTableCallbacks* callbacks = get_export_table(NVTX_ETID_CALLBACKS);
  NvtxFunctionTable table;
  unsigned int size;
  callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &size);
  next_push = (nvtxRangePushA_impl_fntype)*table[NVTX_CBID_CORE_RangePushA];
  *table[NVTX_CBID_CORE_RangePushA] = (NvtxFunctionPointer)Push;
  return 1;
}
