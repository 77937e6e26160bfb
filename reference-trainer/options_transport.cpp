#include "reference-trainer/options_transport.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "reference-trainer/options.h"

namespace poolscope::trainer {
namespace {

const std::map<std::string, TransportKind> kTransports = {{"inprocess", TransportKind::kInProcess},
                                                          {"mpi", TransportKind::kMpi}};

// What one MPI message can hold, with room for its head.
constexpr uint64_t kMaxMessageBytes = 2'000'000'000;

}  // namespace

void AddTransportOptions(CLI::App& app, TransportKind& transport) {
  app.add_option_function<std::string>(
         "--transport", [&](const std::string& text) { transport = kTransports.at(text); },
         "inprocess: workers are threads; mpi: of the processes that mpirun started "
         "(default inprocess)")
      ->check(CLI::IsMember({"inprocess", "mpi"}))
      ->type_name("KIND");
}

std::string CheckTransport(const Options& options) {
  if (options.transport == TransportKind::kInProcess) return "";
  if (options.mode == Mode::kMonolithic) return "--transport mpi needs --mode disaggregated";
  if (options.model.experts.count > 0) {
    return "--experts needs --transport inprocess: their load is counted in one process";
  }
  if (options.fetch.on) {
    return "--weights-mode fetch needs --transport inprocess: its blocks are not served over "
           "processes";
  }
  if (options.reliability.gradients.in_blocks() || options.reliability.weights.in_blocks()) {
    return "faults and reliability of links need --transport inprocess: MPI loses nothing";
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
