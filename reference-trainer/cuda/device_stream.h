#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace poolscope::trainer::cuda {

// One line: the device, what was asked of it, what it answered.
class CudaError : public std::runtime_error {
 public:
  using runtime_error::runtime_error;
};

// Throws CudaError where `result` is not success. `what` is the call and what it was about.
void Check(cudaError_t result, int device, const std::string& what);

// A worker's stream on a device, with the memory that it allocated there and on the host. Used by
// the thread that made it. Functions throw CudaError.
class DeviceStream {
 public:
  struct Shape {
    int device = 0;
    bool high_priority = false;
    bool graphs = false;  // Repeat captures
    std::string name;     // that tracing tools show
  };

  explicit DeviceStream(const Shape& shape);
  ~DeviceStream();
  DeviceStream(const DeviceStream&) = delete;
  DeviceStream& operator=(const DeviceStream&) = delete;

  int device() const { return shape_.device; }
  cudaStream_t stream() const { return stream_; }

  void* Allocate(size_t bytes);      // zeros, on the device
  void* AllocateHost(size_t bytes);  // pinned
  // In order with all else of the stream. Host memory that is not pinned is read or written before
  // the function returns.
  void Clear(size_t bytes, void* values);
  void CopyAsync(size_t bytes, const void* from, void* to);
  void Copy(size_t bytes, const void* from, void* to);  // CopyAsync, Wait
  void Wait();

  // Any kernel as in block.h; only in sources that nvcc compiles: device_stream.cuh.
  template <class Kernel>
  void Run(const Kernel& kernel);

  // Does `work`, which is the same at each call with the same name and size: kernels and clears
  // with the same arguments. With graphs, the first call does it (libraries allocate what they
  // need), the second captures it, and from then on it is one launch.
  void Repeat(const std::pair<std::string, size_t>& name, const std::function<void()>& work);

 private:
  struct Graph {
    bool warm = false;
    cudaGraphExec_t executable = nullptr;
  };

  void Capture(Graph& graph, const std::function<void()>& work);

  const Shape shape_;
  cudaStream_t stream_ = nullptr;
  std::vector<void*> device_memory_, host_memory_;
  std::map<std::pair<std::string, size_t>, Graph> graphs_;
};

}  // namespace poolscope::trainer::cuda
