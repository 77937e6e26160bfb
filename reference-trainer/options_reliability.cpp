#include "reference-trainer/options_reliability.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>

#include "reference-trainer/options.h"

namespace poolscope::trainer {
namespace {

constexpr const char* kGroup = "Reliability";
constexpr double kNsPerMs = 1e6;

void AddWire(CLI::App& app, const std::string& link, WireOptions& wire) {
  const auto probability = [&](const char* fault, double& value, const char* what) {
    app.add_option("--" + link + "-" + fault, value,
                   fmt::format("{}: probability that a block {}", link, what))
        ->check(CLI::Range(0.0, 1.0))
        ->type_name("P")
        ->group(kGroup);
  };
  probability("loss", wire.faults.loss, "is lost");
  probability("corruption", wire.faults.corruption, "is damaged");
  probability("reorder", wire.faults.reorder, "is held back until later ones have passed it");
  probability("duplicate", wire.faults.duplicate, "arrives twice");
  app.add_option_function<double>(
         "--" + link + "-delay-ms",
         [&wire](double ms) { wire.faults.delay_ns = std::llround(ms * kNsPerMs); },
         link + ": mean of a random delay of each block beside the latency")
      ->check(CLI::Range(0.0, 1e4))
      ->type_name("MS")
      ->group(kGroup);
  app.add_option_function<std::string>(
         "--" + link + "-reliability",
         [&wire](const std::string& text) {
           wire.reliability_given = true;
           wire.reliable = text == "reliable";
         },
         link +
             ": reliable (what is lost or damaged is sent again; implied by the faults above) "
             "or best-effort")
      ->check(CLI::IsMember({"reliable", "best-effort"}))
      ->type_name("MODE")
      ->group(kGroup);
}

}  // namespace

void AddReliabilityOptions(CLI::App& app, ReliabilityOptions& reliability) {
  AddWire(app, "gradients", reliability.gradients);
  AddWire(app, "weights", reliability.weights);
  AddWire(app, "requests", reliability.requests);
  app.add_option_function<std::string>(
         "--block-bytes",
         [&reliability](const std::string& text) {
           reliability.block_bytes = static_cast<uint64_t>(*ParseSuffixed(text));
         },
         "cut messages into blocks of so many wire bytes, at most 65536 of them, each lost and "
         "sent again by itself (default: one)")
      ->check([](const std::string& text) {
        const auto size = ParseSuffixed(text);
        return size && *size >= 1 && *size <= 1e15 ? ""
                                                   : "'" + text + "' is no size such as 64k or 1M";
      })
      ->type_name("SIZE")
      ->group(kGroup);
  app.add_option_function<double>(
         "--retransmit-timeout-ms",
         [&reliability](double ms) { reliability.timeout_ns = std::llround(ms * kNsPerMs); },
         "wait for an answer before sending a block, or asking for weights, again; doubled each "
         "time (default: 10 and four times the link's latency and mean delay)")
      ->check(CLI::Range(0.1, 60'000.0))
      ->type_name("MS")
      ->group(kGroup);
  app.add_option("--retransmit-limit", reliability.limit, "tries before the run ends")
      ->check(CLI::Range(1U, 30U))
      ->type_name("N")
      ->capture_default_str()
      ->group(kGroup);
}

std::string CheckReliability(const CLI::App& app, const Options& options) {
  const ReliabilityOptions& reliability = options.reliability;
  const bool protocol = reliability.gradients.in_blocks() || reliability.weights.in_blocks() ||
                        reliability.requests.in_blocks();
  if (options.mode == Mode::kMonolithic && protocol) {
    return "faults and reliability of links need --mode disaggregated";
  }
  for (const char* flag : {"--block-bytes", "--retransmit-timeout-ms", "--retransmit-limit"}) {
    if (app.count(flag) > 0 && !protocol) {
      return fmt::format(
          "{} needs a link with faults or with --gradients-reliability or "
          "--weights-reliability",
          flag);
    }
  }
  if (!reliability.gradients.reliable) {
    return "--gradients-reliability best-effort: a step waits for every gradient and no other one "
           "can stand in for it; only weights can be";
  }
  const bool lossy = !reliability.weights.reliable || !reliability.requests.reliable;
  if (options.fetch.on && lossy && options.fetch.timeout_ns == 0) {
    return "best-effort links need --fetch-timeout-ms above 0 with --weights-mode fetch: what is "
           "lost is asked for again";
  }
  const bool delta = options.weights.codec.needs_every_message();
  if (delta && !reliability.weights.reliable) {
    return fmt::format(
        "--weights-codec {} needs every message: not with --weights-reliability "
        "best-effort",
        CodecName(options.weights.codec));
  }
  if (delta && options.weights.shape.lanes > 1 && !reliability.weights.in_blocks()) {
    return fmt::format(
        "--weights-codec {} needs --weights-lanes 1 or --weights-reliability "
        "reliable: messages on several lanes may overtake each other",
        CodecName(options.weights.codec));
  }
  return "";
}

std::optional<CrossingRules> RulesOf(const ReliabilityOptions& reliability, const WireOptions& wire,
                                     const Link::Shape& shape, uint64_t seed) {
  constexpr int64_t kLeastTimeoutNs = 10'000'000;
  if (!wire.in_blocks()) return std::nullopt;
  CrossingRules rules;
  rules.bytes_per_second = shape.bytes_per_second;
  rules.latency_ns = shape.latency_ns;
  rules.lanes = shape.lanes;
  rules.reliable = wire.reliable;
  rules.block_bytes = reliability.block_bytes;
  rules.patience = {reliability.timeout_ns, reliability.limit};
  if (reliability.timeout_ns == 0) {
    rules.patience.timeout_ns = kLeastTimeoutNs + 4 * (shape.latency_ns + wire.faults.delay_ns);
  }
  rules.faults = wire.faults;
  rules.seed = seed;
  return rules;
}

}  // namespace poolscope::trainer
