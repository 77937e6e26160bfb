// NVTX's payload extension: schemas, and ranges and marks that carry structured payloads.

#include "agent/hooks.h"
#include "agent/payload_words.h"
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

int PushPayload(nvtxDomainHandle_t handle, const nvtxPayloadData_t* payloads, size_t count) {
  const Inside inside(false);
  if (!inside) return ThreadWriter::kNoRange;
  const uint32_t domain = DomainOf(handle);
  PayloadWords words;
  words.Add(*inside, domain, payloads, count);
  return inside->Push(domain, words.message(), words.category(), PayloadOf(words));
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
  inside->Mark(domain, words.message(), words.category(), PayloadOf(words));
}

nvtxRangeId_t StartPayload(nvtxDomainHandle_t handle, const nvtxPayloadData_t* payloads,
                           size_t count) {
  const Inside inside(true);
  if (!inside) return 0;
  const uint32_t domain = DomainOf(handle);
  PayloadWords words;
  words.Add(*inside, domain, payloads, count);
  return session.StartProcessRange(inside.get(), domain, words.message(), words.category(),
                                   PayloadOf(words));
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
  FillSlot(segment, NVTX3EXT_CBID_nvtxPayloadSchemaRegister, SchemaRegister);
  FillSlot(segment, NVTX3EXT_CBID_nvtxPayloadEnumRegister, EnumRegister);
  FillSlot(segment, NVTX3EXT_CBID_nvtxMarkPayload, MarkPayload);
  FillSlot(segment, NVTX3EXT_CBID_nvtxRangePushPayload, PushPayload);
  FillSlot(segment, NVTX3EXT_CBID_nvtxRangePopPayload, PopPayload);
  FillSlot(segment, NVTX3EXT_CBID_nvtxRangeStartPayload, StartPayload);
  FillSlot(segment, NVTX3EXT_CBID_nvtxRangeEndPayload, EndPayload);
  FillSlot(segment, NVTX3EXT_CBID_nvtxDomainIsEnabled, DomainIsEnabled);
  HookDeferred(segment);
}

}  // namespace poolscope::agent
