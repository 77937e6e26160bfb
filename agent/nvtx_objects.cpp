// NVTX's modules for CUDA, the CUDA runtime, OpenCL and synchronisation: names of objects, and
// locks that jobs build themselves.

#include "agent/hooks.h"
#include "agent/objects.h"
#include "agent/payload_words.h"
#include "agent/process.h"
#include "agent/registry.h"
#include "agent/text.h"

namespace poolscope::agent {
namespace {

uint32_t Interned(const char* name) { return InternText(name); }
uint32_t Interned(const wchar_t* name) { return InternWide(name); }

uint64_t NumberOf(int id) { return static_cast<uint64_t>(int64_t{id}); }
uint64_t NumberOf(void* id) { return reinterpret_cast<uintptr_t>(id); }

constexpr char kDevice[] = "cuda device";
constexpr char kContext[] = "cuda context";
constexpr char kStream[] = "cuda stream";
constexpr char kEvent[] = "cuda event";
constexpr char kRuntimeDevice[] = "cuda runtime device";
constexpr char kClDevice[] = "opencl device";
constexpr char kClContext[] = "opencl context";
constexpr char kClQueue[] = "opencl command queue";
constexpr char kClMemory[] = "opencl memory object";
constexpr char kClSampler[] = "opencl sampler";
constexpr char kClProgram[] = "opencl program";
constexpr char kClEvent[] = "opencl event";

template <const char* kind, typename Id, typename Char>
void Name(Id id, const Char* name) {
  const Inside inside(true);
  if (inside) MarkObject(*inside, "named", kind, NumberOf(id), Interned(name));
}

// --- Locks of the job's own ---
// A handle is (sequence, domain, name), so that there is nothing to keep or to free.

constexpr uint32_t kNameBits = 17;
constexpr uint32_t kDomainBits = 10;
static_assert(kMaxStrings < 1u << kNameBits && kMaxDomains <= 1u << kDomainBits);

struct SyncObject {
  explicit SyncObject(nvtxSyncUser_t handle) : number(reinterpret_cast<uintptr_t>(handle)) {}
  SyncObject(uint64_t sequence, uint32_t domain, uint32_t name)
      : number((sequence << kDomainBits | domain) << kNameBits | name) {}
  uint32_t name() const { return StringOf(number & ((1u << kNameBits) - 1)); }
  uint32_t domain() const {
    return static_cast<uint32_t>(number >> kNameBits & ((1u << kDomainBits) - 1));
  }
  uint64_t number;
};

uint32_t SyncDomain() {
  static std::atomic<uint32_t> domain{0};
  uint32_t known = domain.load(std::memory_order_relaxed);
  if (known == 0) {
    known = RegisterDomain(InternText("nvtx.sync"));
    domain.store(known, std::memory_order_relaxed);
  }
  return known;
}

void AddWhat(ThreadWriter& writer, PayloadWords& words, const SyncObject& object,
             const char* what) {
  words.AddOwn(writer, OwnSchema::kSync,
               {InternText(what), object.number >> (kNameBits + kDomainBits),
                NameOfDomain(object.domain())});
}

nvtxSyncUser_t SyncCreate(nvtxDomainHandle_t domain, const nvtxSyncUserAttributes_t* attributes) {
  static std::atomic<uint64_t> created{0};
  const Registering registering;
  if (!registering) return nullptr;
  const bool named = attributes != nullptr && attributes->size >= NVTX_SYNCUSER_ATTRIB_STRUCT_SIZE;
  const SyncObject object(created.fetch_add(1, std::memory_order_relaxed) + 1, DomainOf(domain),
                          named ? InternMessage(attributes->messageType, attributes->message) : 0);
  return reinterpret_cast<nvtxSyncUser_t>(uintptr_t{object.number});
}

void SyncDestroy(nvtxSyncUser_t) {}

// Waiting for it is a range in a domain of its own, so that a call too many ends no other range.
void AcquireStart(nvtxSyncUser_t handle) {
  const Inside inside(false);
  if (inside) inside->Push(SyncDomain(), SyncObject(handle).name(), 0, {});
}

void AcquireEnd(nvtxSyncUser_t handle, const char* what) {
  const Inside inside(true);
  if (!inside) return;
  PayloadWords words;
  AddWhat(*inside, words, SyncObject(handle), what);
  inside->Pop(SyncDomain(), PayloadOf(words));
}
void AcquireFailed(nvtxSyncUser_t handle) { AcquireEnd(handle, "failed"); }
void AcquireSuccess(nvtxSyncUser_t handle) { AcquireEnd(handle, "acquired"); }

void Releasing(nvtxSyncUser_t handle) {
  const Inside inside(true);
  if (!inside) return;
  const SyncObject object(handle);
  PayloadWords words;
  AddWhat(*inside, words, object, "releasing");
  inside->Mark(SyncDomain(), object.name(), 0, PayloadOf(words));
}

}  // namespace

void MarkObject(ThreadWriter& writer, const char* what, const char* kind, uint64_t id,
                uint32_t name) {
  static std::atomic<uint32_t> domain{0};
  uint32_t known = domain.load(std::memory_order_relaxed);
  if (known == 0) {
    known = RegisterDomain(InternText("nvtx.object"));
    domain.store(known, std::memory_order_relaxed);
  }
  PayloadWords words;
  words.AddOwn(writer, OwnSchema::kObject, {InternText(what), InternText(kind), id});
  writer.Mark(known, name, 0, PayloadOf(words));
}

const char* ResourceKind(uint32_t type) {
  switch (type) {
    case NVTX_RESOURCE_TYPE_GENERIC_POINTER:
      return "pointer";
    case NVTX_RESOURCE_TYPE_GENERIC_HANDLE:
      return "handle";
    case NVTX_RESOURCE_TYPE_GENERIC_THREAD_NATIVE:
      return "thread";
    case NVTX_RESOURCE_TYPE_GENERIC_THREAD_POSIX:
      return "posix thread";
    case NVTX_RESOURCE_TYPE_SYNC_PTHREAD_MUTEX:
    case NVTX_RESOURCE_TYPE_SYNC_LINUX_MUTEX:
      return "mutex";
    case NVTX_RESOURCE_TYPE_SYNC_PTHREAD_CONDITION:
      return "condition";
    case NVTX_RESOURCE_TYPE_SYNC_PTHREAD_RWLOCK:
      return "read-write lock";
    case NVTX_RESOURCE_TYPE_SYNC_PTHREAD_BARRIER:
      return "barrier";
    case NVTX_RESOURCE_TYPE_SYNC_PTHREAD_SPINLOCK:
    case NVTX_RESOURCE_TYPE_SYNC_LINUX_SPINLOCK:
      return "spinlock";
    case NVTX_RESOURCE_TYPE_SYNC_PTHREAD_ONCE:
      return "once";
    case NVTX_RESOURCE_TYPE_SYNC_LINUX_FUTEX:
      return "futex";
    case NVTX_RESOURCE_TYPE_SYNC_LINUX_SEMAPHORE:
      return "semaphore";
    default:
      break;
  }
  // The classes whose headers need CUDA's or OpenCL's own.
  static constexpr const char* kCuda[] = {nullptr, kDevice, kContext, kStream, kEvent};
  static constexpr const char* kRuntime[] = {kRuntimeDevice, kStream, kEvent};
  const uint32_t index = type & 0xffff;
  if (type >> 16 == 4 && index - 1 < 4) return kCuda[index];
  if (type >> 16 == 5 && index < 3) return kRuntime[index];
  return "other";
}

void HookObjects(const NvtxExportTableCallbacks& callbacks) {
  const Hook cuda[] = {
      {NVTX_CBID_CUDA_NameCuDeviceA, Generic(Name<kDevice, int, char>)},
      {NVTX_CBID_CUDA_NameCuDeviceW, Generic(Name<kDevice, int, wchar_t>)},
      {NVTX_CBID_CUDA_NameCuContextA, Generic(Name<kContext, void*, char>)},
      {NVTX_CBID_CUDA_NameCuContextW, Generic(Name<kContext, void*, wchar_t>)},
      {NVTX_CBID_CUDA_NameCuStreamA, Generic(Name<kStream, void*, char>)},
      {NVTX_CBID_CUDA_NameCuStreamW, Generic(Name<kStream, void*, wchar_t>)},
      {NVTX_CBID_CUDA_NameCuEventA, Generic(Name<kEvent, void*, char>)},
      {NVTX_CBID_CUDA_NameCuEventW, Generic(Name<kEvent, void*, wchar_t>)},
  };
  // The runtime's streams and events are those of CUDA; its devices have numbers of their own.
  const Hook runtime[] = {
      {NVTX_CBID_CUDART_NameCudaDeviceA, Generic(Name<kRuntimeDevice, int, char>)},
      {NVTX_CBID_CUDART_NameCudaDeviceW, Generic(Name<kRuntimeDevice, int, wchar_t>)},
      {NVTX_CBID_CUDART_NameCudaStreamA, Generic(Name<kStream, void*, char>)},
      {NVTX_CBID_CUDART_NameCudaStreamW, Generic(Name<kStream, void*, wchar_t>)},
      {NVTX_CBID_CUDART_NameCudaEventA, Generic(Name<kEvent, void*, char>)},
      {NVTX_CBID_CUDART_NameCudaEventW, Generic(Name<kEvent, void*, wchar_t>)},
  };
  const Hook opencl[] = {
      {NVTX_CBID_OPENCL_NameClDeviceA, Generic(Name<kClDevice, void*, char>)},
      {NVTX_CBID_OPENCL_NameClDeviceW, Generic(Name<kClDevice, void*, wchar_t>)},
      {NVTX_CBID_OPENCL_NameClContextA, Generic(Name<kClContext, void*, char>)},
      {NVTX_CBID_OPENCL_NameClContextW, Generic(Name<kClContext, void*, wchar_t>)},
      {NVTX_CBID_OPENCL_NameClCommandQueueA, Generic(Name<kClQueue, void*, char>)},
      {NVTX_CBID_OPENCL_NameClCommandQueueW, Generic(Name<kClQueue, void*, wchar_t>)},
      {NVTX_CBID_OPENCL_NameClMemObjectA, Generic(Name<kClMemory, void*, char>)},
      {NVTX_CBID_OPENCL_NameClMemObjectW, Generic(Name<kClMemory, void*, wchar_t>)},
      {NVTX_CBID_OPENCL_NameClSamplerA, Generic(Name<kClSampler, void*, char>)},
      {NVTX_CBID_OPENCL_NameClSamplerW, Generic(Name<kClSampler, void*, wchar_t>)},
      {NVTX_CBID_OPENCL_NameClProgramA, Generic(Name<kClProgram, void*, char>)},
      {NVTX_CBID_OPENCL_NameClProgramW, Generic(Name<kClProgram, void*, wchar_t>)},
      {NVTX_CBID_OPENCL_NameClEventA, Generic(Name<kClEvent, void*, char>)},
      {NVTX_CBID_OPENCL_NameClEventW, Generic(Name<kClEvent, void*, wchar_t>)},
  };
  const Hook sync[] = {
      {NVTX_CBID_SYNC_DomainSyncUserCreate, Generic(SyncCreate)},
      {NVTX_CBID_SYNC_DomainSyncUserDestroy, Generic(SyncDestroy)},
      {NVTX_CBID_SYNC_DomainSyncUserAcquireStart, Generic(AcquireStart)},
      {NVTX_CBID_SYNC_DomainSyncUserAcquireFailed, Generic(AcquireFailed)},
      {NVTX_CBID_SYNC_DomainSyncUserAcquireSuccess, Generic(AcquireSuccess)},
      {NVTX_CBID_SYNC_DomainSyncUserReleasing, Generic(Releasing)},
  };
  Fill(callbacks, NVTX_CB_MODULE_CUDA, cuda);
  Fill(callbacks, NVTX_CB_MODULE_CUDART, runtime);
  Fill(callbacks, NVTX_CB_MODULE_OPENCL, opencl);
  Fill(callbacks, NVTX_CB_MODULE_SYNC, sync);
}

}  // namespace poolscope::agent
