#pragma once

#include <sys/mman.h>

#include <cstddef>

namespace poolscope {

// Room for `count` zeroed T, for ever: not from the job's allocator, and no memory is taken before
// it is touched. Null: the system gives no more addresses.
template <typename T>
T* MapZeroed(size_t count) {
  void* memory = mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<T*>(memory);
}

}  // namespace poolscope
