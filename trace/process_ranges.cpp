#include "trace/process_ranges.h"

namespace poolscope {

void ProcessRangeTable::Reset(ProcessRange* table, uint32_t entries) {
  table_ = table;
  for (uint32_t i = 0; i < kMaxOpenProcessRanges; ++i) {
    next_free_[i].store(i + 1 < entries ? i + 2 : 0, std::memory_order_relaxed);
    open_[i].store(0, std::memory_order_relaxed);
  }
  free_.store(entries == 0 ? 0 : 1, std::memory_order_release);
}

uint64_t ProcessRangeTable::Take(ProcessRange** entry) {
  uint64_t head = free_.load(std::memory_order_acquire);
  uint32_t index;
  do {
    if (static_cast<uint32_t>(head) == 0) return 0;
    index = static_cast<uint32_t>(head) - 1;
  } while (!free_.compare_exchange_weak(
      head, ((head >> 32) + 1) << 32 | next_free_[index].load(std::memory_order_relaxed),
      std::memory_order_acq_rel, std::memory_order_acquire));
  *entry = table_ + index;
  return (sequence_.fetch_add(1, std::memory_order_relaxed) + 1) << kIndexBits | index;
}

void ProcessRangeTable::Open(ProcessRange* entry, uint64_t id) {
  entry->id.store(id, std::memory_order_release);
  open_[entry - table_].store(id, std::memory_order_release);
}

ProcessRange* ProcessRangeTable::BeginEnd(uint64_t id) {
  const uint64_t index = id & (kMaxOpenProcessRanges - 1);
  uint64_t expected = id;
  if (id == 0 || table_ == nullptr ||
      !open_[index].compare_exchange_strong(expected, 0, std::memory_order_acq_rel)) {
    return nullptr;
  }
  return table_ + index;
}

void ProcessRangeTable::Free(ProcessRange* entry) {
  entry->id.store(0, std::memory_order_release);
  const auto index = static_cast<uint32_t>(entry - table_);
  uint64_t head = free_.load(std::memory_order_acquire);
  do {
    next_free_[index].store(static_cast<uint32_t>(head), std::memory_order_relaxed);
  } while (!free_.compare_exchange_weak(head, ((head >> 32) + 1) << 32 | (index + 1),
                                        std::memory_order_acq_rel, std::memory_order_acquire));
}

}  // namespace poolscope
