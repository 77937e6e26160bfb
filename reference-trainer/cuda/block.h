#pragma once

#include <cstddef>

// How kernels are written: a kernel is a struct that holds its arguments, says how large its grid
// is and does one thread's part of the work when it is called with that thread's Block. nvcc
// compiles it for the device (device_stream.cuh launches it); g++ compiles the same text for the
// host, where tests/support/host_grid.h runs the threads of a block one after another, so that all
// index arithmetic, barriers and sums are tested on machines without a GPU.
//
//   struct Kernel {
//     Grid grid() const;
//     template <class Block> POOLSCOPE_DEVICE void operator()(Block& block) const;
//   };
//   struct Block {
//     size_t index() const;      // of the block in the grid
//     unsigned thread() const;   // in the block
//     unsigned threads() const;  // of the block
//     void* shared() const;      // the block's memory, not initialised
//     void Sync();               // a barrier of all threads of the block; needs shared memory
//   };
#ifdef __CUDACC__
#define POOLSCOPE_DEVICE __device__
#else
#define POOLSCOPE_DEVICE
#endif

namespace poolscope::trainer::cuda {

struct Grid {
  size_t blocks = 0;
  unsigned threads = 0;     // of a block, a power of two
  size_t shared_bytes = 0;  // of a block
};

// Threads of a block unless a kernel needs another number: four warps, so that several blocks share
// a multiprocessor.
inline constexpr unsigned kThreads = 128;

constexpr size_t BlocksFor(size_t count, size_t per_block) {
  return (count + per_block - 1) / per_block;
}

// The sum (or what `combine` makes) of every thread's `value`, to all of them, in an order that
// does not change. scratch[threads] is free again afterwards.
template <class Block, typename T, class Combine>
POOLSCOPE_DEVICE T Reduce(Block& block, T* scratch, T value, Combine combine) {
  scratch[block.thread()] = value;
  block.Sync();
  for (unsigned half = block.threads() / 2; half > 0; half /= 2) {
    if (block.thread() < half) {
      scratch[block.thread()] = combine(scratch[block.thread()], scratch[block.thread() + half]);
    }
    block.Sync();
  }
  const T result = scratch[0];
  block.Sync();
  return result;
}

template <class Block, typename T>
POOLSCOPE_DEVICE T ReduceSum(Block& block, T* scratch, T value) {
  return Reduce(block, scratch, value, [](T a, T b) { return a + b; });
}

template <class Block, typename T>
POOLSCOPE_DEVICE T ReduceMax(Block& block, T* scratch, T value) {
  return Reduce(block, scratch, value, [](T a, T b) { return a > b ? a : b; });
}

}  // namespace poolscope::trainer::cuda
