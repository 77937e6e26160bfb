// NVTX core and core2: ranges, marks, domains, strings, names of categories, threads, resources.

#include <sys/syscall.h>
#include <unistd.h>

#include "agent/attributes.h"
#include "agent/hooks.h"
#include "agent/objects.h"
#include "agent/process.h"
#include "agent/registry.h"
#include "agent/text.h"
#include "trace/event.h"

namespace poolscope::agent {
namespace {

constexpr EventPayload kNothing;

// --- Ranges and marks ---

int PushNamed(ThreadWriter& writer, uint32_t name) { return writer.Push(0, name, 0, kNothing); }

int PushA(const char* message) {
  const Inside inside(false);
  return inside ? PushNamed(*inside, NameOf(*inside, message)) : ThreadWriter::kNoRange;
}

int PushW(const wchar_t* message) {
  const Inside inside(false);
  return inside ? PushNamed(*inside, InternWide(message)) : ThreadWriter::kNoRange;
}

int DomainPushEx(nvtxDomainHandle_t handle, const nvtxEventAttributes_t* attributes) {
  const Inside inside(false);
  if (!inside) return ThreadWriter::kNoRange;
  const uint32_t domain = DomainOf(handle);
  PayloadWords groups;
  const Attributes event(*inside, domain, attributes, &groups);
  return inside->Push(domain, event.name, event.category, event.payload);
}

int PushEx(const nvtxEventAttributes_t* attributes) { return DomainPushEx(nullptr, attributes); }

int DomainPop(nvtxDomainHandle_t handle) {
  const Inside inside(true);
  return inside ? inside->Pop(DomainOf(handle), kNothing) : ThreadWriter::kNoRange;
}

int Pop() {
  const Inside inside(true);
  return inside ? inside->Pop(0, kNothing) : ThreadWriter::kNoRange;
}

void DomainMarkEx(nvtxDomainHandle_t handle, const nvtxEventAttributes_t* attributes) {
  const Inside inside(true);
  if (!inside) return;
  const uint32_t domain = DomainOf(handle);
  PayloadWords groups;
  const Attributes event(*inside, domain, attributes, &groups);
  inside->Mark(domain, event.name, event.category, event.payload);
}

void MarkEx(const nvtxEventAttributes_t* attributes) { DomainMarkEx(nullptr, attributes); }

void MarkA(const char* message) {
  const Inside inside(true);
  if (inside) inside->Mark(0, NameOf(*inside, message), 0, kNothing);
}

void MarkW(const wchar_t* message) {
  const Inside inside(true);
  if (inside) inside->Mark(0, InternWide(message), 0, kNothing);
}

nvtxRangeId_t DomainStartEx(nvtxDomainHandle_t handle, const nvtxEventAttributes_t* attributes) {
  const Inside inside(true);
  if (!inside) return 0;
  const uint32_t domain = DomainOf(handle);
  PayloadWords groups;
  const Attributes event(*inside, domain, attributes, &groups);
  return session.StartProcessRange(inside.get(), domain, event.name, event.category, event.payload);
}

nvtxRangeId_t StartEx(const nvtxEventAttributes_t* attributes) {
  return DomainStartEx(nullptr, attributes);
}

nvtxRangeId_t StartA(const char* message) {
  const Inside inside(true);
  if (!inside) return 0;
  return session.StartProcessRange(inside.get(), 0, NameOf(*inside, message), 0, kNothing);
}

nvtxRangeId_t StartW(const wchar_t* message) {
  const Inside inside(true);
  if (!inside) return 0;
  return session.StartProcessRange(inside.get(), 0, InternWide(message), 0, kNothing);
}

void End(nvtxRangeId_t id) {
  if (id == 0) return;  // its start was counted as missing
  const Inside inside(true);
  if (inside) session.EndProcessRange(inside.get(), id, kNothing);
}

void DomainEnd(nvtxDomainHandle_t, nvtxRangeId_t id) { End(id); }

// --- Names ---

// `name` interns: it must run inside the registration.
template <typename F>
void NameCategory(uint32_t domain, uint32_t category, F name) {
  const Registering registering;
  if (!registering) return;
  const uint32_t payload[2] = {domain, name()};
  session.Define(DefinitionKind::kCategory, category, payload, sizeof(payload), domain);
}
void NameCategoryA(uint32_t category, const char* name) {
  NameCategory(0, category, [&] { return InternText(name); });
}
void NameCategoryW(uint32_t category, const wchar_t* name) {
  NameCategory(0, category, [&] { return InternWide(name); });
}
void DomainNameCategoryA(nvtxDomainHandle_t domain, uint32_t category, const char* name) {
  NameCategory(DomainOf(domain), category, [&] { return InternText(name); });
}
void DomainNameCategoryW(nvtxDomainHandle_t domain, uint32_t category, const wchar_t* name) {
  NameCategory(DomainOf(domain), category, [&] { return InternWide(name); });
}

template <typename F>
void NameThread(uint32_t tid, F name) {
  const Registering registering;
  if (!registering) return;
  const uint32_t string = name();
  session.Define(DefinitionKind::kThreadName, tid, &string, sizeof(string), 0);
}
void NameOsThreadA(uint32_t tid, const char* name) {
  NameThread(tid, [&] { return InternText(name); });
}
void NameOsThreadW(uint32_t tid, const wchar_t* name) {
  NameThread(tid, [&] { return InternWide(name); });
}

// Those of domain "poolscope" say who is who and stay definitions; others are objects of the job.
nvtxResourceHandle_t ResourceCreate(nvtxDomainHandle_t handle,
                                    nvtxResourceAttributes_t* attributes) {
  if (attributes == nullptr || attributes->size < NVTX_RESOURCE_ATTRIB_STRUCT_SIZE) return nullptr;
  const auto type = static_cast<uint32_t>(attributes->identifierType);
  struct {
    uint64_t identifier;
    uint32_t domain;
    uint32_t name;
  } payload = {attributes->identifier.ullValue, DomainOf(handle), 0};
  {
    const Registering registering;
    if (!registering) return nullptr;
    payload.name = InternMessage(attributes->messageType, attributes->message);
    session.Define(DefinitionKind::kResource, type, &payload, sizeof(payload), payload.identifier);
  }
  if (session.Text(NameOfDomain(payload.domain)) != kPoolscopeDomain) {
    const Inside inside(true);
    if (inside)
      MarkObject(*inside, "created", ResourceKind(type), payload.identifier, payload.name);
  }
  return reinterpret_cast<nvtxResourceHandle_t>(uintptr_t{payload.name} + 1);
}
void ResourceDestroy(nvtxResourceHandle_t) {}  // nothing that was recorded ends with it

nvtxStringHandle_t RegisterStringA(nvtxDomainHandle_t, const char* text) {
  const Registering registering;
  return registering ? HandleOf(InternText(text)) : nullptr;
}
nvtxStringHandle_t RegisterStringW(nvtxDomainHandle_t, const wchar_t* text) {
  const Registering registering;
  return registering ? HandleOf(InternWide(text)) : nullptr;
}

nvtxDomainHandle_t DomainCreateA(const char* name) {
  const Registering registering;
  return registering ? HandleOfDomain(RegisterDomain(InternText(name))) : nullptr;
}
nvtxDomainHandle_t DomainCreateW(const wchar_t* name) {
  const Registering registering;
  return registering ? HandleOfDomain(RegisterDomain(InternWide(name))) : nullptr;
}
void DomainDestroy(nvtxDomainHandle_t) {}  // the name keeps its index
void Initialize(const void*) {}

}  // namespace

bool Fill(const NvtxExportTableCallbacks& callbacks, NvtxCallbackModule module,
          std::span<const Hook> hooks) {
  NvtxFunctionTable table = nullptr;
  unsigned int size = 0;
  if (callbacks.GetModuleFunctionTable(module, &table, &size) == 0 || table == nullptr) {
    return false;
  }
  for (const Hook& hook : hooks) {
    if (hook.id < size && table[hook.id] != nullptr) *table[hook.id] = hook.function;
  }
  return true;
}

bool HookCore(NvtxGetExportTableFunc_t get_export_table) {
  const auto* callbacks =
      static_cast<const NvtxExportTableCallbacks*>(get_export_table(NVTX_ETID_CALLBACKS));
  if (callbacks == nullptr || callbacks->struct_size < sizeof(NvtxExportTableCallbacks)) {
    return false;
  }
  const Hook core[] = {
      {NVTX_CBID_CORE_MarkEx, Generic(MarkEx)},
      {NVTX_CBID_CORE_MarkA, Generic(MarkA)},
      {NVTX_CBID_CORE_MarkW, Generic(MarkW)},
      {NVTX_CBID_CORE_RangeStartEx, Generic(StartEx)},
      {NVTX_CBID_CORE_RangeStartA, Generic(StartA)},
      {NVTX_CBID_CORE_RangeStartW, Generic(StartW)},
      {NVTX_CBID_CORE_RangeEnd, Generic(End)},
      {NVTX_CBID_CORE_RangePushEx, Generic(PushEx)},
      {NVTX_CBID_CORE_RangePushA, Generic(PushA)},
      {NVTX_CBID_CORE_RangePushW, Generic(PushW)},
      {NVTX_CBID_CORE_RangePop, Generic(Pop)},
      {NVTX_CBID_CORE_NameCategoryA, Generic(NameCategoryA)},
      {NVTX_CBID_CORE_NameCategoryW, Generic(NameCategoryW)},
      {NVTX_CBID_CORE_NameOsThreadA, Generic(NameOsThreadA)},
      {NVTX_CBID_CORE_NameOsThreadW, Generic(NameOsThreadW)},
  };
  const Hook core2[] = {
      {NVTX_CBID_CORE2_DomainMarkEx, Generic(DomainMarkEx)},
      {NVTX_CBID_CORE2_DomainRangeStartEx, Generic(DomainStartEx)},
      {NVTX_CBID_CORE2_DomainRangeEnd, Generic(DomainEnd)},
      {NVTX_CBID_CORE2_DomainRangePushEx, Generic(DomainPushEx)},
      {NVTX_CBID_CORE2_DomainRangePop, Generic(DomainPop)},
      {NVTX_CBID_CORE2_DomainResourceCreate, Generic(ResourceCreate)},
      {NVTX_CBID_CORE2_DomainResourceDestroy, Generic(ResourceDestroy)},
      {NVTX_CBID_CORE2_DomainNameCategoryA, Generic(DomainNameCategoryA)},
      {NVTX_CBID_CORE2_DomainNameCategoryW, Generic(DomainNameCategoryW)},
      {NVTX_CBID_CORE2_DomainRegisterStringA, Generic(RegisterStringA)},
      {NVTX_CBID_CORE2_DomainRegisterStringW, Generic(RegisterStringW)},
      {NVTX_CBID_CORE2_DomainCreateA, Generic(DomainCreateA)},
      {NVTX_CBID_CORE2_DomainCreateW, Generic(DomainCreateW)},
      {NVTX_CBID_CORE2_DomainDestroy, Generic(DomainDestroy)},
      {NVTX_CBID_CORE2_Initialize, Generic(Initialize)},
  };
  HookObjects(*callbacks);
  return Fill(*callbacks, NVTX_CB_MODULE_CORE, core) &&
         Fill(*callbacks, NVTX_CB_MODULE_CORE2, core2);
}

}  // namespace poolscope::agent
