// The agent's declarations of CUPTI against NVIDIA's header, where it is there; see CMakeLists.txt.

#include "agent/cupti_layout.h"

#include <cupti.h>
#include <gtest/gtest.h>

namespace poolscope::agent::cupti {
namespace {

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

TEST(CuptiLayout, OtherRecords_AreAsInTheHeader) {
  using RealSynchronization = CUpti_ActivitySynchronization;  // later ones begin the same
  EXPECT_LE(sizeof(SynchronizationRecord), sizeof(RealSynchronization));
  EXPECT_AT(SynchronizationRecord, type, RealSynchronization, type);
  EXPECT_AT(SynchronizationRecord, start, RealSynchronization, start);
  EXPECT_AT(SynchronizationRecord, correlation, RealSynchronization, correlationId);
  EXPECT_AT(SynchronizationRecord, context, RealSynchronization, contextId);
  EXPECT_AT(SynchronizationRecord, stream, RealSynchronization, streamId);
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
}

}  // namespace
}  // namespace poolscope::agent::cupti
