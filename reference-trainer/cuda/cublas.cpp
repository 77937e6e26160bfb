#include "reference-trainer/cuda/cublas.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>

namespace poolscope::trainer::cuda {
namespace {

void* OpenLibrary(const std::string& name) {
  const char* home = std::getenv("CUDA_HOME");
  for (const std::string& folder :
       {std::string(), home ? std::string(home) + "/lib64/" : std::string(),
        std::string("/usr/local/cuda/lib64/")}) {
    if (void* library = dlopen((folder + name).c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  }
  return nullptr;
}

CublasLibrary Load() {
  CublasLibrary cublas;
  const std::string name = fmt::format("libcublas.so.{}", CUBLAS_VER_MAJOR);
  void* const library = OpenLibrary(name);
  if (!library) {
    cublas.error = fmt::format("cannot load {} (--gemm own needs none): {}", name, dlerror());
    return cublas;
  }
  const auto find = [&](const char* symbol, auto& function) {
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, symbol));
    if (!function) cublas.error = fmt::format("{} has no {} (--gemm own needs none)", name, symbol);
  };
  find("cublasCreate_v2", cublas.Create);
  find("cublasDestroy_v2", cublas.Destroy);
  find("cublasSetStream_v2", cublas.SetStream);
  find("cublasGemmEx", cublas.GemmEx);
  find("cublasGetStatusString", cublas.GetStatusString);
  return cublas;
}

}  // namespace

const CublasLibrary& Cublas() {
  static const CublasLibrary library = Load();
  return library;
}

}  // namespace poolscope::trainer::cuda
