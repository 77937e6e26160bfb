#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <optional>
#include <string_view>
#include <variant>

#include "reference-trainer/codecs_command.h"
#include "reference-trainer/data.h"
#include "reference-trainer/log.h"
#include "reference-trainer/memory.h"
#include "reference-trainer/model/parameters.h"
#include "reference-trainer/options.h"
#include "reference-trainer/profiles.h"
#include "reference-trainer/run.h"
#include "reference-trainer/stop.h"

namespace poolscope::trainer {
namespace {

int Failed(const std::string& what) {
  fmt::print(stderr, "poolscope-trainer: {}\n", what);
  return 1;
}

int Main(int argc, char** argv) {
  if (argc > 1 && argv[1] == std::string_view("codecs")) return CodecsCommand(argc - 1, argv + 1);
  if (argc > 1 && argv[1] == std::string_view("profiles")) {
    fmt::print("{}", PrintProfiles());
    return 0;
  }
  const auto parsed = ParseOptions(argc, argv);
  if (const Exit* exit = std::get_if<Exit>(&parsed)) {
    fmt::print(exit->code == 0 ? stdout : stderr, "{}", exit->text);
    return exit->code;
  }
  const Options& options = *std::get_if<Options>(&parsed);

  std::optional<Corpus> corpus;
  size_t parameters = 0;
  if (options.math) {
    auto loaded = LoadCorpus(options.data, options.model.context);
    if (const std::string* error = std::get_if<std::string>(&loaded)) return Failed(*error);
    corpus = std::move(*std::get_if<Corpus>(&loaded));
    parameters = Parameters(ShapeOf(options.model)).size();
  }
  if (const std::string error = CheckMemory(options); !error.empty()) return Failed(error);
  Log log(options);
  if (const std::string error = log.OpenJson(); !error.empty()) return Failed(error);

  WatchStopSignals();
  std::signal(SIGXFSZ, SIG_IGN);  // a file that must not grow is an error, not a crash
  const Corpus* const text = corpus ? &*corpus : nullptr;
  log.Header(text, parameters);
  RunTotals totals;
  const std::string failure = Train(
      options, text, [&](const StepRecord& record) { log.Step(record); },
      [] { return StopSignal() != 0; }, &totals);
  const bool written = log.Finish(totals);
  if (!failure.empty()) return Failed(failure);
  if (StopSignal() != 0) return 128 + StopSignal();
  return written ? 0 : 1;
}

}  // namespace
}  // namespace poolscope::trainer

int main(int argc, char** argv) { return poolscope::trainer::Main(argc, argv); }
