#pragma once

#include <ucontext.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "reference-trainer/cuda/block.h"

namespace poolscope::trainer::cuda {

class HostBlock;

// Runs kernels on the host as a GPU would, for the tests of their index arithmetic, barriers and
// sums: blocks one after another, the threads of a block as fibers of which each runs to its next
// barrier, in order or (`reversed`) from the last one. A missing barrier makes the two orders
// differ; shared memory begins as NaN; arrays are allocations of their own, so that a sanitizer
// sees an index outside. A thread that ends while others wait at a barrier aborts.
class HostGrid {
 public:
  explicit HostGrid(bool reversed) : reversed_(reversed) {}

  template <class Kernel>
  void Run(const Kernel& kernel) {
    RunGrid(kernel.grid(), [&](HostBlock& block) { kernel(block); });
  }
  void* Allocate(size_t bytes);
  void* AllocateHost(size_t bytes) { return Allocate(bytes); }
  void Clear(size_t bytes, void* values);
  void CopyAsync(size_t bytes, const void* from, void* to);
  void Copy(size_t bytes, const void* from, void* to) { CopyAsync(bytes, from, to); }
  void Wait() {}
  void Repeat(const std::pair<std::string, size_t>&, const std::function<void()>& work) { work(); }

 private:
  friend class HostBlock;
  struct Fiber {
    ucontext_t context{};
    std::unique_ptr<std::byte[]> stack;
    bool done = false;
  };

  void RunGrid(const Grid& grid, const std::function<void(HostBlock&)>& thread);
  void RunFibers(const Grid& grid, size_t block, const std::function<void(HostBlock&)>& thread);
  static void Enter(unsigned high, unsigned low);

  const bool reversed_;
  std::vector<std::unique_ptr<std::byte[]>> arrays_;
  std::vector<std::byte> shared_;
  ucontext_t scheduler_{};
  std::vector<Fiber> fibers_;
};

// One thread's view; see block.h.
class HostBlock {
 public:
  size_t index() const { return index_; }
  unsigned thread() const { return thread_; }
  unsigned threads() const { return threads_; }
  void* shared() const;
  void Sync();

 private:
  friend class HostGrid;
  HostGrid* grid_ = nullptr;
  const std::function<void(HostBlock&)>* work_ = nullptr;
  size_t index_ = 0;
  unsigned thread_ = 0, threads_ = 0;
};

}  // namespace poolscope::trainer::cuda
