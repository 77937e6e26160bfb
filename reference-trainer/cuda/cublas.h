#pragma once

#include <cublas_v2.h>

#include <string>

namespace poolscope::trainer::cuda {

// The functions of cuBLAS that are used, from the library of the CUDA Toolkit found at run time:
// the program needs none to start, and none with --gemm own.
struct CublasLibrary {
  decltype(&cublasCreate_v2) Create = nullptr;
  decltype(&cublasDestroy_v2) Destroy = nullptr;
  decltype(&cublasSetStream_v2) SetStream = nullptr;
  // cublasGemmEx, which C++ overloads for an older type of the computation.
  cublasStatus_t (*GemmEx)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n,
                           int k, const void* alpha, const void* a, cudaDataType, int lda,
                           const void* b, cudaDataType, int ldb, const void* beta, void* c,
                           cudaDataType, int ldc, cublasComputeType_t, cublasGemmAlgo_t) = nullptr;
  decltype(&cublasGetStatusString) GetStatusString = nullptr;
  std::string error;  // "": loaded
};

// Loads it at the first call; any thread.
const CublasLibrary& Cublas();

}  // namespace poolscope::trainer::cuda
