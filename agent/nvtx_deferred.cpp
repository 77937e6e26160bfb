// The part of NVTX's payload extension for events that the job submits after they happened, the
// clocks that their times are in, and scopes.

#include "agent/clocks.h"
#include "agent/hooks.h"
#include "agent/payload_words.h"
#include "agent/process.h"
#include "agent/registry.h"
#include "agent/schema.h"

namespace poolscope::agent {
namespace {

uint64_t ScopeRegister(nvtxDomainHandle_t domain, const nvtxScopeAttr_t* attributes) {
  const Registering registering;
  if (!registering || attributes == nullptr || attributes->structSize < sizeof(nvtxScopeAttr_t)) {
    return NVTX_SCOPE_NONE;
  }
  return RegisterScope(DomainOf(domain), *attributes);
}

// --- Clocks ---

int64_t TimestampGet() {
  const Inside inside(false);
  return inside ? static_cast<int64_t>(inside->now()) : 0;
}

uint64_t TimeDomainRegister(nvtxDomainHandle_t domain, const nvtxTimeDomainAttr_t* attributes) {
  const Inside inside(false);
  if (!inside || attributes == nullptr) return NVTX_TIME_DOMAIN_ID_NONE;
  return RegisterClock(DomainOf(domain), *attributes);
}

// The job's function is called here and never later: it may be unloaded.
void TimerSource(nvtxDomainHandle_t domain, uint64_t clock, uint64_t, int64_t (*read)()) {
  const Inside inside(false);
  if (inside && read != nullptr) SetClock(DomainOf(domain), clock, read());
}

void TimerSourceWithData(nvtxDomainHandle_t domain, uint64_t clock, uint64_t,
                         int64_t (*read)(void*), void* data) {
  const Inside inside(false);
  if (inside && read != nullptr) SetClock(DomainOf(domain), clock, read(data));
}

void TimeSyncPoint(nvtxDomainHandle_t domain, uint64_t a, uint64_t b, int64_t a_time,
                   int64_t b_time) {
  const Inside inside(false);
  if (inside) TieClocks(DomainOf(domain), a, b, a_time, b_time);
}

void TimeSyncPointTable(nvtxDomainHandle_t domain, uint64_t from, uint64_t to,
                        const nvtxSyncPoint_t* points, size_t count) {
  const Inside inside(false);
  if (!inside || points == nullptr) return;
  for (size_t i = 0; i < count; ++i) {
    TieClocks(DomainOf(domain), from, to, points[i].src, points[i].dst);
  }
}

void TimestampConversionFactor(nvtxDomainHandle_t domain, uint64_t from, uint64_t to, double slope,
                               int64_t from_time, int64_t to_time) {
  const Inside inside(false);
  if (inside) ScaleClock(DomainOf(domain), from, to, slope, from_time, to_time);
}

// --- Events ---

// Records what `words` say in the times that the payload of `schema` holds.
void Record(ThreadWriter& writer, uint32_t domain, const Schema& schema, const void* payload,
            const PayloadWords& words) {
  const auto at = [&](int32_t field, EventTime* time) {
    const Field& of = schema.fields[field];
    const auto* bytes = static_cast<const char*>(payload) + of.offset;
    return TimeOf(domain, schema.clock, static_cast<int64_t>(ReadValue(bytes, of.source)), time);
  };
  EventTime begin, end;
  if (!at(schema.begin_field, &begin)) return writer.Lose(LossCause::kUnknownClock);
  end = begin;
  if (schema.end_field >= 0 && !at(schema.end_field, &end)) {
    return writer.Lose(LossCause::kUnknownClock);
  }
  const auto kind = schema.end_field >= 0 ? RecordKind::kProcessRange : RecordKind::kMark;
  writer.Past(kind, domain, words.message(), words.category(), begin.at, end.at, begin.monotonic,
              PayloadOf(words));
}

void EventSubmit(nvtxDomainHandle_t handle, const nvtxPayloadData_t* payloads, size_t count) {
  const Inside inside(true);
  if (!inside) return;
  const uint32_t domain = DomainOf(handle);
  for (size_t i = 0; payloads != nullptr && i < count; ++i) {
    const Schema* schema = FindSchema(domain, payloads[i].schemaId);
    if (schema == nullptr || schema->begin_field < 0 || payloads[i].payload == nullptr ||
        payloads[i].size < schema->static_bytes) {
      continue;
    }
    PayloadWords words;
    words.Add(*inside, domain, payloads, count);
    return Record(*inside, domain, *schema, payloads[i].payload, words);
  }
  inside->Lose(LossCause::kUnknownClock);  // none says when it was
}

void EventBatchSubmit(nvtxDomainHandle_t handle, const nvtxEventBatch_t* batch) {
  const Inside inside(true);
  if (!inside || batch == nullptr) return;
  const uint32_t domain = DomainOf(handle);
  const Schema* schema = FindSchema(domain, batch->eventSchemaId);
  if (schema == nullptr || schema->begin_field < 0 || schema->static_bytes == 0 ||
      batch->events == nullptr) {
    return inside->Lose(LossCause::kUnknownClock);
  }
  const uint32_t scope = FindScope(domain, batch->scope);
  const auto* bytes = static_cast<const char*>(batch->events);
  for (size_t at = 0; at + schema->static_bytes <= batch->size; at += schema->static_bytes) {
    const nvtxPayloadData_t event = {batch->eventSchemaId, schema->static_bytes, bytes + at};
    PayloadWords words;
    words.Add(*inside, domain, &event, 1);
    if (scope != 0) words.AddOwn(*inside, OwnSchema::kScope, {scope});
    Record(*inside, domain, *schema, event.payload, words);
  }
}

}  // namespace

void HookDeferred(const nvtxExtModuleSegment_t& segment) {
  FillSlot(segment, NVTX3EXT_CBID_nvtxScopeRegister, ScopeRegister);
  FillSlot(segment, NVTX3EXT_CBID_nvtxTimestampGet, TimestampGet);
  FillSlot(segment, NVTX3EXT_CBID_nvtxTimeDomainRegister, TimeDomainRegister);
  FillSlot(segment, NVTX3EXT_CBID_nvtxTimerSource, TimerSource);
  FillSlot(segment, NVTX3EXT_CBID_nvtxTimerSourceWithData, TimerSourceWithData);
  FillSlot(segment, NVTX3EXT_CBID_nvtxTimeSyncPoint, TimeSyncPoint);
  FillSlot(segment, NVTX3EXT_CBID_nvtxTimeSyncPointTable, TimeSyncPointTable);
  FillSlot(segment, NVTX3EXT_CBID_nvtxTimestampConversionFactor, TimestampConversionFactor);
  FillSlot(segment, NVTX3EXT_CBID_nvtxEventSubmit, EventSubmit);
  FillSlot(segment, NVTX3EXT_CBID_nvtxEventBatchSubmit, EventBatchSubmit);
}

}  // namespace poolscope::agent
