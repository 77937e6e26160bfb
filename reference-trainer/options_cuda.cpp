#include "reference-trainer/options_cuda.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>

#include "reference-trainer/cuda/nccl_wire.h"
#include "reference-trainer/options.h"

namespace poolscope::trainer {
namespace {

bool OnCuda(const Options& options, PoolRole pool) {
  return options.devices.Of(pool).kind == DeviceKind::kCuda;
}

}  // namespace

void AddCudaOptions(CLI::App& app, CudaOptions& cuda) {
  const std::string group = "Device cuda";
  app.add_option_function<std::string>(
         "--gemm",
         [&cuda](const std::string& text) {
           cuda.gemm = text == "own" ? GemmKind::kOwn : GemmKind::kCublas;
         },
         "products of matrices: cublas, or own, which needs no library (default cublas)")
      ->check(CLI::IsMember({"cublas", "own"}))
      ->type_name("G")
      ->group(group);
  app.add_flag("--cuda-graphs", cuda.graphs, "forward and backward are captured and replayed")
      ->group(group);
  app.add_option_function<std::string>(
         "--stream-priority",
         [&cuda](const std::string& text) {
           cuda.high_priority.reset();
           if (text == "compute") cuda.high_priority = PoolRole::kCompute;
           if (text == "update") cuda.high_priority = PoolRole::kUpdate;
         },
         "pool whose streams go first on a device: compute, update or none (default none)")
      ->check(CLI::IsMember({"compute", "update", "none"}))
      ->type_name("POOL")
      ->group(group);
}

std::string CheckCuda(const CLI::App& app, const Options& options) {
  const bool compute = OnCuda(options, PoolRole::kCompute);
  const bool update = OnCuda(options, PoolRole::kUpdate);
  const std::map<std::string, bool> effective = {
      {"--gemm", compute},
      {"--cuda-graphs", compute},
      {"--stream-priority", options.cuda.high_priority == PoolRole::kCompute ? compute : update}};
  for (const auto& [flag, has_effect] : effective) {
    if (app.count(flag) > 0 && !has_effect) {
      return fmt::format("{} needs a pool on cuda that it has an effect on", flag);
    }
  }
  if (compute && options.model.experts.count > 0) {
    return "--experts does not go with compute on cuda: experts are computed on the cpu";
  }
  if (compute && options.fetch.on) {
    return "--weights-mode fetch does not go with compute on cuda: replicas there hold all weights";
  }
  if (update && options.state.offload.to != Offload::kNone) {
    return "--optimizer-offload does not go with update on cuda: give --update-device cpu";
  }
  return "";
}

CudaWorker CudaWorkerOf(const Options& options, PoolRole pool, size_t index) {
  const DeviceSpec& spec = options.devices.Of(pool);
  CudaWorker worker;
  const size_t place = pool == PoolRole::kCompute ? index : options.compute_workers + index;
  worker.device = static_cast<int>(
      spec.number ? *spec.number : place % static_cast<size_t>(std::max(1, CudaDeviceCount())));
  worker.high_priority = options.cuda.high_priority == pool;
  worker.bf16 = pool == PoolRole::kCompute && options.devices.precision == Precision::kBf16;
  worker.graphs = options.cuda.graphs;
  // An optimizer has no products.
  worker.gemm = pool == PoolRole::kCompute ? options.cuda.gemm : GemmKind::kOwn;
  worker.name = fmt::format("{}/{}", pool == PoolRole::kCompute ? "compute" : "update", index);
  return worker;
}

std::vector<int> CudaDevicesOf(const Options& options, PoolRole pool) {
  const uint64_t workers =
      pool == PoolRole::kCompute ? options.AllComputeWorkers() : options.update_workers;
  std::vector<int> devices;
  for (uint64_t i = 0; i < workers; ++i) devices.push_back(CudaWorkerOf(options, pool, i).device);
  return devices;
}

std::string CudaUnavailable(const Options& options) {
  if (options.transport == TransportKind::kNccl) {
    std::vector<int> devices = CudaDevicesOf(options, PoolRole::kCompute);
    const std::vector<int> update = CudaDevicesOf(options, PoolRole::kUpdate);
    devices.insert(devices.end(), update.begin(), update.end());
    if (std::string error = NcclUnavailable(devices); !error.empty()) return error;
  }
  for (const PoolRole pool : {PoolRole::kCompute, PoolRole::kUpdate}) {
    if (!OnCuda(options, pool)) continue;
    const CudaWorker worker = CudaWorkerOf(options, pool, 0);
    if (std::string error = CudaUnavailable(worker); !error.empty()) return error;
  }
  return "";
}

}  // namespace poolscope::trainer
