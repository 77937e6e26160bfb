#include <fmt/format.h>

#include "reference-trainer/cuda/cublas.h"
#include "reference-trainer/cuda/cuda_pool.h"
#include "reference-trainer/cuda/device_stream.h"

namespace poolscope::trainer {

int CudaDeviceCount() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

std::string CudaUnavailable(const CudaWorker& worker) {
  int driver = 0, count = 0;
  cudaDriverGetVersion(&driver);
  if (driver == 0) return "no CUDA device: this machine has no NVIDIA driver (libcuda.so.1)";
  if (const cudaError_t result = cudaGetDeviceCount(&count); result != cudaSuccess) {
    return fmt::format("no CUDA device: {}", cudaGetErrorString(result));
  }
  if (worker.device >= count) {
    return fmt::format("no CUDA device {}: this machine has {}, numbered from 0", worker.device,
                       count);
  }
  return worker.gemm == GemmKind::kCublas ? cuda::Cublas().error : "";
}

}  // namespace poolscope::trainer
