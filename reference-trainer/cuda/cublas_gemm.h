#pragma once

#include <string>

#include "reference-trainer/cuda/cublas.h"
#include "reference-trainer/cuda/device_stream.h"
#include "reference-trainer/model/kernels.h"

namespace poolscope::trainer::cuda {

// Products of matrices by cuBLAS on a stream, which outlives this; sums are in fp32.
class CublasGemm {
 public:
  explicit CublasGemm(DeviceStream& stream);
  ~CublasGemm();
  CublasGemm(const CublasGemm&) = delete;
  CublasGemm& operator=(const CublasGemm&) = delete;

  // c = op(a) op(b) + beta × c, row-major as Gemm of kernels.h. a and b hold `type`: CUDA_R_32F,
  // which cuBLAS multiplies without TF32 unless it is told to, or CUDA_R_16BF.
  void Run(Transposed transpose_a, Transposed transpose_b, size_t m, size_t n, size_t k,
           const void* a, size_t lda, const void* b, size_t ldb, float beta, float* c, size_t ldc,
           cudaDataType type);

 private:
  void Check(cublasStatus_t status, const std::string& what) const;

  const CublasLibrary& library_;
  const int device_;
  cublasHandle_t handle_ = nullptr;
};

}  // namespace poolscope::trainer::cuda
