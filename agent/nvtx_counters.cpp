// NVTX's counters extension. A group of counters is recorded as one counter per member.

#include <bit>

#include "agent/hooks.h"
#include "agent/process.h"
#include "agent/registry.h"

namespace poolscope::agent {
namespace {

uint64_t CounterRegister(nvtxDomainHandle_t domain, const nvtxCounterAttr_t* attributes) {
  const Registering registering;
  if (!registering || attributes == nullptr || attributes->structSize < sizeof(nvtxCounterAttr_t)) {
    return 0;
  }
  return RegisterCounter(DomainOf(domain), *attributes);
}

void Sample(nvtxDomainHandle_t domain, uint64_t id, uint64_t value, bool is_float) {
  const Inside inside(true);
  if (!inside) return;
  const Counter* counter = FindCounter(DomainOf(domain), id);
  if (counter == nullptr || counter->count == 0) [[unlikely]] {
    return inside->Lose(LossCause::kPayloadTooLarge);
  }
  inside->Sample(counter->domain, counter->fields[0].name, value, is_float);
}

void SampleInt64(nvtxDomainHandle_t domain, uint64_t id, int64_t value) {
  Sample(domain, id, static_cast<uint64_t>(value), false);
}

void SampleFloat64(nvtxDomainHandle_t domain, uint64_t id, double value) {
  Sample(domain, id, std::bit_cast<uint64_t>(value), true);
}

void SampleAny(nvtxDomainHandle_t domain, uint64_t id, const void* values, size_t bytes) {
  const Inside inside(true);
  if (!inside) return;
  const Counter* counter = FindCounter(DomainOf(domain), id);
  bool complete = counter != nullptr && counter->count != 0 && values != nullptr;
  for (uint32_t i = 0; complete && i < counter->count; ++i) {
    const Field& field = counter->fields[i];
    if (uint64_t{field.offset} + field.bytes > bytes) {
      complete = false;
      break;
    }
    inside->Sample(counter->domain, field.name,
                   ReadValue(static_cast<const char*>(values) + field.offset, field.source),
                   TypeOf(field.source) == FieldType::kDouble);
  }
  if (!complete) inside->Lose(LossCause::kPayloadTooLarge);
}

// "Unchanged" and "unavailable" say nothing that a later sample does not.
void SampleNoValue(nvtxDomainHandle_t domain, uint64_t id, uint8_t reason) {
  if (reason != NVTX_COUNTER_SAMPLE_ZERO) return;
  const Counter* counter = FindCounter(DomainOf(domain), id);
  if (counter != nullptr) Sample(domain, id, 0, counter->is_float);  // the bits of 0.0 are 0
}

}  // namespace

void HookCounters(const nvtxExtModuleSegment_t& segment) {
  const auto hook = [&segment](size_t slot, auto* function) {
    if (slot < segment.slotCount) {
      segment.functionSlots[slot] = reinterpret_cast<intptr_t>(function);
    }
  };
  hook(NVTX3EXT_CBID_nvtxCounterRegister, CounterRegister);
  hook(NVTX3EXT_CBID_nvtxCounterSampleInt64, SampleInt64);
  hook(NVTX3EXT_CBID_nvtxCounterSampleFloat64, SampleFloat64);
  hook(NVTX3EXT_CBID_nvtxCounterSample, SampleAny);
  hook(NVTX3EXT_CBID_nvtxCounterSampleNoValue, SampleNoValue);
}

}  // namespace poolscope::agent
