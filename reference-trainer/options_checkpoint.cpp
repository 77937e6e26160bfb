#include "reference-trainer/options_checkpoint.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "reference-trainer/options.h"

namespace poolscope::trainer {

void AddCheckpointOptions(CLI::App& app, CheckpointOptions& checkpoint) {
  const std::string group = "Checkpoints";
  const auto count = [&](const char* flag, uint64_t& value, const char* help) {
    app.add_option(flag, value, help)
        ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 40))
        ->type_name("N")
        ->capture_default_str()
        ->group(group);
  };
  app.add_option(
         "--checkpoint-dir", checkpoint.folder,
         "folder for checkpoints of the update pool (default: none are made); one that ends in "
         "XXXXXX is made for this run alone and removed at its end")
      ->type_name("DIR")
      ->group(group);
  count("--checkpoint-every", checkpoint.every,
        "updates from one to the next; the end has one too");
  count("--checkpoint-keep", checkpoint.keep, "how many of the newest are kept");
  app.add_option_function<std::string>(
         "--checkpoint-kind", [&](const std::string& kind) { checkpoint.full = kind == "full"; },
         "update: of the update pool, written while training goes on; full: with the replicas of "
         "the compute workers, while all wait (default update)")
      ->check(CLI::IsMember({"update", "full"}))
      ->type_name("KIND")
      ->group(group);
  app.add_option_function<std::string>(
         "--checkpoint-bandwidth",
         [&](const std::string& text) { checkpoint.bytes_per_second = *ParseSuffixed(text); },
         "of the device they are written to; 0 is as fast as it goes (default 0)")
      ->check([](const std::string& text) {
        return ParseSuffixed(text) ? "" : "'" + text + "' is no rate such as 500M or 2G";
      })
      ->type_name("RATE")
      ->group(group);
  app.add_option("--resume", checkpoint.resume,
                 "go on from the newest checkpoint in this folder, up to --steps in all")
      ->type_name("DIR")
      ->group(group);
}

std::string CheckCheckpoint(const CLI::App& app, const Options& options) {
  const CheckpointOptions& checkpoint = options.checkpoint;
  for (const char* flag :
       {"--checkpoint-every", "--checkpoint-keep", "--checkpoint-kind", "--checkpoint-bandwidth"}) {
    if (app.count(flag) > 0 && checkpoint.folder.empty()) {
      return fmt::format("{} needs --checkpoint-dir", flag);
    }
  }
  for (const char* flag : {"--checkpoint-dir", "--resume"}) {
    if (app.count(flag) > 0 && app[flag]->as<std::string>().empty()) {
      return fmt::format("{} is empty; give a folder", flag);
    }
  }
  if (checkpoint.full && options.mode != Mode::kSync) {
    return fmt::format("--checkpoint-kind full needs --sync, this run is {}",
                       ModeName(options.mode));
  }
  const ScheduleOptions& schedule = options.schedule;
  const bool used = !checkpoint.folder.empty() || !checkpoint.resume.empty();
  if (used && (schedule.adaptive_updates || schedule.dynamic_batch)) {
    return "checkpoints do not hold what --adaptive-updates and --dynamic-batch have planned; "
           "leave those or the checkpoints out";
  }
  const bool elastic =
      !schedule.joins.empty() || !schedule.leaves.empty() || !schedule.kills.empty();
  if (!checkpoint.folder.empty() && elastic &&
      (checkpoint.full || KeepsResiduals(options) || options.weights.codec.needs_every_message())) {
    return "--checkpoint-dir with error feedback, 1bit-delta or --checkpoint-kind full needs the "
           "same compute workers all the time, without --join, --leave and --kill";
  }
  return "";
}

bool KeepsResiduals(const Options& options) {
  const ValueCoder values = options.gradients.codec.values;
  return options.mode == Mode::kSync && options.math &&
         (values == ValueCoder::kTopK || values == ValueCoder::kOneBit);
}

}  // namespace poolscope::trainer
