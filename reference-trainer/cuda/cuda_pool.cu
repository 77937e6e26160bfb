#include "reference-trainer/cuda/cublas_gemm.h"
#include "reference-trainer/cuda/cuda_arithmetic.h"
#include "reference-trainer/cuda/cuda_pool.h"
#include "reference-trainer/cuda/device_stream.cuh"
#include "reference-trainer/cuda/grid_replica.h"
#include "reference-trainer/cuda/grid_shard.h"

namespace poolscope::trainer {
namespace cuda {
namespace {

using StreamArithmetic = GridArithmetic<float, DeviceStream>;

class CublasArithmetic : public StreamArithmetic {
 public:
  CublasArithmetic(DeviceStream& stream, Precision precision)
      : StreamArithmetic(stream, precision), cublas_(stream) {}

 protected:
  void Gemm(Transposed transpose_a, Transposed transpose_b, size_t m, size_t n, size_t k,
            const float* a, size_t lda, const float* b, size_t ldb, float beta, float* c,
            size_t ldc) override {
    const void *left = a, *right = b;
    if (precision_ == Precision::kBf16) {  // without gaps between rows in all products of a model
      left = Halves(left_, m * k, a), right = Halves(right_, k * n, b);
    }
    cublas_.Run(transpose_a, transpose_b, m, n, k, left, lda, right, ldb, beta, c, ldc,
                precision_ == Precision::kBf16 ? CUDA_R_16BF : CUDA_R_32F);
  }

 private:
  // Room for one operand in bf16, as large as the largest so far.
  struct Operand {
    uint16_t* halves = nullptr;
    size_t room = 0;
  };

  const void* Halves(Operand& operand, size_t count, const float* values) {
    if (operand.room < count) {
      operand = {static_cast<uint16_t*>(executor_.Allocate(count * sizeof(uint16_t))), count};
    }
    RunEach(count, ToBf16Each{values, operand.halves});
    return operand.halves;
  }

  CublasGemm cublas_;
  Operand left_, right_;
};

GridDevice<DeviceStream> DeviceOf(const CudaWorker& worker) {
  auto stream = std::make_unique<DeviceStream>(
      DeviceStream::Shape{worker.device, worker.high_priority, worker.graphs, worker.name});
  const Precision precision = worker.bf16 ? Precision::kBf16 : Precision::kFp32;
  std::unique_ptr<StreamArithmetic> arithmetic;
  if (worker.gemm == GemmKind::kCublas) {
    arithmetic = std::make_unique<CublasArithmetic>(*stream, precision);
  } else {
    arithmetic = std::make_unique<StreamArithmetic>(*stream, precision);
  }
  return {std::move(stream), std::move(arithmetic)};
}

}  // namespace

CudaArithmetic MakeCudaArithmetic(const CudaWorker& worker) {
  auto device = DeviceOf(worker);
  return {std::move(device.executor), std::move(device.arithmetic)};
}

}  // namespace cuda

std::unique_ptr<Replica> MakeCudaReplica(const CudaWorker& worker, const GptShape& shape,
                                         size_t batch, uint64_t seed) {
  return std::make_unique<cuda::GridReplica<cuda::DeviceStream>>(cuda::DeviceOf(worker), shape,
                                                                 batch, seed);
}

std::unique_ptr<Shard> MakeCudaShard(const CudaWorker& worker, const GptShape& shape,
                                     const Ranges& ranges, uint64_t seed, AdamW::Rates rates) {
  return std::make_unique<cuda::GridShard<cuda::DeviceStream>>(cuda::DeviceOf(worker), shape,
                                                               ranges, seed, rates);
}

}  // namespace poolscope::trainer
