#pragma once

#include <pthread.h>

#include <cstddef>
#include <cstdint>

#include "trace/limits.h"

namespace poolscope::agent::cupti {

// The buffers that CUPTI fills: a bounded number of equal ones, zeroed before they are given out so
// that CUPTI need not do it on a thread of the job. Any thread; no call waits for another one's
// work.
class Buffers {
 public:
  // POOLSCOPE_CUPTI_BUFFERS says how many, at least 2. False: no memory.
  bool Init();

  // An empty buffer of kCuptiBufferBytes, or null: all are in use.
  uint8_t* Give();
  // A filled one, to be taken in the order in which they came. False: it is none of ours.
  bool Fill(uint8_t* buffer, size_t valid_bytes);
  // The buffer that was filled first, or null. Taken ones are put back when they have been read.
  uint8_t* Take(size_t* valid_bytes);
  void PutBack(uint8_t* buffer);

 private:
  uint32_t IndexOf(const uint8_t* buffer) const;

  uint8_t* memory_ = nullptr;  // kMaxCuptiBuffers of them, touched as they are used
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  // Guarded by mutex_.
  uint32_t free_[kMaxCuptiBuffers] = {};  // the first cold_ of them take no memory
  uint32_t free_count_ = 0, cold_ = 0;
  struct {
    uint32_t index;
    uint32_t valid_bytes;
  } filled_[kMaxCuptiBuffers] = {};  // a ring
  uint32_t filled_first_ = 0, filled_count_ = 0;
};

}  // namespace poolscope::agent::cupti
