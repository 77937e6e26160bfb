#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reference-trainer/cuda/cuda_pool.h"
#include "reference-trainer/device_spec.h"

namespace CLI {
class App;
}

namespace poolscope::trainer {

struct Options;

// Of workers on --device cuda.
struct CudaOptions {
  GemmKind gemm = GemmKind::kCublas;
  bool graphs = false;
  std::optional<PoolRole> high_priority;  // whose streams go before the others of their device
};

void AddCudaOptions(CLI::App& app, CudaOptions& cuda);
// What the flags need of each other: one line of error, or "".
std::string CheckCuda(const CLI::App& app, const Options& options);

// What worker `index` of a pool (kCompute or kUpdate) on cuda computes on. Without a number in the
// pool's device the workers, compute before update, go to the machine's devices in turn.
CudaWorker CudaWorkerOf(const Options& options, PoolRole pool, size_t index);

// The devices of a pool's workers, those that join later included.
std::vector<int> CudaDevicesOf(const Options& options, PoolRole pool);

// Why the run cannot have its CUDA devices, one line, or "" where it can or needs none.
std::string CudaUnavailable(const Options& options);

}  // namespace poolscope::trainer
