#include "reference-trainer/options_rollout.h"

#include <fmt/format.h>
#include <poolscope/annotate.h>

#include <CLI/CLI.hpp>

#include "reference-trainer/options.h"

namespace poolscope::trainer {

void AddRolloutOptions(CLI::App& app, RolloutOptions& rollout) {
  const std::string group = "Rollouts";
  app.add_option_function<std::string>(
         "--layout", [&rollout](const std::string& text) { rollout.on = text == "rl"; },
         "training: compute and update workers; rl: rollout workers and a trainer in their place "
         "(default training)")
      ->check(CLI::IsMember({"training", "rl"}));
  app.add_option("--rollout-slots", rollout.slots, "sequences that a rollout worker makes at once")
      ->check(CLI::Range(uint64_t{1}, uint64_t{48}))
      ->type_name("N")
      ->capture_default_str()
      ->group(group);
  app.add_option("--rollout-tokens", rollout.tokens, "of a sequence, median")
      ->check(CLI::Range(1.0, 1e6))
      ->type_name("N")
      ->capture_default_str()
      ->group(group);
  app.add_option("--rollout-tail", rollout.tail,
                 "standard deviation of the logarithm of that number; 0: all are equal")
      ->check(CLI::Range(0.0, 3.0))
      ->type_name("SIGMA")
      ->capture_default_str()
      ->group(group);
  app.add_option_function<double>(
         "--rollout-token-ms", [&rollout](double ms) { rollout.token_seconds = ms / 1e3; },
         "one more token for all sequences of a worker, however many (default 1)")
      ->check(CLI::Range(1e-3, 1e6))
      ->type_name("MS")
      ->group(group);
}

std::string CheckRollout(const CLI::App& app, const Options& options) {
  if (!options.rollout.on) {
    for (const char* flag :
         {"--rollout-slots", "--rollout-tokens", "--rollout-tail", "--rollout-token-ms"}) {
      if (app.count(flag) > 0) return fmt::format("{} needs --layout rl", flag);
    }
    return "";
  }
  if (options.mode != Mode::kAsync) return "--layout rl needs --async";
  if (!options.devices.emulated()) return "--layout rl needs --device emulated";
  if (options.update_workers > 1) return "--layout rl has one trainer: --update-workers 1";
  const ScheduleOptions& schedule = options.schedule;
  const std::pair<bool, const char*> others[] = {
      {!options.devices.compute.profile.empty(), "devices by profile"},
      {options.fetch.on, "--weights-mode fetch"},
      {options.model.experts.count > 0, "--experts"},
      {options.gradients.codec != Codec::kNone, "--gradients-codec"},
      {options.gradient_buckets > 1, "--gradient-buckets"},
      {app.count("--gradient-bytes") > 0, "--gradient-bytes"},
      {!options.checkpoint.folder.empty() || !options.checkpoint.resume.empty(), "checkpoints"},
      {options.transport != TransportKind::kInProcess, "--transport mpi"},
      {options.input.any(), "a data loader"},
      {options.host.seconds > 0, "--host-ms"},
      {!options.slowness.stalls.empty(), "--stall"},
      {schedule.warm_up_steps > 0, "--warm-up-steps"},
      {schedule.dynamic_batch, "--dynamic-batch"},
      {!schedule.joins.empty() || !schedule.leaves.empty() || app.count("--kill") > 0,
       "--join, --leave and --kill"},
  };
  for (const auto& [given, what] : others) {
    if (given) return fmt::format("--layout rl does not go with {}", what);
  }
  return "";
}

void AnnotateRollout(const RolloutOptions& rollout) {
  if (!rollout.on) return;
  const auto number = [](const char* key, double value) {
    poolscope_setting(key, fmt::format("{:.6g}", value).c_str());
  };
  poolscope_setting("layout", "rl");
  number("rollout.slots", static_cast<double>(rollout.slots));
  number("rollout.tokens", rollout.tokens);
  number("rollout.tail", rollout.tail);
  number("rollout.token_ms", rollout.token_seconds * 1e3);
}

}  // namespace poolscope::trainer
