// NVTX's counters extension. A group of counters is recorded as one counter per member.

#include <bit>

#include "agent/clocks.h"
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

// When each sample of a batch was taken.
class BatchTimes {
 public:
  BatchTimes(const nvtxCounterBatch_t& batch, const Counter& counter, size_t samples)
      : batch_(batch), counter_(counter), samples_(samples) {
    // NVTX defines its two flags as 1 << 32 and 2 << 32 of an int, which may come out as 0: then
    // the size tells.
    const size_t given = batch.timestamps == nullptr ? 0 : batch.timestampsSize / sizeof(int64_t);
    is_interval_ = given == 2 && (batch.flags >> 32 != 0 || samples != 2);
    is_given_ = is_interval_ || (given >= samples && samples != 0);
  }

  bool known() const { return is_given_ || counter_.time.bytes != 0; }

  // False: its clock is not known.
  bool At(size_t i, const char* sample, EventTime* time) const {
    int64_t at;
    if (is_interval_) {
      const bool from_end = (batch_.flags >> 32 & 2) != 0;
      const auto steps =
          static_cast<int64_t>(i) - (from_end ? static_cast<int64_t>(samples_) - 1 : int64_t{0});
      at = batch_.timestamps[0] + steps * batch_.timestamps[1];
    } else if (is_given_) {
      at = batch_.timestamps[i];
    } else {
      at = static_cast<int64_t>(ReadValue(sample + counter_.time.offset, counter_.time.source));
    }
    return TimeOf(counter_.domain, counter_.clock, at, time);
  }

 private:
  const nvtxCounterBatch_t& batch_;
  const Counter& counter_;
  size_t samples_;
  bool is_interval_, is_given_;
};

// Samples a counter or all of a group; without a time, now. False: there are not so many bytes.
bool SampleMembers(ThreadWriter& writer, const Counter& counter, const char* values, size_t bytes,
                   const EventTime* time) {
  for (uint32_t i = 0; i < counter.count; ++i) {
    const Field& field = counter.fields[i];
    if (uint64_t{field.offset} + field.bytes > bytes) return false;
    const uint64_t value = ReadValue(values + field.offset, field.source);
    const bool is_float = TypeOf(field.source) == FieldType::kDouble;
    if (time == nullptr) {
      writer.Sample(counter.domain, field.name, value, is_float);
    } else {
      const uint8_t flags = is_float ? kRecordFloat : 0;
      writer.Past(RecordKind::kCounter, counter.domain, field.name, 0, time->at, time->at,
                  time->monotonic, {.value = value, .flags = flags});
    }
  }
  return counter.count != 0;
}

void SampleAny(nvtxDomainHandle_t domain, uint64_t id, const void* values, size_t bytes) {
  const Inside inside(true);
  if (!inside) return;
  const Counter* counter = FindCounter(DomainOf(domain), id);
  if (counter == nullptr || values == nullptr ||
      !SampleMembers(*inside, *counter, static_cast<const char*>(values), bytes, nullptr)) {
    inside->Lose(LossCause::kPayloadTooLarge);
  }
}

void BatchSubmit(nvtxDomainHandle_t domain, const nvtxCounterBatch_t* batch) {
  const Inside inside(true);
  if (!inside || batch == nullptr) return;
  const Counter* counter = FindCounter(DomainOf(domain), batch->counterId);
  if (counter == nullptr || counter->bytes == 0 || batch->counters == nullptr) {
    return inside->Lose(LossCause::kPayloadTooLarge);
  }
  const auto* at = static_cast<const char*>(batch->counters);
  const size_t samples = batch->countersSize / counter->bytes;
  const BatchTimes times(*batch, *counter, samples);
  for (size_t i = 0; i < samples; ++i, at += counter->bytes) {
    EventTime time;
    if (times.known() && !times.At(i, at, &time)) {
      inside->Lose(LossCause::kUnknownClock);
    } else if (!SampleMembers(*inside, *counter, at, counter->bytes,
                              times.known() ? &time : nullptr)) {
      inside->Lose(LossCause::kPayloadTooLarge);
    }
  }
}

// "Unchanged" and "unavailable" say nothing that a later sample does not.
void SampleNoValue(nvtxDomainHandle_t domain, uint64_t id, uint8_t reason) {
  if (reason != NVTX_COUNTER_SAMPLE_ZERO) return;
  const Counter* counter = FindCounter(DomainOf(domain), id);
  if (counter != nullptr) Sample(domain, id, 0, counter->is_float);  // the bits of 0.0 are 0
}

}  // namespace

void HookCounters(const nvtxExtModuleSegment_t& segment) {
  FillSlot(segment, NVTX3EXT_CBID_nvtxCounterRegister, CounterRegister);
  FillSlot(segment, NVTX3EXT_CBID_nvtxCounterSampleInt64, SampleInt64);
  FillSlot(segment, NVTX3EXT_CBID_nvtxCounterSampleFloat64, SampleFloat64);
  FillSlot(segment, NVTX3EXT_CBID_nvtxCounterSample, SampleAny);
  FillSlot(segment, NVTX3EXT_CBID_nvtxCounterSampleNoValue, SampleNoValue);
  FillSlot(segment, NVTX3EXT_CBID_nvtxCounterBatchSubmit, BatchSubmit);
}

}  // namespace poolscope::agent
