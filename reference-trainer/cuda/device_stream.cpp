#include "reference-trainer/cuda/device_stream.h"

#include <fmt/format.h>
#include <nvtx3/nvToolsExtCudaRt.h>

namespace poolscope::trainer::cuda {

void Check(cudaError_t result, int device, const std::string& what) {
  if (result == cudaSuccess) return;
  throw CudaError(fmt::format("cuda:{}: {}: {}", device, what, cudaGetErrorString(result)));
}

DeviceStream::DeviceStream(const Shape& shape) : shape_(shape) {
  Check(cudaSetDevice(device()), device(), "cudaSetDevice");
  int lowest = 0, highest = 0;
  Check(cudaDeviceGetStreamPriorityRange(&lowest, &highest), device(),
        "cudaDeviceGetStreamPriorityRange");
  Check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking,
                                     shape.high_priority ? highest : lowest),
        device(), "cudaStreamCreateWithPriority");
  nvtxNameCudaStreamA(stream_, shape.name.c_str());
}

// Errors are of no more use here.
DeviceStream::~DeviceStream() {
  if (stream_) cudaStreamSynchronize(stream_);
  for (auto& [name, graph] : graphs_) {
    if (graph.executable) cudaGraphExecDestroy(graph.executable);
  }
  for (void* each : device_memory_) cudaFree(each);
  for (void* each : host_memory_) cudaFreeHost(each);
  if (stream_) cudaStreamDestroy(stream_);
}

void* DeviceStream::Allocate(size_t bytes) {
  void* memory = nullptr;
  Check(cudaMalloc(&memory, bytes), device(), fmt::format("cudaMalloc of {} bytes", bytes));
  device_memory_.push_back(memory);
  Clear(bytes, memory);
  return memory;
}

void* DeviceStream::AllocateHost(size_t bytes) {
  void* memory = nullptr;
  Check(cudaMallocHost(&memory, bytes), device(), fmt::format("cudaMallocHost of {} bytes", bytes));
  host_memory_.push_back(memory);
  return memory;
}

void DeviceStream::Clear(size_t bytes, void* values) {
  Check(cudaMemsetAsync(values, 0, bytes, stream_), device(), "cudaMemsetAsync");
}

void DeviceStream::CopyAsync(size_t bytes, const void* from, void* to) {
  Check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), device(),
        fmt::format("cudaMemcpyAsync of {} bytes", bytes));
}

void DeviceStream::Copy(size_t bytes, const void* from, void* to) {
  CopyAsync(bytes, from, to);
  Wait();
}

void DeviceStream::Wait() {
  Check(cudaStreamSynchronize(stream_), device(), "cudaStreamSynchronize");
}

void DeviceStream::Repeat(const std::pair<std::string, size_t>& name,
                          const std::function<void()>& work) {
  Graph& graph = graphs_[name];
  if (!shape_.graphs || !graph.warm) {
    graph.warm = true;
    work();
    return;
  }
  if (!graph.executable) Capture(graph, work);
  Check(cudaGraphLaunch(graph.executable, stream_), device(), "cudaGraphLaunch");
}

void DeviceStream::Capture(Graph& graph, const std::function<void()>& work) {
  // Thread-local: what other workers do meanwhile does not disturb it.
  Check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), device(),
        "cudaStreamBeginCapture");
  work();
  cudaGraph_t captured = nullptr;
  Check(cudaStreamEndCapture(stream_, &captured), device(), "cudaStreamEndCapture");
  const cudaError_t result = cudaGraphInstantiate(&graph.executable, captured, 0);
  cudaGraphDestroy(captured);
  Check(result, device(), "cudaGraphInstantiate");
}

}  // namespace poolscope::trainer::cuda
