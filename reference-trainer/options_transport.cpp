#include "reference-trainer/options_transport.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "reference-trainer/options.h"

namespace poolscope::trainer {
namespace {

const std::map<std::string, TransportKind> kTransports = {{"inprocess", TransportKind::kInProcess},
                                                          {"mpi", TransportKind::kMpi},
                                                          {"nccl", TransportKind::kNccl}};

// What one MPI message can hold, with room for its head.
constexpr uint64_t kMaxMessageBytes = 2'000'000'000;

// Messages go over a wire that is there, between workers whose devices it joins.
std::string CheckNccl(const Options& options) {
  const DeviceOptions& devices = options.devices;
  if (devices.compute.kind != DeviceKind::kCuda || devices.update.kind != DeviceKind::kCuda) {
    return "--transport nccl needs both pools on cuda: give --device cuda";
  }
  for (const Link::Shape& shape :
       {options.gradients.shape, options.weights.shape, options.all_reduce.hop}) {
    if (shape.bytes_per_second > 0 || shape.latency_ns > 0) {
      return "--transport nccl goes at the speed of its wire: bandwidth and latency of links need "
             "--transport inprocess";
    }
  }
  return "";
}

}  // namespace

const char* TransportName(TransportKind transport) {
  for (const auto& [name, kind] : kTransports) {
    if (kind == transport) return name.c_str();
  }
  return "";
}

void AddTransportOptions(CLI::App& app, TransportKind& transport) {
  app.add_option_function<std::string>(
         "--transport", [&](const std::string& text) { transport = kTransports.at(text); },
         "inprocess: workers are threads; mpi: of the processes that mpirun started; nccl: "
         "threads, whose messages go from GPU to GPU (default inprocess)")
      ->check(CLI::IsMember({"inprocess", "mpi", "nccl"}))
      ->type_name("KIND");
}

std::string CheckTransport(const Options& options) {
  if (options.transport == TransportKind::kInProcess) return "";
  const std::string transport = std::string("--transport ") + TransportName(options.transport);
  if (options.mode == Mode::kMonolithic) return transport + " needs --mode disaggregated";
  if (options.reliability.gradients.in_blocks() || options.reliability.weights.in_blocks()) {
    return "faults and reliability of links need --transport inprocess: " + transport +
           " loses nothing";
  }
  if (options.transport == TransportKind::kNccl) return CheckNccl(options);
  if (options.model.experts.count > 0) {
    return "--experts needs --transport inprocess: their load is counted in one process";
  }
  if (options.fetch.on) {
    return "--weights-mode fetch needs --transport inprocess: its blocks are not served over "
           "processes";
  }
  if (!options.checkpoint.folder.empty() || !options.checkpoint.resume.empty()) {
    return "--checkpoint-dir and --resume need --transport inprocess: a checkpoint is put together "
           "in one process";
  }
  if (!options.devices.emulated()) return "";
  const auto check = [&](const char* link, uint64_t bytes, const Link::Shape& shape) {
    const bool real = shape.bytes_per_second == 0 && shape.latency_ns == 0;
    if (!real || bytes / options.update_workers <= kMaxMessageBytes) return std::string();
    return fmt::format("messages of {} bytes are too large for MPI: give --{}-bandwidth",
                       bytes / options.update_workers, link);
  };
  const std::string error = check("gradients", options.gradient_bytes, options.gradients.shape);
  return error.empty() ? check("weights", options.weight_bytes, options.weights.shape) : error;
}

}  // namespace poolscope::trainer
