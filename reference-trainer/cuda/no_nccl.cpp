// In place of nccl_wire.cpp where there is no nvcc or no nccl.h.
#include <stdexcept>

#include "reference-trainer/cuda/nccl_wire.h"

namespace poolscope::trainer {
namespace {

constexpr const char* kNone =
    "--transport nccl: this poolscope-trainer was built without the CUDA Toolkit or nccl.h";

}  // namespace

std::string NcclUnavailable(const std::vector<int>&) { return kNone; }

std::unique_ptr<Wire> MakeNcclWire(const std::vector<int>&, const std::vector<int>&) {
  throw std::runtime_error(kNone);
}

}  // namespace poolscope::trainer
