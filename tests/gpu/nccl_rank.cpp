// NCCL operations on all GPUs of the machine, one rank each, for the tests of the agent's plugin:
// sums over the ranks, and sends to the next one, with one GPU to itself. Prints what it called, as
// JSON.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "reference-trainer/cuda/nccl.h"

namespace {

using poolscope::trainer::cuda::NcclLibrary;

constexpr int kTimes = 20;
constexpr size_t kCount = 1 << 20;  // floats

void Check(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  std::fprintf(stderr, "nccl_rank: %s: %s\n", what, cudaGetErrorString(result));
  std::exit(1);
}

struct Rank {
  int device;
  ncclComm_t communicator;
  cudaStream_t stream;
  float *from, *to;
};

}  // namespace

int main() {
  int devices = 0;
  if (const cudaError_t result = cudaGetDeviceCount(&devices); result != cudaSuccess) {
    std::fprintf(stderr, "nccl_rank: no CUDA device: %s\n", cudaGetErrorString(result));
    return 1;
  }
  const NcclLibrary& nccl = poolscope::trainer::cuda::Nccl();
  if (!nccl.error.empty()) {
    std::fprintf(stderr, "nccl_rank: %s\n", nccl.error.c_str());
    return 1;
  }
  const auto check = [&](ncclResult_t result, const char* what) {
    if (result == ncclSuccess) return;
    std::fprintf(stderr, "nccl_rank: %s: %s\n", what, nccl.GetErrorString(result));
    std::exit(1);
  };
  std::vector<ncclComm_t> communicators(static_cast<size_t>(devices));
  check(nccl.CommInitAll(communicators.data(), devices, nullptr), "ncclCommInitAll");
  std::vector<Rank> ranks;
  for (int device = 0; device < devices; ++device) {
    Rank& rank =
        ranks.emplace_back(Rank{device, communicators[static_cast<size_t>(device)], {}, {}, {}});
    Check(cudaSetDevice(device), "cudaSetDevice");
    Check(cudaStreamCreate(&rank.stream), "cudaStreamCreate");
    for (float** each : {&rank.from, &rank.to}) {
      Check(cudaMalloc(each, kCount * sizeof(float)), "cudaMalloc");
      Check(cudaMemset(*each, 0, kCount * sizeof(float)), "cudaMemset");
    }
  }
  const auto grouped = [&](const auto& call) {
    check(nccl.GroupStart(), "ncclGroupStart");
    for (const Rank& rank : ranks) call(rank);
    check(nccl.GroupEnd(), "ncclGroupEnd");
  };
  for (int i = 0; i < kTimes; ++i) {
    grouped([&](const Rank& rank) {
      check(nccl.AllReduce(rank.from, rank.to, kCount, ncclFloat, ncclSum, rank.communicator,
                           rank.stream),
            "ncclAllReduce");
    });
    grouped([&](const Rank& rank) {
      const int next = (rank.device + 1) % devices, last = (rank.device + devices - 1) % devices;
      check(nccl.Send(rank.from, kCount, ncclFloat, next, rank.communicator, rank.stream),
            "ncclSend");
      check(nccl.Recv(rank.to, kCount, ncclFloat, last, rank.communicator, rank.stream),
            "ncclRecv");
    });
  }
  for (const Rank& rank : ranks) Check(cudaStreamSynchronize(rank.stream), "the operations");
  for (const Rank& rank : ranks) check(nccl.CommDestroy(rank.communicator), "ncclCommDestroy");
  int version = 0;
  check(nccl.GetVersion(&version), "ncclGetVersion");
  std::printf(
      "{\"version\": %d, \"ranks\": %d, \"operations\": \"AllReduce %d, Send %d, Recv %d\"}\n",
      version, devices, kTimes * devices, kTimes * devices, kTimes * devices);
  return 0;
}
