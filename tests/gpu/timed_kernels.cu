// A program that knows nothing of Poolscope, for the tests of tracing: kernels that spin for about
// a millisecond, each between two CUDA events, and one graph of them that is launched often. Prints
// how many there were and their time by the events, as JSON.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

__global__ void Spin(long long cycles) {
  const long long begin = clock64();
  while (clock64() - begin < cycles) {
  }
}

namespace {

constexpr int kPlain = 100, kGraphs = 20, kInGraph = 10;

void Check(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  std::fprintf(stderr, "timed_kernels: %s: %s\n", what, cudaGetErrorString(result));
  std::exit(1);
}

}  // namespace

int main() {
  int devices = 0;
  if (const cudaError_t result = cudaGetDeviceCount(&devices); result != cudaSuccess) {
    std::fprintf(stderr, "timed_kernels: no CUDA device: %s\n", cudaGetErrorString(result));
    return 1;
  }
  int kilohertz = 0;
  Check(cudaDeviceGetAttribute(&kilohertz, cudaDevAttrClockRate, 0), "cudaDeviceGetAttribute");
  cudaStream_t stream;
  Check(cudaStreamCreate(&stream), "cudaStreamCreate");
  Spin<<<1, 1, 0, stream>>>(1);  // loads the module, which the first event would time
  Check(cudaStreamSynchronize(stream), "the first kernel");

  cudaGraph_t graph;
  cudaGraphExec_t executable;
  Check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
  for (int i = 0; i < kInGraph; ++i) Spin<<<1, 1, 0, stream>>>(kilohertz);
  Check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  Check(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");

  const auto timed = [&](const auto& launch) {
    cudaEvent_t begin, end;
    Check(cudaEventCreate(&begin), "cudaEventCreate");
    Check(cudaEventCreate(&end), "cudaEventCreate");
    Check(cudaEventRecord(begin, stream), "cudaEventRecord");
    launch();
    Check(cudaEventRecord(end, stream), "cudaEventRecord");
    Check(cudaEventSynchronize(end), "cudaEventSynchronize");
    float milliseconds = 0;
    Check(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
    Check(cudaEventDestroy(begin), "cudaEventDestroy");
    Check(cudaEventDestroy(end), "cudaEventDestroy");
    return static_cast<double>(milliseconds) / 1e3;
  };
  double seconds = 0;
  for (int i = 0; i < kPlain; ++i) {
    seconds += timed([&] { Spin<<<1, 1, 0, stream>>>(kilohertz); });
  }
  for (int i = 0; i < kGraphs; ++i) {
    seconds += timed([&] { Check(cudaGraphLaunch(executable, stream), "cudaGraphLaunch"); });
  }
  Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  // The first kernel is counted and not timed: a microsecond.
  std::printf("{\"kernels\": %d, \"in_graphs\": %d, \"seconds\": %.6f}\n",
              1 + kPlain + kGraphs * kInGraph, kGraphs * kInGraph, seconds);
  return 0;
}
