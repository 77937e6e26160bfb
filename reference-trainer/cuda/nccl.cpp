#include "reference-trainer/cuda/nccl.h"

#include "reference-trainer/cuda/shared_library.h"

namespace poolscope::trainer::cuda {
namespace {

NcclLibrary Load() {
  NcclLibrary nccl;
  SharedLibrary library("libnccl.so.2");
  library.Find("ncclGetVersion", nccl.GetVersion);
  library.Find("ncclCommInitAll", nccl.CommInitAll);
  library.Find("ncclCommAbort", nccl.CommAbort);
  library.Find("ncclCommDestroy", nccl.CommDestroy);
  library.Find("ncclGroupStart", nccl.GroupStart);
  library.Find("ncclGroupEnd", nccl.GroupEnd);
  library.Find("ncclSend", nccl.Send);
  library.Find("ncclRecv", nccl.Recv);
  library.Find("ncclAllReduce", nccl.AllReduce);
  library.Find("ncclGetErrorString", nccl.GetErrorString);
  nccl.error = library.error();
  return nccl;
}

}  // namespace

const NcclLibrary& Nccl() {
  static const NcclLibrary library = Load();
  return library;
}

}  // namespace poolscope::trainer::cuda
