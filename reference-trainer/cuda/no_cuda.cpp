// In place of cuda_pool.cu where there is no nvcc.
#include <stdexcept>

#include "reference-trainer/cuda/cuda_pool.h"

namespace poolscope::trainer {
namespace {

constexpr const char* kNone =
    "no CUDA device: this poolscope-trainer was built without the CUDA Toolkit (nvcc)";

}  // namespace

int CudaDeviceCount() { return 0; }

std::string CudaUnavailable(const CudaWorker&) { return kNone; }

std::unique_ptr<Replica> MakeCudaReplica(const CudaWorker&, const GptShape&, size_t, uint64_t) {
  throw std::runtime_error(kNone);
}

std::unique_ptr<Shard> MakeCudaShard(const CudaWorker&, const GptShape&, const Ranges&, uint64_t,
                                     AdamW::Rates) {
  throw std::runtime_error(kNone);
}

}  // namespace poolscope::trainer
