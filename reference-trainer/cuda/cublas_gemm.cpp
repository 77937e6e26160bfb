#include "reference-trainer/cuda/cublas_gemm.h"

#include <fmt/format.h>

namespace poolscope::trainer::cuda {

CublasGemm::CublasGemm(DeviceStream& stream) : library_(Cublas()), device_(stream.device()) {
  if (!library_.error.empty()) throw CudaError(library_.error);
  Check(library_.Create(&handle_), "cublasCreate");
  Check(library_.SetStream(handle_, stream.stream()), "cublasSetStream");
}

CublasGemm::~CublasGemm() {
  if (handle_) library_.Destroy(handle_);
}

// cuBLAS is column-major: there, cᵀ = op(b)ᵀ op(a)ᵀ.
void CublasGemm::Run(Transposed transpose_a, Transposed transpose_b, size_t m, size_t n, size_t k,
                     const void* a, size_t lda, const void* b, size_t ldb, float beta, float* c,
                     size_t ldc, cudaDataType type) {
  const auto flag = [](Transposed each) {
    return each == Transposed::kYes ? CUBLAS_OP_T : CUBLAS_OP_N;
  };
  const auto size = [](size_t each) { return static_cast<int>(each); };
  const float alpha = 1;
  Check(library_.GemmEx(handle_, flag(transpose_b), flag(transpose_a), size(n), size(m), size(k),
                        &alpha, b, type, size(ldb), a, type, size(lda), &beta, c, CUDA_R_32F,
                        size(ldc), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
        fmt::format("cublasGemmEx of {} × {} × {}", m, n, k));
}

void CublasGemm::Check(cublasStatus_t status, const std::string& what) const {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw CudaError(fmt::format("cuda:{}: {}: {}", device_, what, library_.GetStatusString(status)));
}

}  // namespace poolscope::trainer::cuda
