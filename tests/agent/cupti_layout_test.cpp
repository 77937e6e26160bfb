// The agent's declarations of CUPTI against NVIDIA's header, where it is there; see CMakeLists.txt.

#include "agent/cupti_layout.h"

#include <cupti.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>

#include "agent/cupti_memory.h"
#include "agent/cupti_sampling_layout.h"
#if CUPTI_API_VERSION >= 26
#include <cupti_pmsampling.h>
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_target.h>
#endif

namespace poolscope::agent::cupti {
namespace {

#if CUPTI_API_VERSION >= 24
using RealMemory = CUpti_ActivityMemory4;
#else
using RealMemory = CUpti_ActivityMemory3;
#endif
#if CUPTI_API_VERSION >= 130000
using RealPool = CUpti_ActivityMemoryPool3;
#else
using RealPool = CUpti_ActivityMemoryPool2;
#endif
#if CUPTI_API_VERSION >= 130500
using RealKernel = CUpti_ActivityKernel13;
using RealMemcpy = CUpti_ActivityMemcpy7;
using RealMemset = CUpti_ActivityMemset5;
using RealContext = CUpti_ActivityContext4;
#elif CUPTI_API_VERSION >= 130000 && CUPTI_API_VERSION < 130100
using RealKernel = CUpti_ActivityKernel10;
using RealMemcpy = CUpti_ActivityMemcpy6;
using RealMemset = CUpti_ActivityMemset4;
using RealContext = CUpti_ActivityContext3;
#elif CUPTI_API_VERSION >= 26 && CUPTI_API_VERSION < 100
using RealKernel = CUpti_ActivityKernel9;
using RealMemcpy = CUpti_ActivityMemcpy6;
using RealMemset = CUpti_ActivityMemset4;
using RealContext = CUpti_ActivityContext3;
#else
using RealKernel = CUpti_ActivityKernel8;
using RealMemcpy = CUpti_ActivityMemcpy5;
using RealMemset = CUpti_ActivityMemset4;
using RealContext = CUpti_ActivityContext;
#endif

// A field of ours lies where one of NVIDIA's does, and is as wide.
#define EXPECT_AT(ours, field, real, real_field)                                            \
  do {                                                                                      \
    EXPECT_EQ(offsetof(ours, field), offsetof(real, real_field));                           \
    EXPECT_EQ(sizeof(std::declval<ours>().field), sizeof(std::declval<real>().real_field)); \
  } while (false)

TEST(CuptiLayout, Kernel_IsAsInTheHeader) {
  EXPECT_LE(sizeof(KernelRecord), sizeof(RealKernel));
  EXPECT_AT(KernelRecord, registers, RealKernel, registersPerThread);
  EXPECT_AT(KernelRecord, start, RealKernel, start);
  EXPECT_AT(KernelRecord, end, RealKernel, end);
  EXPECT_AT(KernelRecord, device, RealKernel, deviceId);
  EXPECT_AT(KernelRecord, context, RealKernel, contextId);
  EXPECT_AT(KernelRecord, stream, RealKernel, streamId);
  EXPECT_AT(KernelRecord, grid[0], RealKernel, gridX);
  EXPECT_AT(KernelRecord, grid[2], RealKernel, gridZ);
  EXPECT_AT(KernelRecord, block[0], RealKernel, blockX);
  EXPECT_AT(KernelRecord, block[2], RealKernel, blockZ);
  EXPECT_AT(KernelRecord, static_shared_bytes, RealKernel, staticSharedMemory);
  EXPECT_AT(KernelRecord, dynamic_shared_bytes, RealKernel, dynamicSharedMemory);
  EXPECT_AT(KernelRecord, correlation, RealKernel, correlationId);
  EXPECT_AT(KernelRecord, name, RealKernel, name);
  EXPECT_AT(KernelRecord, graph_node, RealKernel, graphNodeId);
  EXPECT_AT(KernelRecord, graph, RealKernel, graphId);
}

TEST(CuptiLayout, Copies_AreAsInTheHeader) {
  EXPECT_LE(sizeof(MemcpyRecord), sizeof(RealMemcpy));
  EXPECT_AT(MemcpyRecord, copy_kind, RealMemcpy, copyKind);
  EXPECT_AT(MemcpyRecord, from_kind, RealMemcpy, srcKind);
  EXPECT_AT(MemcpyRecord, to_kind, RealMemcpy, dstKind);
  EXPECT_AT(MemcpyRecord, bytes, RealMemcpy, bytes);
  EXPECT_AT(MemcpyRecord, start, RealMemcpy, start);
  EXPECT_AT(MemcpyRecord, end, RealMemcpy, end);
  EXPECT_AT(MemcpyRecord, device, RealMemcpy, deviceId);
  EXPECT_AT(MemcpyRecord, context, RealMemcpy, contextId);
  EXPECT_AT(MemcpyRecord, stream, RealMemcpy, streamId);
  EXPECT_AT(MemcpyRecord, correlation, RealMemcpy, correlationId);
  using RealPeer = CUpti_ActivityMemcpyPtoP4;
  EXPECT_LE(sizeof(MemcpyPeerRecord), sizeof(RealPeer));
  EXPECT_AT(MemcpyPeerRecord, bytes, RealPeer, bytes);
  EXPECT_AT(MemcpyPeerRecord, start, RealPeer, start);
  EXPECT_AT(MemcpyPeerRecord, device, RealPeer, deviceId);
  EXPECT_AT(MemcpyPeerRecord, from_device, RealPeer, srcDeviceId);
  EXPECT_AT(MemcpyPeerRecord, to_device, RealPeer, dstDeviceId);
  EXPECT_AT(MemcpyPeerRecord, correlation, RealPeer, correlationId);
  EXPECT_LE(sizeof(MemsetRecord), sizeof(RealMemset));
  EXPECT_AT(MemsetRecord, bytes, RealMemset, bytes);
  EXPECT_AT(MemsetRecord, start, RealMemset, start);
  EXPECT_AT(MemsetRecord, device, RealMemset, deviceId);
  EXPECT_AT(MemsetRecord, correlation, RealMemset, correlationId);
}

TEST(CuptiLayout, Memory_IsAsInTheHeader) {
  EXPECT_LE(sizeof(MemoryRecord), sizeof(RealMemory));
  EXPECT_AT(MemoryRecord, operation, RealMemory, memoryOperationType);
  EXPECT_AT(MemoryRecord, memory, RealMemory, memoryKind);
  EXPECT_AT(MemoryRecord, correlation, RealMemory, correlationId);
  EXPECT_AT(MemoryRecord, address, RealMemory, address);
  EXPECT_AT(MemoryRecord, bytes, RealMemory, bytes);
  EXPECT_AT(MemoryRecord, start, RealMemory, timestamp);
  EXPECT_AT(MemoryRecord, device, RealMemory, deviceId);
  EXPECT_AT(MemoryRecord, context, RealMemory, contextId);
  EXPECT_AT(MemoryRecord, stream, RealMemory, streamId);
  EXPECT_AT(MemoryRecord, variable, RealMemory, name);
  EXPECT_AT(MemoryRecord, is_async, RealMemory, isAsync);
  EXPECT_AT(MemoryRecord, pool_type, RealMemory, memoryPoolConfig.memoryPoolType);
  EXPECT_AT(MemoryRecord, pool, RealMemory, memoryPoolConfig.address);
  EXPECT_AT(MemoryRecord, pool_bytes, RealMemory, memoryPoolConfig.pool.size);
  EXPECT_LE(sizeof(MemoryPoolRecord), sizeof(RealPool));
  EXPECT_AT(MemoryPoolRecord, operation, RealPool, memoryPoolOperationType);
  EXPECT_AT(MemoryPoolRecord, pool_type, RealPool, memoryPoolType);
  EXPECT_AT(MemoryPoolRecord, correlation, RealPool, correlationId);
  EXPECT_AT(MemoryPoolRecord, device, RealPool, deviceId);
  EXPECT_AT(MemoryPoolRecord, pool, RealPool, address);
  EXPECT_AT(MemoryPoolRecord, pool_bytes, RealPool, size);
  EXPECT_AT(MemoryPoolRecord, start, RealPool, timestamp);
  EXPECT_EQ(uint32_t{CUPTI_ACTIVITY_MEMORY_POOL_TYPE_LOCAL}, kLocalPool);
  const auto operation = [](uint32_t real, MemoryOperation ours) {
    EXPECT_EQ(real, static_cast<uint32_t>(ours));
  };
  operation(CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION, MemoryOperation::kAllocate);
  operation(CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE, MemoryOperation::kRelease);
  operation(CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_CREATED + 2, MemoryOperation::kCreatePool);
  operation(CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_DESTROYED + 2, MemoryOperation::kDestroyPool);
  operation(CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_TRIMMED + 2, MemoryOperation::kTrimPool);
  const auto kind = [](uint32_t real, MemoryKind ours) {
    EXPECT_EQ(real, static_cast<uint32_t>(ours));
  };
  kind(CUPTI_ACTIVITY_MEMORY_KIND_PINNED, MemoryKind::kPinned);
  kind(CUPTI_ACTIVITY_MEMORY_KIND_DEVICE, MemoryKind::kDevice);
  kind(CUPTI_ACTIVITY_MEMORY_KIND_MANAGED, MemoryKind::kManaged);
  kind(CUPTI_ACTIVITY_MEMORY_KIND_DEVICE_STATIC, MemoryKind::kDeviceStatic);
  kind(CUPTI_ACTIVITY_MEMORY_KIND_MANAGED_STATIC, MemoryKind::kManagedStatic);
}

TEST(CuptiLayout, OtherRecords_AreAsInTheHeader) {
  using RealOverhead = CUpti_ActivityOverhead;
  using RealSynchronization = CUpti_ActivitySynchronization;  // later ones begin the same
  EXPECT_LE(sizeof(SynchronizationRecord), sizeof(RealSynchronization));
  EXPECT_AT(SynchronizationRecord, type, RealSynchronization, type);
  EXPECT_AT(SynchronizationRecord, start, RealSynchronization, start);
  EXPECT_AT(SynchronizationRecord, correlation, RealSynchronization, correlationId);
  EXPECT_AT(SynchronizationRecord, context, RealSynchronization, contextId);
  EXPECT_AT(SynchronizationRecord, stream, RealSynchronization, streamId);
  EXPECT_AT(OverheadRecord, type, RealOverhead, overheadKind);
  EXPECT_AT(OverheadRecord, object_kind, RealOverhead, objectKind);
  EXPECT_AT(OverheadRecord, object[1], RealOverhead, objectId.pt.threadId);
  EXPECT_AT(OverheadRecord, start, RealOverhead, start);
  EXPECT_AT(OverheadRecord, end, RealOverhead, end);
#if CUPTI_API_VERSION >= 22
  EXPECT_AT(LongOverheadRecord, details, CUpti_ActivityOverhead3, overheadData);
#endif
  EXPECT_EQ(uint32_t{CUPTI_ACTIVITY_OBJECT_THREAD}, kObjectThread);
  EXPECT_LE(sizeof(ApiRecord), sizeof(CUpti_ActivityAPI));
  EXPECT_AT(ApiRecord, start, CUpti_ActivityAPI, start);
  EXPECT_AT(ApiRecord, thread, CUpti_ActivityAPI, threadId);
  EXPECT_AT(ApiRecord, correlation, CUpti_ActivityAPI, correlationId);
  EXPECT_LE(sizeof(ContextRecord), sizeof(RealContext));
  EXPECT_AT(ContextRecord, context, RealContext, contextId);
  EXPECT_AT(ContextRecord, device, RealContext, deviceId);
}

TEST(CuptiLayout, Callbacks_AreAsInTheHeader) {
  EXPECT_AT(CallbackData, site, CUpti_CallbackData, callbackSite);
  EXPECT_AT(CallbackData, correlation, CUpti_CallbackData, correlationId);
#if CUPTI_API_VERSION >= 130000
  EXPECT_EQ(sizeof(SubscriberParameters), CUpti_SubscriberParams_STRUCT_SIZE);
  EXPECT_AT(SubscriberParameters, holder, CUpti_SubscriberParams, oldSubscriberName);
  EXPECT_AT(SubscriberParameters, holder_bytes, CUpti_SubscriberParams, oldSubscriberSize);
#endif
}

TEST(CuptiLayout, Numbers_AreAsInTheHeader) {
  EXPECT_EQ(int{CUPTI_ERROR_MAX_LIMIT_REACHED}, kMaxLimitReached);
  EXPECT_EQ(int{CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED}, kMultipleSubscribers);
  EXPECT_EQ(int{CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER}, kZeroedOutBuffer);
  EXPECT_EQ(uint32_t{CUPTI_ACTIVITY_FLAG_FLUSH_FORCED}, kFlushForced);
  EXPECT_EQ(uint32_t{CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM}, kThreadIdOfSystem);
  EXPECT_EQ(int{CUPTI_API_ENTER}, kApiEnter);
  EXPECT_EQ(uint32_t{CUPTI_CB_DOMAIN_DRIVER_API}, kDriverApi);
  EXPECT_EQ(uint32_t{CUPTI_CB_DOMAIN_RUNTIME_API}, kRuntimeApi);
  const auto same = [](CUpti_ActivityKind real, Kind ours) {
    EXPECT_EQ(static_cast<uint32_t>(real), static_cast<uint32_t>(ours));
  };
  same(CUPTI_ACTIVITY_KIND_MEMCPY, Kind::kMemcpy);
  same(CUPTI_ACTIVITY_KIND_MEMSET, Kind::kMemset);
  same(CUPTI_ACTIVITY_KIND_DRIVER, Kind::kDriver);
  same(CUPTI_ACTIVITY_KIND_RUNTIME, Kind::kRuntime);
  same(CUPTI_ACTIVITY_KIND_CONTEXT, Kind::kContext);
  same(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, Kind::kConcurrentKernel);
  same(CUPTI_ACTIVITY_KIND_OVERHEAD, Kind::kOverhead);
  same(CUPTI_ACTIVITY_KIND_MEMCPY2, Kind::kMemcpyPeer);
  same(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, Kind::kSynchronization);
  same(CUPTI_ACTIVITY_KIND_MEMORY2, Kind::kMemory);
  same(CUPTI_ACTIVITY_KIND_MEMORY_POOL, Kind::kMemoryPool);
}

#if CUPTI_API_VERSION >= 26
template <typename T, typename Member>
size_t OffsetIn(const T& object, const Member& member) {
  return static_cast<size_t>(reinterpret_cast<const char*>(&member) -
                             reinterpret_cast<const char*>(&object));
}

// Ours end with a member that lies where NVIDIA's last one does, and are as long.
#define EXPECT_PARAMETERS(Ours, last, Real, real_last)                                     \
  do {                                                                                     \
    const Ours ours;                                                                       \
    EXPECT_EQ(OffsetIn(ours, ours.last), offsetof(Real, real_last)) << #Ours;              \
    EXPECT_EQ(sizeof(ours.last), sizeof(std::declval<Real>().real_last));                  \
    EXPECT_EQ(offsetof(Real, real_last) + sizeof(ours.last), Real##_STRUCT_SIZE) << #Ours; \
  } while (false)

TEST(CuptiLayout, SamplingParameters_AreAsInTheHeader) {
  EXPECT_PARAMETERS(Parameters, priv, CUpti_Profiler_Initialize_Params, pPriv);
  EXPECT_PARAMETERS(ChipName, chip, CUpti_Device_GetChipName_Params, pChipName);
  EXPECT_PARAMETERS(HostDeinitialize, host, CUpti_Profiler_Host_Deinitialize_Params, pHostObject);
  EXPECT_PARAMETERS(HostAddMetrics, count, CUpti_Profiler_Host_ConfigAddMetrics_Params, numMetrics);
  EXPECT_PARAMETERS(HostConfigSize, config_bytes, CUpti_Profiler_Host_GetConfigImageSize_Params,
                    configImageSize);
  EXPECT_PARAMETERS(HostConfig, config, CUpti_Profiler_Host_GetConfigImage_Params, pConfigImage);
  EXPECT_PARAMETERS(HostPasses, passes, CUpti_Profiler_Host_GetNumOfPasses_Params, numOfPasses);
  EXPECT_PARAMETERS(HostEvaluate, values, CUpti_Profiler_Host_EvaluateToGpuValues_Params,
                    pMetricValues);
  EXPECT_PARAMETERS(Availability, image, CUpti_PmSampling_GetCounterAvailability_Params,
                    pCounterAvailabilityImage);
  EXPECT_PARAMETERS(SamplingEnable, object, CUpti_PmSampling_Enable_Params, pPmSamplingObject);
  EXPECT_PARAMETERS(SamplingObject, object, CUpti_PmSampling_Start_Params, pPmSamplingObject);
  EXPECT_PARAMETERS(SamplingConfig, append, CUpti_PmSampling_SetConfig_Params, hwBufferAppendMode);
  EXPECT_PARAMETERS(SamplingDataSize, data_bytes, CUpti_PmSampling_GetCounterDataSize_Params,
                    counterDataSize);
  EXPECT_PARAMETERS(SamplingDataInitialize, data,
                    CUpti_PmSampling_CounterDataImage_Initialize_Params, pCounterData);
  EXPECT_PARAMETERS(SamplingDecode, overflow, CUpti_PmSampling_DecodeData_Params, overflow);
  EXPECT_PARAMETERS(SamplingDataInfo, completed, CUpti_PmSampling_GetCounterDataInfo_Params,
                    numCompletedSamples);
  EXPECT_PARAMETERS(SamplingSample, end, CUpti_PmSampling_CounterData_GetSampleInfo_Params,
                    endTimestamp);
  const HostInitialize host;  // newer headers have more at its end
  EXPECT_EQ(OffsetIn(host, host.host),
            offsetof(CUpti_Profiler_Host_Initialize_Params, pHostObject));
  EXPECT_EQ(int{CUPTI_PROFILER_TYPE_PM_SAMPLING}, kPmSampling);
  EXPECT_EQ(int{CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_TIME_INTERVAL}, kEveryNanoseconds);
  EXPECT_EQ(int{CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_SYSCLK_INTERVAL}, kEverySystemClocks);
  EXPECT_EQ(int{CUPTI_PM_SAMPLING_HARDWARE_BUFFER_APPEND_MODE_KEEP_OLDEST}, kKeepOldest);
}
#endif

// The real library walks records without a device: it must find ours as long as the stand-in makes
// them.
TEST(CuptiLayout, RecordSizes_AreTheLibrarys) {
  void* library = dlopen(CUPTI_REAL_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  void* standin = dlopen(CUPTI_STANDIN_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) GTEST_SKIP() << "no libcupti: " << dlerror();
  ASSERT_NE(standin, nullptr) << dlerror();
  using Next = int (*)(uint8_t*, size_t, uint8_t**);
  const auto real = reinterpret_cast<Next>(dlsym(library, "cuptiActivityGetNextRecord"));
  const auto ours = reinterpret_cast<Next>(dlsym(standin, "cuptiActivityGetNextRecord"));
  uint32_t version = 0;
  reinterpret_cast<int (*)(uint32_t*)>(dlsym(library, "cuptiGetVersion"))(&version);
  ASSERT_EQ(version, uint32_t{CUPTI_API_VERSION});
  reinterpret_cast<bool (*)(const char*)>(dlsym(standin, "standin_cupti_line"))(
      ("version " + std::to_string(version)).c_str());
  for (const uint32_t kind : {1, 2, 4, 5, 9, 10, 17, 22, 38, 49, 50}) {
    alignas(8) uint8_t buffer[4096] = {};
    for (size_t at = 0; at < sizeof(buffer); at += 8) memcpy(buffer + at, &kind, 4);
    uint8_t *record = buffer, *expected = buffer;
    ASSERT_EQ(real(buffer, sizeof(buffer), &record), kSuccess) << kind;
    ASSERT_EQ(ours(buffer, sizeof(buffer), &expected), kSuccess) << kind;
    EXPECT_EQ(record - buffer, expected - buffer) << kind;
  }
}

// Launches are found by the names that the real library gives its callbacks.
TEST(CuptiLayout, CallbackNames_BeginAsTheAgentExpects) {
  void* library = dlopen(CUPTI_REAL_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) GTEST_SKIP() << "no libcupti: " << dlerror();
  const auto name_of = reinterpret_cast<int (*)(uint32_t, uint32_t, const char**)>(
      dlsym(library, "cuptiGetCallbackName"));
  const auto name = [&](uint32_t domain, uint32_t id) {
    const char* text = nullptr;
    return name_of(domain, id, &text) == kSuccess && text != nullptr ? std::string(text) : "";
  };
  EXPECT_TRUE(name(kDriverApi, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel).starts_with("cuLaunch"));
  EXPECT_TRUE(name(kDriverApi, CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch).starts_with("cuGraphLaunch"));
  EXPECT_TRUE(
      name(kDriverApi, CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2).starts_with("cuMemcpy"));
  EXPECT_TRUE(
      name(kRuntimeApi, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000).starts_with("cudaLaunch"));
  EXPECT_TRUE(name(kRuntimeApi, CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000)
                  .starts_with("cudaGraphLaunch"));
  EXPECT_TRUE(
      name(kRuntimeApi, CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_v3020).starts_with("cudaMemset"));
  EXPECT_TRUE(
      name(kRuntimeApi, CUPTI_RUNTIME_TRACE_CBID_cudaMallocAsync_v11020).starts_with("cudaMalloc"));
  EXPECT_TRUE(name(kRuntimeApi, CUPTI_RUNTIME_TRACE_CBID_cudaFree_v3020).starts_with("cudaFree"));
  EXPECT_TRUE(name(kDriverApi, CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2).starts_with("cuMemAlloc"));
  EXPECT_TRUE(name(kDriverApi, CUPTI_DRIVER_TRACE_CBID_cuMemFreeAsync).starts_with("cuMemFree"));
  EXPECT_TRUE(name(kDriverApi, CUPTI_DRIVER_TRACE_CBID_cuMemPoolTrimTo).starts_with("cuMemPool"));
}

}  // namespace
}  // namespace poolscope::agent::cupti
