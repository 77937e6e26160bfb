#pragma once

#include <nccl.h>

#include <string>

namespace poolscope::trainer::cuda {

// The functions of NCCL that are used, from the library found at run time.
struct NcclLibrary {
  decltype(&ncclGetVersion) GetVersion = nullptr;
  decltype(&ncclCommInitAll) CommInitAll = nullptr;
  decltype(&ncclCommAbort) CommAbort = nullptr;
  decltype(&ncclCommDestroy) CommDestroy = nullptr;
  decltype(&ncclGroupStart) GroupStart = nullptr;
  decltype(&ncclGroupEnd) GroupEnd = nullptr;
  decltype(&ncclSend) Send = nullptr;
  decltype(&ncclRecv) Recv = nullptr;
  decltype(&ncclAllReduce) AllReduce = nullptr;
  decltype(&ncclGetErrorString) GetErrorString = nullptr;
  std::string error;  // "": loaded
};

// Loads it at the first call; any thread.
const NcclLibrary& Nccl();

}  // namespace poolscope::trainer::cuda
