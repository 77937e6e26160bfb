#include "reference-trainer/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "reference-trainer/scenario.h"

namespace poolscope::trainer {
namespace {

constexpr uint64_t kMaxWorkers = 256;

const std::map<std::string, Stale> kStale = {{"wait", Stale::kWait},
                                             {"drop", Stale::kDrop},
                                             {"recompute", Stale::kRecompute},
                                             {"apply", Stale::kApply}};

template <typename T>
const char* NameIn(const std::map<std::string, T>& names, T value) {
  for (const auto& [name, each] : names) {
    if (each == value) return name.c_str();
  }
  return "";
}

template <typename T>
std::function<void(const std::string&)> Choice(const std::map<std::string, T>& names, T& value) {
  return [&names, &value](const std::string& text) { value = names.at(text); };
}

template <typename T>
CLI::Validator OneOf(const std::map<std::string, T>& names) {
  std::vector<std::string> keys;
  keys.reserve(names.size());
  for (const auto& [name, value] : names) keys.push_back(name);
  return CLI::IsMember(keys);
}

// What the flags say before they are put together.
struct Raw {
  std::string mode = "disaggregated";
  bool sync = false;
  bool async = false;
};

constexpr double kMaxMs = 1e6;

void AddWire(CLI::App& app, const std::string& name, const std::string& what, Link::Shape& shape) {
  const std::string group = "Links";
  app.add_option_function<std::string>(
         "--" + name + "-bandwidth",
         [&shape](const std::string& text) { shape.bytes_per_second = *ParseSuffixed(text); },
         what + ": bytes per second, suffix k, M or G; 0 is unlimited (default 0)")
      ->check([](const std::string& text) {
        return ParseSuffixed(text) ? "" : "'" + text + "' is no rate such as 500M or 2G";
      })
      ->type_name("RATE")
      ->group(group);
  app.add_option_function<double>(
         "--" + name + "-latency-ms",
         [&shape](double ms) { shape.latency_ns = std::llround(ms * 1e6); },
         what + ": latency in milliseconds (default 0)")
      ->check(CLI::Range(0.0, kMaxMs))
      ->type_name("MS")
      ->group(group);
}

void AddLink(CLI::App& app, const std::string& name, const std::string& what, LinkOptions& link) {
  AddWire(app, name, what, link.shape);
  const std::string group = "Links";
  app.add_option("--" + name + "-depth", link.shape.depth,
                 what + ": messages that each receiver's buffer holds")
      ->check(CLI::Range(size_t{1}, size_t{4096}))
      ->type_name("N")
      ->capture_default_str()
      ->group(group);
  app.add_option("--" + name + "-lanes", link.shape.lanes, what + ": messages on the wire at once")
      ->check(CLI::Range(size_t{1}, size_t{64}))
      ->type_name("N")
      ->capture_default_str()
      ->group(group);
  if (name == "requests" || name == "replicas") return;
  const CodecUse use = name == "gradients" ? CodecUse::kGradients : CodecUse::kWeights;
  app.add_option_function<std::string>(
         "--" + name + "-codec",
         [&link, use](const std::string& text) {
           link.codec = std::get<Codec>(ParseCodec(text, use));
         },
         what + ": " + KnownCodecs(use) + " (default none)")
      ->check([use](const std::string& text) {
        const auto codec = ParseCodec(text, use);
        const auto* error = std::get_if<std::string>(&codec);
        return error ? *error : std::string();
      })
      ->type_name("CODEC")
      ->group(group);
}

void AddBuckets(CLI::App& app, uint64_t& buckets) {
  app.add_option("--gradient-buckets", buckets,
                 "messages that gradients go out in while the backward pass goes on; 1: at its end")
      ->check(CLI::Range(uint64_t{1}, uint64_t{256}))
      ->type_name("N")
      ->capture_default_str()
      ->group("Links");
}

std::string CheckBuckets(const Options& options) {
  if (options.gradient_buckets == 1) return "";
  if (options.mode == Mode::kMonolithic) return "--gradient-buckets needs --mode disaggregated";
  const std::pair<bool, const char*> others[] = {
      {options.all_reduce.on, "--compute-allreduce"},
      {options.fetch.on, "--weights-mode fetch"},
      {options.model.experts.count > 0, "--experts"},
      {options.devices.compute.kind == DeviceKind::kCuda, "compute on cuda"},
  };
  for (const auto& [given, what] : others) {
    if (given) return fmt::format("--gradient-buckets does not go with {}", what);
  }
  return "";
}

void AddRun(CLI::App& app, Raw& raw, Options& options) {
  app.add_option("--mode", raw.mode, "monolithic or disaggregated")
      ->check(CLI::IsMember({"monolithic", "disaggregated"}))
      ->capture_default_str();
  auto* sync = app.add_flag("--sync", raw.sync, "hand over per step (the default)");
  app.add_flag("--async", raw.async, "hand over per micro-batch, under a bound of version lag")
      ->excludes(sync);
  const auto count = [&](const char* flag, uint64_t& value, uint64_t min, uint64_t max,
                         const char* help) {
    app.add_option(flag, value, help)
        ->check(CLI::Range(min, max))
        ->type_name("N")
        ->capture_default_str();
  };
  count("--compute-workers", options.compute_workers, 1, kMaxWorkers, "workers of pool compute");
  count("--update-workers", options.update_workers, 1, kMaxWorkers, "workers of pool update");
  count("--micro-batches", options.micro_batches, 1, 1 << 16, "micro-batches of a step");
  count("--steps", options.steps, 1, uint64_t{1} << 40, "optimizer updates to make");
  count("--seed", options.seed, 0, std::numeric_limits<uint64_t>::max() / 2,
        "of weights, data order and jitter");
  app.add_option("--data", options.data, "file to learn from (default: a text of the system's own)")
      ->type_name("FILE");
  count("--lag-bound", options.lag_bound, 0, 1 << 16, "updates that a gradient may lag (--async)");
  app.add_option_function<std::string>(
         "--stale", Choice(kStale, options.stale),
         "what to do beyond the bound: wait, drop, recompute or apply (default wait)")
      ->check(OneOf(kStale))
      ->type_name("POLICY");
  count("--log-every", options.log_every, 1, uint64_t{1} << 40, "steps between two lines");
  app.add_option("--json-log", options.json_log, "write a JSON object per step, then a summary")
      ->type_name("FILE");
}

// Times that are no device's or link's, as --time-scale wants them.
void ScaleBehaviours(Options& options) {
  const double scale = options.devices.time_scale;
  options.input.delay_seconds *= scale;
  options.host.seconds *= scale;
  options.rollout.token_seconds *= scale;
  options.side_work.slice_seconds *= scale;
  for (auto& each : options.slowness.stalls) each.seconds *= scale;
  for (auto& each : options.slowness.pauses) {
    each.before_seconds *= scale;
    each.after_seconds *= scale;
  }
}

}  // namespace

const char* ModeName(Mode mode) {
  return mode == Mode::kMonolithic ? "monolithic" : mode == Mode::kSync ? "sync" : "async";
}
const char* StaleName(Stale stale) { return NameIn(kStale, stale); }

std::optional<double> ParseSuffixed(const std::string& text) {
  constexpr double kKilo = 1000;
  size_t end = 0;
  double value = 0;
  try {
    value = std::stod(text, &end);
  } catch (const std::exception&) {
    return std::nullopt;
  }
  const std::string suffix = text.substr(end);
  if (suffix == "k" || suffix == "K") {
    value *= kKilo;
  } else if (suffix == "M") {
    value *= kKilo * kKilo;
  } else if (suffix == "G") {
    value *= kKilo * kKilo * kKilo;
  } else if (!suffix.empty()) {
    return std::nullopt;
  }
  if (!std::isfinite(value) || value < 0) return std::nullopt;
  return value;
}

void AddModelOptions(CLI::App& app, ModelOptions& model) {
  const std::string group = "Model";
  const auto count = [&](const char* flag, uint64_t& value, uint64_t max, const char* help) {
    app.add_option(flag, value, help)
        ->check(CLI::Range(uint64_t{1}, max))
        ->type_name("N")
        ->group(group);
  };
  count("--layers", model.layers, 64, "transformer blocks (default 2; emulated 1)");
  count("--width", model.width, 4096, "channels (default 64; emulated 32)");
  count("--heads", model.heads, 64,
        "attention heads, a divisor of the width (default 4; emulated 2)");
  count("--context", model.context, 4096, "bytes of a sequence (default 64; emulated 32)");
  count("--batch", model.batch, 4096, "sequences of a micro-batch (default 4; emulated 2)");
  app.add_flag("--untied-head", model.untied_head, "the output layer has weights of its own")
      ->group(group);
  app.add_option("--learning-rate", model.learning_rate, "of AdamW")
      ->check(CLI::Range(1e-9, 10.0))
      ->capture_default_str()
      ->group(group);
  app.add_option("--weight-decay", model.weight_decay, "of AdamW, on matrices")
      ->check(CLI::Range(0.0, 10.0))
      ->capture_default_str()
      ->group(group);
  AddExpertsOptions(app, model.experts);
}

Exit WrongUsage(const std::string& what, const std::string& subcommand) {
  const std::string program = "poolscope-trainer" + (subcommand.empty() ? "" : " " + subcommand);
  std::string line = what;
  std::replace(line.begin(), line.end(), '\n', ' ');
  return {2, fmt::format("{0}: {1} (see {0} --help)\n", program, line)};
}

std::string CheckModel(const CLI::App& app, const ModelOptions& model) {
  if (model.width % model.heads == 0) return CheckExperts(app, model.experts);
  return fmt::format("--heads {} does not divide --width {}", model.heads, model.width);
}

GptShape ShapeOf(const ModelOptions& model) {
  const ExpertsOptions& experts = model.experts;
  return {model.layers,  model.width,       model.heads,  model.context,  model.untied_head,
          experts.count, experts.per_token, experts.skew, experts.balance};
}

std::variant<Options, Exit> ParseOptions(int argc, const char* const* argv) {
  Options options;
  Raw raw;
  CLI::App app(
      "The reference trainer: a byte-level GPT, trained on one worker or disaggregated over a\n"
      "compute pool and an update pool.",
      "poolscope-trainer");
  app.set_help_flag("--help", "print this and exit");
  app.footer("poolscope-trainer codecs measures the codecs on this model's gradients and weights.");
  AddRun(app, raw, options);
  AddLink(app, "gradients", "compute to update", options.gradients);
  AddLink(app, "weights", "update to compute", options.weights);
  AddLink(app, "requests", "for weights, compute to update", options.requests);
  AddLink(app, "replicas", "of weights, update to update", options.replicas);
  AddAllReduceOptions(app, options.all_reduce);
  AddBuckets(app, options.gradient_buckets);
  AddRolloutOptions(app, options.rollout);
  AddWire(app, "allreduce", "one compute worker to the next", options.all_reduce.hop);
  AddReliabilityOptions(app, options.reliability);
  AddFetchOptions(app, options.fetch);
  app.add_option("--link-probes", options.link_probes,
                 "small messages on each link before step 0, which show its latency")
      ->check(CLI::Range(uint64_t{0}, uint64_t{100}))
      ->type_name("N")
      ->capture_default_str()
      ->group("Links");
  AddDeviceOptions(app, options);
  AddCudaOptions(app, options.cuda);
  AddModelOptions(app, options.model);
  AddStateOptions(app, options.state);
  AddInputOptions(app, options.input);
  AddCheckpointOptions(app, options.checkpoint);
  AddScheduleOptions(app, options.schedule);
  AddSlownessOptions(app, options.slowness);
  AddHostOptions(app, options.host);
  AddSideWorkOptions(app, options.side_work);
  AddTransportOptions(app, options.transport);
  app.add_option("--scenario", options.scenario,
                 "a bottleneck with a known cause; flags given beside it override its own")
      ->type_name("NAME");
  bool list = false;
  app.add_flag("--list-scenarios", list, "explain the scenarios and exit");
  auto arguments = WithScenario({argv + 1, argv + argc});
  if (const auto* error = std::get_if<std::string>(&arguments)) return WrongUsage(*error);
  auto& words = std::get<std::vector<std::string>>(arguments);
  std::reverse(words.begin(), words.end());  // as the parser wants them
  try {
    app.parse(words);
  } catch (const CLI::CallForHelp&) {
    return Exit{0, app.help()};
  } catch (const CLI::ParseError& error) {
    return WrongUsage(error.what());
  }

  if (list) return Exit{0, ListScenarios()};
  if (raw.mode == "monolithic") {
    if (raw.async) return WrongUsage("--async needs --mode disaggregated");
    options.mode = Mode::kMonolithic;
  } else {
    options.mode = raw.async ? Mode::kAsync : Mode::kSync;
  }
  if (const std::string error = ResolveDevices(app, options); !error.empty()) {
    return WrongUsage(error);
  }
  ScaleBehaviours(options);
  if (const std::string error = CheckModel(app, options.model); !error.empty()) {
    return WrongUsage(error);
  }
  if (const std::string error = CheckState(app, options); !error.empty()) return WrongUsage(error);
  if (const std::string error = CheckInput(app, options); !error.empty()) return WrongUsage(error);
  if (const std::string error = CheckCheckpoint(app, options); !error.empty()) {
    return WrongUsage(error);
  }
  if (const std::string error = CheckSchedule(app, options); !error.empty()) {
    return WrongUsage(error);
  }
  if (const std::string error = CheckCuda(app, options); !error.empty()) return WrongUsage(error);
  if (const std::string error = CheckFetch(app, options); !error.empty()) return WrongUsage(error);
  if (const std::string error = CheckReliability(app, options); !error.empty()) {
    return WrongUsage(error);
  }
  if (const std::string error = CheckAllReduce(app, options); !error.empty()) {
    return WrongUsage(error);
  }
  if (const std::string error = CheckBuckets(options); !error.empty()) return WrongUsage(error);
  if (const std::string error = CheckRollout(app, options); !error.empty())
    return WrongUsage(error);
  if (const std::string error = CheckTransport(options); !error.empty()) {
    return WrongUsage(error);
  }
  if (const std::string error = CheckSlowness(options); !error.empty()) return WrongUsage(error);
  if (const std::string error = CheckHost(app, options); !error.empty()) return WrongUsage(error);
  if (const std::string error = CheckSideWork(app, options); !error.empty()) {
    return WrongUsage(error);
  }
  return options;
}

}  // namespace poolscope::trainer
