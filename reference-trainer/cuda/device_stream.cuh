#pragma once

#include <typeinfo>

#include "reference-trainer/cuda/block.h"
#include "reference-trainer/cuda/device_stream.h"

namespace poolscope::trainer::cuda {

// One thread's view of its block; see block.h.
class DeviceBlock {
 public:
  POOLSCOPE_DEVICE size_t index() const { return blockIdx.x; }
  POOLSCOPE_DEVICE unsigned thread() const { return threadIdx.x; }
  POOLSCOPE_DEVICE unsigned threads() const { return blockDim.x; }
  POOLSCOPE_DEVICE void* shared() const {
    extern __shared__ __align__(16) unsigned char memory[];
    return memory;
  }
  POOLSCOPE_DEVICE void Sync() { __syncthreads(); }
};

template <class Kernel>
__global__ void Launched(const Kernel kernel) {
  DeviceBlock block;
  kernel(block);
}

template <class Kernel>
void DeviceStream::Run(const Kernel& kernel) {
  const Grid grid = kernel.grid();
  if (grid.blocks == 0) return;
  Launched<<<dim3(static_cast<unsigned>(grid.blocks)), dim3(grid.threads), grid.shared_bytes,
             stream_>>>(kernel);
  Check(cudaGetLastError(), device(), std::string("launch of ") + typeid(Kernel).name());
}

}  // namespace poolscope::trainer::cuda
