#include "tests/support/host_grid.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace poolscope::trainer::cuda {
namespace {

constexpr size_t kStackBytes = 64 * 1024;

}  // namespace

void* HostGrid::Allocate(size_t bytes) {
  return arrays_.emplace_back(std::make_unique<std::byte[]>(bytes)).get();
}

void HostGrid::Clear(size_t bytes, void* values) { std::memset(values, 0, bytes); }

void HostGrid::CopyAsync(size_t bytes, const void* from, void* to) { std::memcpy(to, from, bytes); }

void HostGrid::RunGrid(const Grid& grid, const std::function<void(HostBlock&)>& thread) {
  for (size_t i = 0; i < grid.blocks; ++i) {
    const size_t block = reversed_ ? grid.blocks - 1 - i : i;
    if (grid.shared_bytes > 0) {
      RunFibers(grid, block, thread);
      continue;
    }
    HostBlock each;  // no barrier: each thread at one go
    each.index_ = block, each.threads_ = grid.threads;
    for (unsigned j = 0; j < grid.threads; ++j) {
      each.thread_ = reversed_ ? grid.threads - 1 - j : j;
      thread(each);
    }
  }
}

void HostGrid::RunFibers(const Grid& grid, size_t block,
                         const std::function<void(HostBlock&)>& thread) {
  shared_.assign(grid.shared_bytes, std::byte{0xFF});
  if (fibers_.size() < grid.threads) fibers_.resize(grid.threads);
  std::vector<HostBlock> blocks(grid.threads);
  for (unsigned i = 0; i < grid.threads; ++i) {
    HostBlock& each = blocks[i];
    each.grid_ = this, each.work_ = &thread;
    each.index_ = block, each.thread_ = i, each.threads_ = grid.threads;
    Fiber& fiber = fibers_[i];
    if (!fiber.stack) fiber.stack = std::make_unique<std::byte[]>(kStackBytes);
    fiber.done = false;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStackBytes;
    fiber.context.uc_link = &scheduler_;
    const auto address = reinterpret_cast<uintptr_t>(&each);
    makecontext(&fiber.context, reinterpret_cast<void (*)()>(&HostGrid::Enter), 2,
                static_cast<unsigned>(address >> 32), static_cast<unsigned>(address));
  }
  for (unsigned done = 0; done < grid.threads;) {
    if (done > 0) {
      std::fputs("host grid: a barrier that not all threads of the block reach\n", stderr);
      std::abort();
    }
    for (unsigned i = 0; i < grid.threads; ++i) {
      Fiber& fiber = fibers_[reversed_ ? grid.threads - 1 - i : i];
      swapcontext(&scheduler_, &fiber.context);
      done += fiber.done ? 1 : 0;
    }
  }
}

void HostGrid::Enter(unsigned high, unsigned low) {
  HostBlock& block = *reinterpret_cast<HostBlock*>(uintptr_t{high} << 32 | low);
  (*block.work_)(block);
  block.grid_->fibers_[block.thread_].done = true;
}

void* HostBlock::shared() const { return grid_->shared_.data(); }

void HostBlock::Sync() { swapcontext(&grid_->fibers_[thread_].context, &grid_->scheduler_); }

}  // namespace poolscope::trainer::cuda
