// A program that knows nothing of Poolscope: products of matrices by cuBLAS on two streams, for the
// tests of tracing. Prints "N products on 2 streams"; exits with 77 where there is no device.
#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr int kSkipped = 77, kStreams = 2;

void Check(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "plain_cublas: %s failed\n", what);
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  const int products = argc > 1 ? std::atoi(argv[1]) : 100;
  const int size = argc > 2 ? std::atoi(argv[2]) : 512;
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::fprintf(stderr, "plain_cublas: no CUDA device\n");
    return kSkipped;
  }
  const size_t count = static_cast<size_t>(size) * static_cast<size_t>(size);
  const std::vector<float> ones(count, 1);
  std::vector<float> result(count);
  cublasHandle_t cublas = nullptr;
  Check(cublasCreate(&cublas) == CUBLAS_STATUS_SUCCESS, "cublasCreate");
  cudaStream_t streams[kStreams];
  float *a = nullptr, *c[kStreams];
  Check(cudaMalloc(&a, count * sizeof(float)) == cudaSuccess, "cudaMalloc");
  Check(cudaMemcpy(a, ones.data(), count * sizeof(float), cudaMemcpyHostToDevice) == cudaSuccess,
        "cudaMemcpy");
  for (int i = 0; i < kStreams; ++i) {
    Check(cudaStreamCreate(&streams[i]) == cudaSuccess, "cudaStreamCreate");
    Check(cudaMalloc(&c[i], count * sizeof(float)) == cudaSuccess, "cudaMalloc");
  }
  const float one = 1, zero = 0;
  for (int i = 0; i < products; ++i) {
    Check(cublasSetStream(cublas, streams[i % kStreams]) == CUBLAS_STATUS_SUCCESS,
          "cublasSetStream");
    Check(cublasSgemm(cublas, CUBLAS_OP_N, CUBLAS_OP_N, size, size, size, &one, a, size, a, size,
                      &zero, c[i % kStreams], size) == CUBLAS_STATUS_SUCCESS,
          "cublasSgemm");
  }
  Check(cudaDeviceSynchronize() == cudaSuccess, "cudaDeviceSynchronize");
  Check(
      cudaMemcpy(result.data(), c[0], count * sizeof(float), cudaMemcpyDeviceToHost) == cudaSuccess,
      "cudaMemcpy");
  for (float each : result) Check(each == static_cast<float>(size), "the product of ones");
  std::printf("%d products on %d streams\n", products, kStreams);
  return 0;
}
