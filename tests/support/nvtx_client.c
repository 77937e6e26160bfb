// nvtx_client SCENARIO: loads the library that NVTX_INJECTION64_PATH names as NVTX itself would,
// with function tables of its own, so that a test sees every slot of every module, and can call
// functions whose NVTX headers need CUDA's or OpenCL's.

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtCounters.h>
#include <nvtx3/nvToolsExtPayload.h>

enum { kMaxSlots = 64, kExtensionSlots = 63 };

static NvtxFunctionPointer functions[NVTX_CB_MODULE_SIZE][kMaxSlots];
static NvtxFunctionPointer* tables[NVTX_CB_MODULE_SIZE][kMaxSlots];
static const unsigned int sizes[NVTX_CB_MODULE_SIZE] = {0,
                                                        NVTX_CBID_CORE_SIZE,
                                                        NVTX_CBID_CUDA_SIZE,
                                                        NVTX_CBID_OPENCL_SIZE,
                                                        NVTX_CBID_CUDART_SIZE,
                                                        NVTX_CBID_CORE2_SIZE,
                                                        NVTX_CBID_SYNC_SIZE};

static int GetModuleFunctionTable(NvtxCallbackModule module, NvtxFunctionTable* table,
                                  unsigned int* size) {
  if (module <= 0 || module >= NVTX_CB_MODULE_SIZE) return 0;
  for (unsigned int i = 1; i < sizes[module]; ++i) tables[module][i] = &functions[module][i];
  *table = tables[module];
  *size = sizes[module];
  return 1;
}

static const void* GetExportTable(uint32_t id) {
  static const NvtxExportTableCallbacks callbacks = {sizeof(NvtxExportTableCallbacks),
                                                     GetModuleFunctionTable};
  return id == NVTX_ETID_CALLBACKS ? &callbacks : NULL;
}

static void PrintUnset(const char* module, const intptr_t* slots, unsigned int from,
                       unsigned int to) {
  for (unsigned int i = from; i < to; ++i) {
    if (slots[i] == 0) printf("%s %u\n", module, i);
  }
}

static int Extension(void* agent, uint16_t module, intptr_t* slots) {
  nvtxExtModuleSegment_t segment = {0, kExtensionSlots, slots};
  nvtxExtModuleInfo_t info = {NVTX_VERSION, sizeof(info), module, 0x0104, 1, &segment, NULL, NULL};
  int (*init)(nvtxExtModuleInfo_t*) =
      (int (*)(nvtxExtModuleInfo_t*))dlsym(agent, "InitializeInjectionNvtxExtension");
  return init(&info);
}

static void Slots(void* agent) {
  static const char* const names[NVTX_CB_MODULE_SIZE] = {"",       "core",  "cuda", "opencl",
                                                         "cudart", "core2", "sync"};
  static intptr_t payload[kExtensionSlots], counters[kExtensionSlots], memory[kExtensionSlots];
  for (int module = 1; module < NVTX_CB_MODULE_SIZE; ++module) {
    PrintUnset(names[module], (const intptr_t*)functions[module], 1, sizes[module]);
  }
  printf("payload init %d\n", Extension(agent, NVTX_EXT_PAYLOAD_MODULEID, payload));
  PrintUnset("payload", payload, 0, NVTX3EXT_CBID_nvtxEventBatchSubmit + 1);
  printf("counters init %d\n", Extension(agent, NVTX_EXT_COUNTERS_MODULEID, counters));
  PrintUnset("counters", counters, 0, NVTX3EXT_CBID_nvtxCounterBatchSubmit + 1);
  printf("memory init %d\n", Extension(agent, 1, memory));
}

static void NameA(int module, int id, void* object, const char* name) {
  ((void (*)(void*, const char*))functions[module][id])(object, name);
}
static void NameW(int module, int id, void* object, const wchar_t* name) {
  ((void (*)(void*, const wchar_t*))functions[module][id])(object, name);
}
static void NameDevice(int module, int id, int device, const char* name) {
  ((void (*)(int, const char*))functions[module][id])(device, name);
}

static void Objects(void) {
  NameDevice(NVTX_CB_MODULE_CUDA, NVTX_CBID_CUDA_NameCuDeviceA, 3, "the third");
  NameA(NVTX_CB_MODULE_CUDA, NVTX_CBID_CUDA_NameCuContextA, (void*)0x100, "main context");
  NameW(NVTX_CB_MODULE_CUDA, NVTX_CBID_CUDA_NameCuStreamW, (void*)0x200, L"copies \u00e9");
  NameA(NVTX_CB_MODULE_CUDA, NVTX_CBID_CUDA_NameCuEventA, (void*)0x300, "done");
  NameDevice(NVTX_CB_MODULE_CUDART, NVTX_CBID_CUDART_NameCudaDeviceA, 1, "update device");
  NameA(NVTX_CB_MODULE_CUDART, NVTX_CBID_CUDART_NameCudaStreamA, (void*)0x400, "compute");
  NameA(NVTX_CB_MODULE_CUDART, NVTX_CBID_CUDART_NameCudaEventA, (void*)0x500, "step");
  NameA(NVTX_CB_MODULE_OPENCL, NVTX_CBID_OPENCL_NameClCommandQueueA, (void*)0x600, "queue");
}

int main(int argc, char** argv) {
  void* agent = dlopen(getenv("NVTX_INJECTION64_PATH"), RTLD_LAZY);
  int (*init)(NvtxGetExportTableFunc_t) =
      agent != NULL ? (int (*)(NvtxGetExportTableFunc_t))dlsym(agent, "InitializeInjectionNvtx2")
                    : NULL;
  if (init == NULL || argc != 2) {
    fprintf(stderr, "nvtx_client: no agent, or no scenario\n");
    return 1;
  }
  printf("init %d\n", init(GetExportTable));
  if (strcmp(argv[1], "slots") == 0) Slots(agent);
  if (strcmp(argv[1], "objects") == 0) Objects();
  return 0;
}
