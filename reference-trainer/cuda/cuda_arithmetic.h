#pragma once

#include <memory>

#include "reference-trainer/cuda/cuda_pool.h"
#include "reference-trainer/cuda/device_stream.h"
#include "reference-trainer/model/arithmetic.h"

namespace poolscope::trainer::cuda {

// A stream and the arithmetic on it, for the tests of the kernels.
struct CudaArithmetic {
  std::unique_ptr<DeviceStream> stream;
  std::unique_ptr<Arithmetic<float>> arithmetic;
};
CudaArithmetic MakeCudaArithmetic(const CudaWorker& worker);

}  // namespace poolscope::trainer::cuda
