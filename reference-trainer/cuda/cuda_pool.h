#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "reference-trainer/model/adamw.h"
#include "reference-trainer/model/replica.h"
#include "reference-trainer/model/shard.h"

// The cuda device as the rest of the trainer sees it. A build without CUDA has the same functions,
// of which CudaUnavailable says so.
namespace poolscope::trainer {

enum class GemmKind { kCublas, kOwn };

// What a worker computes on.
struct CudaWorker {
  int device = 0;
  bool high_priority = false;  // of its stream, among those of its device
  bool bf16 = false;           // products of matrices take inputs in bf16
  bool graphs = false;         // passes are captured and replayed
  GemmKind gemm = GemmKind::kCublas;
  std::string name;  // of its stream, for tracing tools
};

// Devices of this machine; 0 also where none can be used.
int CudaDeviceCount();
// Why the worker cannot have its device, one line, or "".
std::string CudaUnavailable(const CudaWorker& worker);

// These throw std::runtime_error, one line, where the device fails, and so do all functions of what
// they make, which is used by the calling thread.
std::unique_ptr<Replica> MakeCudaReplica(const CudaWorker& worker, const GptShape& shape,
                                         size_t batch, uint64_t seed);
std::unique_ptr<Shard> MakeCudaShard(const CudaWorker& worker, const GptShape& shape,
                                     const Ranges& ranges, uint64_t seed, AdamW::Rates rates);

}  // namespace poolscope::trainer
