#include "reference-trainer/options_schedule.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>

#include "reference-trainer/options.h"

namespace poolscope::trainer {
namespace {

constexpr uint64_t kMaxComputeWorkers = 256;

template <typename T>
bool Read(const std::string& text, T& value) {
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  return read.ec == std::errc() && read.ptr == end;
}

// "WHAT@STEP" or "WHAT@STEP.FRACTION".
struct Moment {
  std::string what;
  uint64_t step = 0;
  double progress = 0;
};

std::optional<Moment> ParseMoment(const std::string& text) {
  const size_t at = text.find('@');
  if (at == std::string::npos) return std::nullopt;
  Moment moment;
  moment.what = text.substr(0, at);
  const std::string when = text.substr(at + 1);
  const size_t dot = std::min(when.find('.'), when.size());
  if (!Read(when.substr(0, dot), moment.step)) return std::nullopt;
  if (dot < when.size() && !Read("0" + when.substr(dot), moment.progress)) return std::nullopt;
  return moment;
}

std::optional<Departure> ParseDeparture(const std::string& text, const std::string& pool) {
  const auto moment = ParseMoment(text);
  if (!moment || moment->what.rfind(pool, 0) != 0) return std::nullopt;
  Departure departure{0, moment->step, moment->progress};
  if (!Read(moment->what.substr(pool.size()), departure.worker)) return std::nullopt;
  return departure;
}

std::optional<Arrival> ParseArrival(const std::string& text) {
  const auto moment = ParseMoment(text);
  Arrival arrival;
  if (!moment || moment->progress != 0 || !Read(moment->what, arrival.workers)) return std::nullopt;
  arrival.step = moment->step;
  return arrival.workers == 0 ? std::nullopt : std::optional(arrival);
}

std::optional<Departure> ParseKill(const std::string& text) {
  const auto of_compute = ParseDeparture(text, "compute/");
  return of_compute ? of_compute : ParseDeparture(text, "update/");
}

// `list(text)`: where it belongs.
template <typename List, typename Parse>
void AddMoments(CLI::App& app, const std::string& flag, const List& list, const Parse& parse,
                const std::string& form, const std::string& help) {
  app.add_option_function<std::vector<std::string>>(
         flag,
         [list, parse](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) list(text).push_back(*parse(text));
         },
         help + "; may be repeated")
      ->check([parse, form](const std::string& text) {
        return parse(text) ? "" : fmt::format("'{}' is not {}", text, form);
      })
      ->type_name(form)
      ->group("Schedule");
}

// Whether somebody computes in each step; and that who goes is there.
std::string CheckMembership(const Options& options) {
  const ScheduleOptions& schedule = options.schedule;
  uint64_t workers = options.compute_workers;
  for (const Arrival& join : schedule.joins) {
    if (join.step == 0 || join.step >= options.steps) {
      return fmt::format("--join {}@{}: workers join between step 1 and the last, {}", join.workers,
                         join.step, options.steps - 1);
    }
    workers += join.workers;
  }
  if (workers > kMaxComputeWorkers) {
    return fmt::format("--join: {} compute workers are more than {}", workers, kMaxComputeWorkers);
  }
  const Membership everyone(options.compute_workers, schedule.joins, {});
  std::set<uint64_t> going;
  std::vector<Departure> departures;
  const auto check = [&](const char* flag, const Departure& each) -> std::string {
    departures.push_back(each);
    if (each.worker >= workers) {
      return fmt::format("{}{}: there are {} compute workers", flag, each.worker, workers);
    }
    if (each.step >= options.steps || each.step < everyone.FirstStep(each.worker)) {
      return fmt::format("{}{}@{}: it computes in the steps {} to {}", flag, each.worker, each.step,
                         everyone.FirstStep(each.worker), options.steps - 1);
    }
    if (!going.insert(each.worker).second) {
      return fmt::format("{}{}: a worker goes only once", flag, each.worker);
    }
    return "";
  };
  for (const Departure& each : schedule.leaves) {
    if (std::string error = check("--leave ", each); !error.empty()) return error;
  }
  for (const Departure& each : schedule.kills) {
    if (std::string error = check("--kill compute/", each); !error.empty()) return error;
  }
  for (const Departure& each : schedule.update_kills) {
    if (each.worker >= options.update_workers || each.step >= options.steps) {
      return fmt::format("--kill update/{}@{}: there are {} update workers and {} steps",
                         each.worker, each.step, options.update_workers, options.steps);
    }
  }
  for (const Departure& last : schedule.leaves) {
    uint64_t left = 0;
    for (uint64_t i = 0; i < workers; ++i) {
      const auto goes = std::find_if(departures.begin(), departures.end(),
                                     [&](const Departure& each) { return each.worker == i; });
      const bool gone = goes != departures.end() && goes->step <= last.step;
      left += everyone.FirstStep(i) <= last.step && !gone;
    }
    if (left == 0) return fmt::format("--leave: no compute worker is left in step {}", last.step);
  }
  return "";
}

}  // namespace

bool ScheduleOptions::DepartsInMidStep() const {
  return !kills.empty() || std::any_of(leaves.begin(), leaves.end(),
                                       [](const Departure& each) { return each.progress > 0; });
}

uint64_t ScheduleOptions::AdaptiveMin(uint64_t micro_batches) const {
  return adaptive_min > 0 ? adaptive_min : std::max<uint64_t>(1, micro_batches / 4);
}

uint64_t ScheduleOptions::AdaptiveMax(uint64_t micro_batches) const {
  return adaptive_max > 0 ? adaptive_max : 4 * micro_batches;
}

void AddScheduleOptions(CLI::App& app, ScheduleOptions& schedule) {
  const std::string group = "Schedule";
  app.add_option("--warm-up-steps", schedule.warm_up_steps,
                 "steps at the start that are synchronous, at a lower learning rate")
      ->type_name("N")
      ->capture_default_str()
      ->group(group);
  app.add_option("--warm-up-rate", schedule.warm_up_rate,
                 "factor of the learning rate at step 0; it grows to 1 over the warm-up")
      ->check(CLI::Range(0.0, 1.0))
      ->type_name("FACTOR")
      ->capture_default_str()
      ->group(group);
  app.add_flag("--adaptive-updates", schedule.adaptive_updates,
               "micro-batches of a step follow the change of the gradient's norm")
      ->group(group);
  const auto bound = [&](const char* flag, uint64_t& value, const char* help) {
    app.add_option(flag, value, help)
        ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 16))
        ->type_name("N")
        ->group(group);
  };
  bound("--adaptive-min", schedule.adaptive_min, "fewest of them (default a quarter)");
  bound("--adaptive-max", schedule.adaptive_max, "most of them (default four times)");
  app.add_flag("--dynamic-batch", schedule.dynamic_batch,
               "sequences of a micro-batch, ±25 %, follow the depth of the gradients' buffers")
      ->group(group);
  AddMoments(
      app, "--join", [&](const std::string&) -> auto& { return schedule.joins; }, ParseArrival,
      "N@STEP", "N more compute workers from that step on");
  AddMoments(
      app, "--leave", [&](const std::string&) -> auto& { return schedule.leaves; },
      [](const std::string& text) { return ParseDeparture(text, ""); }, "WORKER@STEP[.FRACTION]",
      "a compute worker leaves before that step, or gives it up after a fraction of its part");
  AddMoments(
      app, "--kill",
      [&](const std::string& text) -> auto& {
        return text.rfind("update/", 0) == 0 ? schedule.update_kills : schedule.kills;
      },
      ParseKill, "POOL/WORKER@STEP[.FRACTION]", "a worker dies in that step without a word");
  app.add_option_function<double>(
         "--lease-ms", [&schedule](double ms) { schedule.lease_seconds = ms / 1e3; },
         "a worker that gives no sign of life for so long is taken for dead (default 1000)")
      ->check(CLI::Range(1.0, 1e6))
      ->type_name("MS")
      ->group(group);
}

std::string CheckSchedule(const CLI::App& app, const Options& options) {
  const ScheduleOptions& schedule = options.schedule;
  if (options.mode == Mode::kMonolithic) {
    for (const char* flag : {"--join", "--leave", "--kill", "--lease-ms"}) {
      if (app.count(flag) > 0) return fmt::format("{} needs --mode disaggregated", flag);
    }
  }
  if (app.count("--warm-up-rate") > 0 && schedule.warm_up_steps == 0) {
    return "--warm-up-rate needs --warm-up-steps";
  }
  if (schedule.warm_up_steps > 0 && !options.math && options.mode != Mode::kAsync) {
    return "--warm-up-steps has no effect with --math none, unless --async";
  }
  if (schedule.warm_up_steps >= options.steps) {
    return fmt::format("--warm-up-steps {} leaves nothing of --steps {}", schedule.warm_up_steps,
                       options.steps);
  }
  for (const char* flag : {"--adaptive-min", "--adaptive-max"}) {
    if (app.count(flag) > 0 && !schedule.adaptive_updates) {
      return fmt::format("{} needs --adaptive-updates", flag);
    }
  }
  if (schedule.adaptive_updates) {
    if (!options.math) return "--adaptive-updates needs --math tiny: gradients with a norm";
    const uint64_t least = schedule.AdaptiveMin(options.micro_batches);
    const uint64_t most = schedule.AdaptiveMax(options.micro_batches);
    if (least > options.micro_batches || most < options.micro_batches) {
      return fmt::format(
          "--micro-batches {} is not between --adaptive-min {} and --adaptive-max {}",
          options.micro_batches, least, most);
    }
  }
  if (schedule.dynamic_batch) {
    if (options.mode != Mode::kAsync) return "--dynamic-batch needs --async";
    if (options.model.batch < 4) {
      return fmt::format("--dynamic-batch needs --batch 4 at least: 25 % of {} is no sequence",
                         options.model.batch);
    }
    if (options.model.experts.count > 0) return "--dynamic-batch does not go with --experts";
    if (options.fetch.on) return "--dynamic-batch does not go with --weights-mode fetch";
    if (options.input.any()) return "--dynamic-batch does not go with a data loader (--data-*)";
  }
  if (app.count("--lease-ms") > 0 && app.count("--kill") == 0) return "--lease-ms needs --kill";
  if (!schedule.update_kills.empty()) {
    if (schedule.adaptive_updates || schedule.dynamic_batch) {
      return "--kill update/ does not go with --adaptive-updates and --dynamic-batch: what they "
             "have planned is not gone back on";
    }
    if (options.fetch.on) return "--kill update/ does not go with --weights-mode fetch";
    if (options.transport != TransportKind::kInProcess) {
      return "--kill update/ needs --transport inprocess: the run goes back in one process";
    }
  }
  return CheckMembership(options);
}

}  // namespace poolscope::trainer
