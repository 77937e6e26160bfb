#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string_view>
#include <variant>

#include "reference-trainer/codecs_command.h"
#include "reference-trainer/crc32c.h"
#include "reference-trainer/data.h"
#include "reference-trainer/log.h"
#include "reference-trainer/memory.h"
#include "reference-trainer/model/parameters.h"
#include "reference-trainer/options.h"
#include "reference-trainer/profiles.h"
#include "reference-trainer/run.h"
#include "reference-trainer/scratch_folder.h"
#include "reference-trainer/stop.h"
#include "reference-trainer/transport_mpi.h"

namespace poolscope::trainer {
namespace {

// A number that the launcher of this process (Open MPI, MPICH) told it, or `otherwise`.
int Launched(const char* of_open_mpi, const char* of_mpich, int otherwise) {
  for (const char* name : {of_open_mpi, of_mpich}) {
    if (const char* number = std::getenv(name)) return std::atoi(number);
  }
  return otherwise;
}
int LaunchedRank() { return Launched("OMPI_COMM_WORLD_RANK", "PMI_RANK", 0); }
int LaunchedRanks() { return Launched("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", 1); }

// Of several processes the first one speaks for all.
int Failed(const std::string& what, int code = 1) {
  if (LaunchedRank() == 0) fmt::print(stderr, "poolscope-trainer: {}\n", what);
  return code;
}

uint64_t ChecksumOf(int argc, char** argv) {
  std::string all;
  for (int i = 1; i < argc; ++i) all += argv[i] + std::string(1, '\0');
  return Crc32c({reinterpret_cast<const uint8_t*>(all.data()), all.size()});
}

int Main(int argc, char** argv) {
  if (argc > 1 && argv[1] == std::string_view("codecs")) return CodecsCommand(argc - 1, argv + 1);
  if (argc > 1 && argv[1] == std::string_view("profiles")) {
    fmt::print("{}", PrintProfiles());
    return 0;
  }
  auto parsed = ParseOptions(argc, argv);
  if (const Exit* exit = std::get_if<Exit>(&parsed)) {
    if (LaunchedRank() == 0) fmt::print(exit->code == 0 ? stdout : stderr, "{}", exit->text);
    return exit->code;
  }
  const ScratchFolder checkpoints(std::get_if<Options>(&parsed)->checkpoint.folder);
  const Options& options = *std::get_if<Options>(&parsed);

  if (options.transport != TransportKind::kMpi && LaunchedRanks() > 1) {
    return Failed(
        fmt::format("one of {} processes: give --transport mpi, or start one", LaunchedRanks()), 2);
  }
  std::unique_ptr<MpiTransport> transport;  // null: all in this process
  if (options.transport == TransportKind::kMpi) {
    auto started = StartMpi();
    if (const std::string* error = std::get_if<std::string>(&started)) return Failed(*error);
    transport = std::move(*std::get_if<std::unique_ptr<MpiTransport>>(&started));
    const uint64_t workers = options.compute_workers + options.update_workers;
    if (static_cast<uint64_t>(transport->ranks()) > workers) {
      return Failed(
          fmt::format("{} processes for {} workers: start {} at most, or give more workers",
                      transport->ranks(), workers, workers),
          2);
    }
  }
  // What keeps one process from training keeps all; every process asks the same questions.
  std::string failure;
  const auto failed = [&](const std::string& error) {
    failure = transport ? transport->FirstError(error) : error;
    return !failure.empty();
  };
  const auto differs = [&](uint64_t value) {
    return transport && transport->OfFirst(value) != value;
  };

  if (failed(differs(ChecksumOf(argc, argv)) ? "started with other flags than rank 0" : "")) {
    return Failed(failure, 2);
  }
  if (failed(CheckMemory(options))) return Failed(failure);
  std::optional<Corpus> corpus;
  size_t parameters = 0;
  if (options.math) {
    auto loaded = LoadCorpus(options.data, options.model.context);
    const std::string* error = std::get_if<std::string>(&loaded);
    if (failed(error ? *error : "")) return Failed(failure);
    corpus = std::move(*std::get_if<Corpus>(&loaded));
    parameters = Parameters(ShapeOf(options.model)).size();
    if (failed(differs(corpus->Checksum()) ? "reads other --data than rank 0" : "")) {
      return Failed(failure);
    }
  }
  if (failed(CudaUnavailable(options))) return Failed(failure);
  std::optional<Log> log;
  if (!transport || transport->rank() == 0) log.emplace(options);
  if (failed(log ? log->OpenJson() : "")) return Failed(failure);

  WatchStopSignals();
  std::signal(SIGXFSZ, SIG_IGN);  // a file that must not grow is an error, not a crash
  const Corpus* const text = corpus ? &*corpus : nullptr;
  if (log) log->Header(text, parameters);
  RunTotals totals;
  failure = Train(
      options, text,
      [&](const StepRecord& record) {
        if (log) log->Step(record);
      },
      [] { return StopSignal() != 0; }, &totals, transport.get());
  const bool written = !log || log->Finish(totals);
  if (!failure.empty()) return Failed(failure);
  if (StopSignal() != 0) return 128 + StopSignal();
  return written ? 0 : 1;
}

}  // namespace
}  // namespace poolscope::trainer

// Of several processes the first one's exit code is that of all: a launcher may end the others as
// soon as one has failed, and the first one has to say why.
int main(int argc, char** argv) {
  const int code = poolscope::trainer::Main(argc, argv);
  return poolscope::trainer::LaunchedRank() == 0 ? code : 0;
}
