#include "reference-trainer/cuda/nccl_wire.h"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <set>

#include "reference-trainer/cuda/cuda_pool.h"
#include "reference-trainer/cuda/device_stream.h"
#include "reference-trainer/cuda/nccl.h"

namespace poolscope::trainer {
namespace {

using cuda::CudaError;
using cuda::DeviceStream;
using cuda::Nccl;
using cuda::NcclLibrary;

// A device with its rank among those of the wire, and room for a message each way: a worker of
// either pool may be on it.
struct End {
  struct Room {
    void* bytes = nullptr;
    size_t size = 0;
  };
  int rank = 0;
  ncclComm_t communicator = nullptr;
  std::unique_ptr<DeviceStream> stream;
  Room sending, receiving;
};

// Operations of several communicators have to be launched in one order on all their devices.
std::mutex launching;

void Check(ncclResult_t result, const char* what) {
  if (result == ncclSuccess) return;
  throw CudaError(fmt::format("{}: {}", what, Nccl().GetErrorString(result)));
}

class NcclWire : public Wire {
 public:
  NcclWire(std::vector<int> senders, std::vector<int> receivers)
      : senders_(std::move(senders)), receivers_(std::move(receivers)) {
    std::set<int> all(senders_.begin(), senders_.end());
    all.insert(receivers_.begin(), receivers_.end());
    const std::vector<int> devices(all.begin(), all.end());
    std::vector<ncclComm_t> communicators(devices.size());
    Check(nccl_.CommInitAll(communicators.data(), static_cast<int>(devices.size()), devices.data()),
          "ncclCommInitAll");
    for (size_t i = 0; i < devices.size(); ++i) {
      End& end = ends_[devices[i]];
      end.rank = static_cast<int>(i);
      end.communicator = communicators[i];
    }
    for (auto& [device, end] : ends_) {
      end.stream =
          std::make_unique<DeviceStream>(DeviceStream::Shape{device, true, false, "nccl wire"});
    }
  }

  ~NcclWire() override {
    for (auto& [device, end] : ends_) {
      if (end.stream) cudaStreamSynchronize(end.stream->stream());
      nccl_.CommDestroy(end.communicator);
    }
  }

  void Carry(size_t source, size_t destination, std::vector<uint8_t>& bytes) override {
    End& from = ends_.at(senders_[source]);
    End& to = ends_.at(receivers_[destination]);
    Enlarge(from, from.sending, bytes.size());
    Enlarge(to, to.receiving, bytes.size());
    from.stream->CopyAsync(bytes.size(), bytes.data(), from.sending.bytes);
    {
      std::lock_guard lock(launching);
      Check(nccl_.GroupStart(), "ncclGroupStart");
      Check(nccl_.Send(from.sending.bytes, bytes.size(), ncclUint8, to.rank, from.communicator,
                       from.stream->stream()),
            "ncclSend");
      Check(nccl_.Recv(to.receiving.bytes, bytes.size(), ncclUint8, from.rank, to.communicator,
                       to.stream->stream()),
            "ncclRecv");
      Check(nccl_.GroupEnd(), "ncclGroupEnd");
    }
    to.stream->Copy(bytes.size(), to.receiving.bytes, bytes.data());
    from.stream->Wait();
  }

 private:
  static void Enlarge(const End& end, End::Room& room, size_t size) {
    if (room.size >= size) return;
    const int device = end.stream->device();
    cuda::Check(cudaSetDevice(device), device, "cudaSetDevice");
    room = {end.stream->Allocate(size), size};
  }

  const NcclLibrary& nccl_ = Nccl();
  const std::vector<int> senders_, receivers_;  // devices, by worker
  std::map<int, End> ends_;                     // by device
};

}  // namespace

std::string NcclUnavailable(const std::vector<int>& devices) {
  if (const int count = CudaDeviceCount(); count < 2) {
    return fmt::format("--transport nccl needs two GPUs, this machine has {}", count);
  }
  if (std::set<int>(devices.begin(), devices.end()).size() < 2) {
    return fmt::format("--transport nccl needs two GPUs, all workers are on cuda:{}", devices[0]);
  }
  return Nccl().error;
}

std::unique_ptr<Wire> MakeNcclWire(const std::vector<int>& senders,
                                   const std::vector<int>& receivers) {
  return std::make_unique<NcclWire>(senders, receivers);
}

}  // namespace poolscope::trainer
