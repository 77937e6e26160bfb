#pragma once

#include <string>

#include "reference-trainer/cuda/cuda_pool.h"

namespace CLI {
class App;
}

namespace poolscope::trainer {

struct Options;

enum class PoolName { kNone, kCompute, kUpdate };

// Of workers on --device cuda.
struct CudaOptions {
  GemmKind gemm = GemmKind::kCublas;
  bool graphs = false;
  PoolName high_priority = PoolName::kNone;  // whose streams go before the others of their device
};

void AddCudaOptions(CLI::App& app, CudaOptions& cuda);
// What the flags need of each other: one line of error, or "".
std::string CheckCuda(const CLI::App& app, const Options& options);

// What worker `index` of a pool (kCompute or kUpdate) on cuda computes on. Without a number in the
// pool's device the workers, compute before update, go to the machine's devices in turn.
CudaWorker CudaWorkerOf(const Options& options, PoolName pool, size_t index);

// Why the run cannot have its CUDA devices, one line, or "" where it can or needs none.
std::string CudaUnavailable(const Options& options);

}  // namespace poolscope::trainer
