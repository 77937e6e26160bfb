#include "agent/cupti_buffers.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <algorithm>

namespace poolscope::agent::cupti {
namespace {

// Memory of further free ones goes back to the system.
constexpr uint32_t kKeptBuffers = 16;
constexpr uint32_t kNotOurs = ~0u;

class Locked {
 public:
  explicit Locked(pthread_mutex_t* mutex) : mutex_(mutex) { pthread_mutex_lock(mutex_); }
  ~Locked() { pthread_mutex_unlock(mutex_); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  pthread_mutex_t* mutex_;
};

}  // namespace

bool Buffers::Init() {
  void* memory = mmap(nullptr, kMaxCuptiBuffers * kCuptiBufferBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  memory_ = static_cast<uint8_t*>(memory);
  const char* text = getenv("POOLSCOPE_CUPTI_BUFFERS");
  const unsigned long wanted = text != nullptr ? strtoul(text, nullptr, 10) : kMaxCuptiBuffers;
  free_count_ = static_cast<uint32_t>(std::clamp<unsigned long>(wanted, 2, kMaxCuptiBuffers));
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
  return memory_ + free_[--free_count_] * kCuptiBufferBytes;
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
  const bool keep = free_count_ < kKeptBuffers;
  pthread_mutex_unlock(&mutex_);
  if (keep) {
    memset(buffer, 0, kCuptiBufferBytes);
  } else {
    madvise(buffer, kCuptiBufferBytes, MADV_DONTNEED);  // reads as zeros
  }
  const Locked lock(&mutex_);
  free_[free_count_++] = IndexOf(buffer);
}

bool Buffers::AnyFilled() {
  const Locked lock(&mutex_);
  return filled_count_ != 0;
}

}  // namespace poolscope::agent::cupti
