#include "agent/cupti_buffers.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "trace/locked.h"
#include "trace/zeroed_memory.h"

namespace poolscope::agent::cupti {
namespace {

// Of further free ones the memory goes back to the system.
constexpr uint32_t kWarmBuffers = 16;
constexpr uint32_t kNotOurs = ~0u;

}  // namespace

bool Buffers::Init() {
  memory_ = MapZeroed<uint8_t>(kMaxCuptiBuffers * kCuptiBufferBytes);
  if (memory_ == nullptr) return false;
  const char* text = getenv("POOLSCOPE_CUPTI_BUFFERS");
  const unsigned long wanted = text != nullptr ? strtoul(text, nullptr, 10) : kMaxCuptiBuffers;
  free_count_ = static_cast<uint32_t>(std::clamp<unsigned long>(wanted, 2, kMaxCuptiBuffers));
  cold_ = free_count_;
  for (uint32_t i = 0; i < free_count_; ++i) free_[i] = free_count_ - 1 - i;
  return true;
}

uint32_t Buffers::IndexOf(const uint8_t* buffer) const {
  const auto offset = static_cast<size_t>(buffer - memory_);
  if (buffer < memory_ || offset >= kMaxCuptiBuffers * kCuptiBufferBytes ||
      offset % kCuptiBufferBytes != 0) {
    return kNotOurs;
  }
  return static_cast<uint32_t>(offset / kCuptiBufferBytes);
}

uint8_t* Buffers::Give() {
  const Locked lock(&mutex_);
  if (free_count_ == 0) return nullptr;
  cold_ = std::min(cold_, --free_count_);
  return memory_ + free_[free_count_] * kCuptiBufferBytes;
}

bool Buffers::Fill(uint8_t* buffer, size_t valid_bytes) {
  const uint32_t index = IndexOf(buffer);
  if (index == kNotOurs) return false;
  const Locked lock(&mutex_);
  if (filled_count_ == kMaxCuptiBuffers) return false;
  filled_[(filled_first_ + filled_count_++) % kMaxCuptiBuffers] = {
      index, static_cast<uint32_t>(std::min(valid_bytes, kCuptiBufferBytes))};
  return true;
}

uint8_t* Buffers::Take(size_t* valid_bytes) {
  const Locked lock(&mutex_);
  if (filled_count_ == 0) return nullptr;
  const auto& filled = filled_[filled_first_];
  filled_first_ = (filled_first_ + 1) % kMaxCuptiBuffers;
  --filled_count_;
  *valid_bytes = filled.valid_bytes;
  return memory_ + filled.index * kCuptiBufferBytes;
}

void Buffers::PutBack(uint8_t* buffer) {
  pthread_mutex_lock(&mutex_);
  const bool warm = free_count_ - cold_ < kWarmBuffers;
  pthread_mutex_unlock(&mutex_);
  if (warm) {
    memset(buffer, 0, kCuptiBufferBytes);
  } else {
    madvise(buffer, kCuptiBufferBytes, MADV_DONTNEED);  // reads as zeros
  }
  const Locked lock(&mutex_);
  free_[free_count_] = IndexOf(buffer);
  if (!warm) std::swap(free_[cold_++], free_[free_count_]);
  ++free_count_;
}

}  // namespace poolscope::agent::cupti
