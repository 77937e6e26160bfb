#include "reference-trainer/options_side_work.h"

#include <fmt/format.h>
#include <poolscope/annotate.h>

#include <CLI/CLI.hpp>

#include "reference-trainer/options.h"

namespace poolscope::trainer {

using Kind = SideWorkOptions::Kind;

const char* SideWorkName(Kind kind) {
  return kind == Kind::kSynthetic ? "synthetic" : "data-preparation";
}

void AddSideWorkOptions(CLI::App& app, SideWorkOptions& side_work) {
  const std::string group = "Side work";
  app.add_option_function<std::string>(
         "--side-work",
         [&side_work](const std::string& kind) {
           side_work.kind = kind == "synthetic" ? Kind::kSynthetic : Kind::kDataPreparation;
         },
         "what a pool does while it waits: synthetic (nothing of use) or data-preparation (of the "
         "next micro-batches); default none")
      ->check(CLI::IsMember({"synthetic", "data-preparation"}))
      ->type_name("KIND")
      ->group(group);
  app.add_option_function<std::string>(
         "--side-work-pool",
         [&side_work](const std::string& pool) {
           side_work.pool = pool == "compute" ? PoolRole::kCompute : PoolRole::kUpdate;
         },
         "compute or update (default update)")
      ->check(CLI::IsMember({"compute", "update"}))
      ->type_name("POOL")
      ->group(group);
  app.add_option_function<double>(
         "--side-work-ms", [&side_work](double ms) { side_work.slice_seconds = ms / 1e3; },
         "of a slice, after which a worker looks for its own work (default 1)")
      ->check(CLI::Range(0.01, 1e6))
      ->type_name("MS")
      ->group(group);
}

std::string CheckSideWork(const CLI::App& app, const Options& options) {
  const Kind kind = options.side_work.kind;
  for (const char* flag : {"--side-work-pool", "--side-work-ms"}) {
    if (app.count(flag) > 0 && kind == Kind::kNone)
      return fmt::format("{} needs --side-work", flag);
  }
  if (kind == Kind::kNone) return "";
  if (options.mode == Mode::kMonolithic) {
    return "--side-work needs --mode disaggregated: a worker alone waits for nobody";
  }
  if (kind != Kind::kDataPreparation) return "";
  if (options.input.delay_seconds == 0 || options.input.workers > 0) {
    return "--side-work data-preparation needs --data-delay-ms, and no --data-workers to do it";
  }
  if (options.transport != TransportKind::kInProcess) {
    return "--side-work data-preparation needs --transport inprocess: it is for workers of the "
           "same process";
  }
  return "";
}

void AnnotateSideWork(const SideWorkOptions& side_work) {
  if (side_work.kind == Kind::kNone) return;
  poolscope_setting("side_work", SideWorkName(side_work.kind));
  poolscope_setting("side_work.pool", side_work.pool == PoolRole::kCompute ? "compute" : "update");
  poolscope_setting("side_work.slice_ms",
                    fmt::format("{:.6g}", side_work.slice_seconds * 1e3).c_str());
}

}  // namespace poolscope::trainer
