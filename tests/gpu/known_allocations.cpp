// A program that knows nothing of Poolscope, for the tests of tracing: takes and gives back memory
// of every kind within the NVTX range "series", all but one piece. Prints what it asked for, in
// bytes by kind, as JSON.
#include <cuda_runtime.h>
#include <nvtx3/nvToolsExt.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr size_t kPieces = 20, kPiece = 1'000'003;  // as no allocator rounds

void Check(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  std::fprintf(stderr, "known_allocations: %s: %s\n", what, cudaGetErrorString(result));
  std::exit(1);
}

// Pieces of growing size, each by take(address, bytes); gives their addresses.
template <typename Take>
std::vector<void*> TakeAll(const char* what, size_t* bytes, const Take& take) {
  std::vector<void*> pieces(kPieces);
  for (size_t i = 0; i < kPieces; ++i) {
    const size_t size = kPiece * (i + 1);
    Check(take(&pieces[i], size), what);
    *bytes += size;
  }
  return pieces;
}

}  // namespace

int main() {
  int devices = 0;
  if (const cudaError_t result = cudaGetDeviceCount(&devices); result != cudaSuccess) {
    std::fprintf(stderr, "known_allocations: no CUDA device: %s\n", cudaGetErrorString(result));
    return 1;
  }
  cudaStream_t stream;
  Check(cudaStreamCreate(&stream), "cudaStreamCreate");
  int has_pools = 0;
  Check(cudaDeviceGetAttribute(&has_pools, cudaDevAttrMemoryPoolsSupported, 0),
        "cudaDeviceGetAttribute");

  nvtxRangePushA("series");
  size_t device = 0, pool = 0, pinned = 0, managed = 0;
  const auto of_device =
      TakeAll("cudaMalloc", &device, [](void** at, size_t bytes) { return cudaMalloc(at, bytes); });
  const auto of_host = TakeAll("cudaHostAlloc", &pinned, [](void** at, size_t bytes) {
    return cudaHostAlloc(at, bytes, cudaHostAllocDefault);
  });
  const auto of_both = TakeAll("cudaMallocManaged", &managed, [](void** at, size_t bytes) {
    return cudaMallocManaged(at, bytes, cudaMemAttachGlobal);
  });
  if (has_pools != 0) {
    const auto of_pool = TakeAll("cudaMallocAsync", &pool, [&](void** at, size_t bytes) {
      return cudaMallocAsync(at, bytes, stream);
    });
    for (void* each : of_pool) Check(cudaFreeAsync(each, stream), "cudaFreeAsync");
    Check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  }
  for (void* each : of_host) Check(cudaFreeHost(each), "cudaFreeHost");
  for (void* each : of_both) Check(cudaFree(each), "cudaFree");
  for (size_t i = 1; i < kPieces; ++i) Check(cudaFree(of_device[i]), "cudaFree");
  nvtxRangePop();
  std::printf(
      "{\"device\": %zu, \"pool\": %zu, \"pinned\": %zu, \"managed\": %zu, \"held\": %zu}\n",
      device, pool, pinned, managed, kPiece);
  return 0;
}
