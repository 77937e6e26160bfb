#include "reference-trainer/options_input.h"

#include <fmt/format.h>
#include <poolscope/annotate.h>

#include <CLI/CLI.hpp>

#include "reference-trainer/options.h"

namespace poolscope::trainer {

void AddInputOptions(CLI::App& app, InputOptions& input) {
  const std::string group = "Data loading";
  app.add_option_function<double>(
         "--data-delay-ms", [&input](double ms) { input.delay_seconds = ms / 1e3; },
         "time that preparing a micro-batch takes (default 0)")
      ->check(CLI::Range(0.0, 1e6))
      ->type_name("MS")
      ->group(group);
  app.add_option("--data-workers", input.workers,
                 "threads that prepare micro-batches ahead; 0: each worker its own, when needed")
      ->check(CLI::Range(uint64_t{0}, uint64_t{64}))
      ->type_name("N")
      ->capture_default_str()
      ->group(group);
  app.add_option("--data-prefetch", input.prefetch,
                 "micro-batches kept ready, all workers together")
      ->check(CLI::Range(uint64_t{1}, uint64_t{4096}))
      ->type_name("N")
      ->capture_default_str()
      ->group(group);
}

std::string CheckInput(const CLI::App& app, const Options& options) {
  const bool ahead = options.side_work.kind == SideWorkOptions::Kind::kDataPreparation;
  if (app.count("--data-prefetch") > 0 && options.input.workers == 0 && !ahead) {
    return "--data-prefetch needs --data-workers of 1 or more, or --side-work data-preparation";
  }
  if (options.input.workers > 0 && options.input.delay_seconds == 0 && !options.math) {
    return "--data-workers without --data-delay-ms has nothing to prepare with --math none";
  }
  return "";
}

void AnnotateInput(const InputOptions& input) {
  if (!input.any()) return;
  poolscope_setting("data.delay_ms", fmt::format("{:.6g}", input.delay_seconds * 1e3).c_str());
  poolscope_setting("data.workers", fmt::format("{}", input.workers).c_str());
  if (input.workers > 0) {
    poolscope_setting("data.prefetch", fmt::format("{}", input.prefetch).c_str());
  }
}

}  // namespace poolscope::trainer
