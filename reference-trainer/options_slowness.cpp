#include "reference-trainer/options_slowness.h"

#include <fmt/format.h>
#include <poolscope/annotate.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <optional>
#include <regex>

#include "reference-trainer/options.h"

namespace poolscope::trainer {
namespace {

constexpr double kMaxMs = 1e6;
constexpr const char* kNumber = "([0-9]+\\.?[0-9]*|\\.[0-9]+)";

std::optional<std::smatch> Match(const std::string& text, const std::string& pattern) {
  std::smatch match;
  if (!std::regex_match(text, match, std::regex(pattern))) return std::nullopt;
  return match;
}

// Digits of a count or a time; what is too large for either is as large as it gets.
uint64_t Count(const std::string& digits) {
  return digits.size() > 18 ? UINT64_MAX : std::stoull(digits);
}

double Number(const std::string& text) { return std::strtod(text.c_str(), nullptr); }

std::string ParseSlow(const std::string& text, SlownessOptions::Slow& slow) {
  const auto match = Match(text, fmt::format("([a-z]+)/([0-9]+)={}(@([0-9]+)-([0-9]+))?", kNumber));
  if (!match) return fmt::format("'{}' is not like compute/2=1.5 or compute/2=1.5@10-20", text);
  slow = {{(*match)[1], Count((*match)[2])}, Number((*match)[3])};
  if ((*match)[4].matched) {
    slow.from = Count((*match)[5]);
    slow.to = Count((*match)[6]);
    if (slow.to < slow.from) return fmt::format("'{}' ends before it begins", text);
  }
  if (slow.factor >= 1 && slow.factor <= 1000) return "";
  return fmt::format("'{}': a factor is from 1 to 1000", text);
}

std::string ParseStall(const std::string& text, SlownessOptions::Stall& stall) {
  const auto match = Match(text, fmt::format("([a-z]+)/([0-9]+)@([0-9]+):{}", kNumber));
  if (!match) return fmt::format("'{}' is not like update/0@20:500 (step 20, 500 ms)", text);
  stall = {{(*match)[1], Count((*match)[2])}, Count((*match)[3]), Number((*match)[4]) / 1e3};
  return stall.seconds * 1e3 <= kMaxMs ? "" : fmt::format("'{}': at most {} ms", text, kMaxMs);
}

std::string ParsePause(const std::string& text, SlownessOptions::Pause& pause) {
  const std::string part = fmt::format("(before|after)={}", kNumber);
  const auto match = Match(text, fmt::format("([a-z]+):{0}(,{0})?", part));
  if (!match || (*match)[2] == (*match)[5]) {
    return fmt::format("'{}' is not like gradients:before=2,after=1 (milliseconds)", text);
  }
  pause.link = (*match)[1];
  for (const size_t group : {2, 5}) {
    if (!(*match)[group].matched) continue;
    const double ms = Number((*match)[group + 1]);
    if (ms > kMaxMs) return fmt::format("'{}': at most {} ms", text, kMaxMs);
    ((*match)[group] == "before" ? pause.before_seconds : pause.after_seconds) = ms / 1e3;
  }
  return "";
}

template <typename T>
void AddList(CLI::App& app, const char* flag, const char* type, const char* help,
             std::string (*parse)(const std::string&, T&), std::vector<T>& out) {
  app.add_option_function<std::vector<std::string>>(
         flag,
         [parse, &out](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) parse(text, out.emplace_back());
         },
         help)
      ->check([parse](const std::string& text) {
        T unused;
        return parse(text, unused);
      })
      ->type_name(type)
      ->group("Slowness");
}

std::string CheckWorker(const WorkerName& worker, const char* flag, const Options& options) {
  const bool monolithic = options.mode == Mode::kMonolithic;
  const uint64_t compute = options.AllComputeWorkers();
  const uint64_t workers = worker.pool == options.compute_pool() ? (monolithic ? 1 : compute)
                           : worker.pool == options.update_pool()
                               ? (monolithic ? 0 : options.update_workers)
                               : 0;
  if (worker.index < workers) return "";
  return fmt::format("{} {}/{}: there is no such worker in this run", flag, worker.pool,
                     worker.index);
}

}  // namespace

double SlownessOptions::Before(const std::string& link) const {
  double seconds = 0;
  for (const Pause& each : pauses) seconds += each.link == link ? each.before_seconds : 0;
  return seconds;
}

double SlownessOptions::After(const std::string& link) const {
  double seconds = 0;
  for (const Pause& each : pauses) seconds += each.link == link ? each.after_seconds : 0;
  return seconds;
}

void AddSlownessOptions(CLI::App& app, SlownessOptions& slowness) {
  AddList(app, "--slow", "WORKER=FACTOR[@FROM-TO]",
          "operations of a worker take that many times as long, in these steps", ParseSlow,
          slowness.slow);
  AddList(app, "--stall", "WORKER@STEP:MS", "a worker stops once in the middle of an operation",
          ParseStall, slowness.stalls);
  AddList(app, "--pause-link", "LINK:before=MS,after=MS",
          "pauses of the sender and the receiver around each transfer", ParsePause,
          slowness.pauses);
}

std::string CheckSlowness(const Options& options) {
  const SlownessOptions& slowness = options.slowness;
  for (const auto& each : slowness.slow) {
    if (auto error = CheckWorker(each.worker, "--slow", options); !error.empty()) return error;
  }
  for (const auto& each : slowness.stalls) {
    if (auto error = CheckWorker(each.worker, "--stall", options); !error.empty()) return error;
    if (each.step >= options.steps) {
      return fmt::format("--stall at step {}: the run has only {}", each.step, options.steps);
    }
  }
  for (const auto& each : slowness.pauses) {
    const bool known = each.link == options.gradients_link() || each.link == "weights";
    if (!known || options.mode == Mode::kMonolithic) {
      return fmt::format("--pause-link {}: there is no such link in this run", each.link);
    }
  }
  return "";
}

void AnnotateSlowness(const SlownessOptions& slowness) {
  const auto number = [](const std::string& key, double value) {
    poolscope_setting(key.c_str(), fmt::format("{:.6g}", value).c_str());
  };
  for (const auto& each : slowness.slow) {
    number(fmt::format("slow.{}/{}", each.worker.pool, each.worker.index), each.factor);
  }
  for (const auto& each : slowness.stalls) {
    number(fmt::format("stall.{}/{}.ms", each.worker.pool, each.worker.index), each.seconds * 1e3);
  }
  for (const auto& each : slowness.pauses) {
    number(fmt::format("pause.{}.before_ms", each.link), each.before_seconds * 1e3);
    number(fmt::format("pause.{}.after_ms", each.link), each.after_seconds * 1e3);
  }
}

}  // namespace poolscope::trainer
