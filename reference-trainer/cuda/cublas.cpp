#include "reference-trainer/cuda/cublas.h"

#include <fmt/format.h>

#include "reference-trainer/cuda/shared_library.h"

namespace poolscope::trainer::cuda {
namespace {

CublasLibrary Load() {
  CublasLibrary cublas;
  SharedLibrary library(fmt::format("libcublas.so.{}", CUBLAS_VER_MAJOR));
  library.Find("cublasCreate_v2", cublas.Create);
  library.Find("cublasDestroy_v2", cublas.Destroy);
  library.Find("cublasSetStream_v2", cublas.SetStream);
  library.Find("cublasGemmEx", cublas.GemmEx);
  library.Find("cublasGetStatusString", cublas.GetStatusString);
  if (!library.error().empty()) cublas.error = library.error() + " (--gemm own needs none)";
  return cublas;
}

}  // namespace

const CublasLibrary& Cublas() {
  static const CublasLibrary library = Load();
  return library;
}

}  // namespace poolscope::trainer::cuda
