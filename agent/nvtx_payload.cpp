// NVTX's payload extension: schemas, and ranges and marks that carry structured payloads.

#include "agent/hooks.h"
#include "agent/process.h"
#include "agent/registry.h"
#include "agent/schema.h"

namespace poolscope::agent {
namespace {

uint64_t SchemaRegister(nvtxDomainHandle_t domain, const nvtxPayloadSchemaAttr_t* attributes) {
  const Registering registering;
  return !registering || attributes == nullptr ? 0 : RegisterSchema(DomainOf(domain), *attributes);
}

uint64_t EnumRegister(nvtxDomainHandle_t domain, const nvtxPayloadEnumAttr_t* attributes) {
  const Registering registering;
  return !registering || attributes == nullptr ? 0 : RegisterEnum(DomainOf(domain), *attributes);
}

EventPayload PayloadOf(const PayloadWords& words) {
  return {.value = 0, .flags = 0, .words = words.count(), .groups = words.words()};
}

int PushPayload(nvtxDomainHandle_t handle, const nvtxPayloadData_t* payloads, size_t count) {
  const Inside inside(false);
  if (!inside) return ThreadWriter::kNoRange;
  const uint32_t domain = DomainOf(handle);
  PayloadWords words;
  words.Add(*inside, domain, payloads, count);
  return inside->Push(domain, words.message(), 0, PayloadOf(words));
}

int PopPayload(nvtxDomainHandle_t handle, const nvtxPayloadData_t* payloads, size_t count) {
  const Inside inside(true);
  if (!inside) return ThreadWriter::kNoRange;
  const uint32_t domain = DomainOf(handle);
  PayloadWords words;
  words.Add(*inside, domain, payloads, count);
  return inside->Pop(domain, PayloadOf(words));
}

void MarkPayload(nvtxDomainHandle_t handle, const nvtxPayloadData_t* payloads, size_t count) {
  const Inside inside(true);
  if (!inside) return;
  const uint32_t domain = DomainOf(handle);
  PayloadWords words;
  words.Add(*inside, domain, payloads, count);
  inside->Mark(domain, words.message(), 0, PayloadOf(words));
}

nvtxRangeId_t StartPayload(nvtxDomainHandle_t handle, const nvtxPayloadData_t* payloads,
                           size_t count) {
  const Inside inside(true);
  if (!inside) return 0;
  const uint32_t domain = DomainOf(handle);
  PayloadWords words;
  words.Add(*inside, domain, payloads, count);
  return session.StartProcessRange(inside.get(), domain, words.message(), 0, PayloadOf(words));
}

void EndPayload(nvtxDomainHandle_t handle, nvtxRangeId_t id, const nvtxPayloadData_t* payloads,
                size_t count) {
  if (id == 0) return;  // its start was counted as missing
  const Inside inside(true);
  if (!inside) return;
  PayloadWords words;
  words.Add(*inside, DomainOf(handle), payloads, count);
  session.EndProcessRange(inside.get(), id, PayloadOf(words));
}

uint8_t DomainIsEnabled(nvtxDomainHandle_t) { return 1; }

}  // namespace

void HookPayloads(const nvtxExtModuleSegment_t& segment) {
  const auto hook = [&segment](size_t slot, auto* function) {
    if (slot < segment.slotCount) {
      segment.functionSlots[slot] = reinterpret_cast<intptr_t>(function);
    }
  };
  hook(NVTX3EXT_CBID_nvtxPayloadSchemaRegister, SchemaRegister);
  hook(NVTX3EXT_CBID_nvtxPayloadEnumRegister, EnumRegister);
  hook(NVTX3EXT_CBID_nvtxMarkPayload, MarkPayload);
  hook(NVTX3EXT_CBID_nvtxRangePushPayload, PushPayload);
  hook(NVTX3EXT_CBID_nvtxRangePopPayload, PopPayload);
  hook(NVTX3EXT_CBID_nvtxRangeStartPayload, StartPayload);
  hook(NVTX3EXT_CBID_nvtxRangeEndPayload, EndPayload);
  hook(NVTX3EXT_CBID_nvtxDomainIsEnabled, DomainIsEnabled);
}

}  // namespace poolscope::agent
