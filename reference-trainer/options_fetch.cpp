#include "reference-trainer/options_fetch.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>

#include "reference-trainer/options.h"

namespace poolscope::trainer {

void AddFetchOptions(CLI::App& app, FetchOptions& fetch) {
  const std::string group = "Parameter fetch";
  const auto choice = [&](const char* flag, const std::string& what, const char* first,
                          const char* second, const std::function<void(bool)>& set) {
    app.add_option_function<std::string>(
           flag, [=](const std::string& text) { set(text == second); },
           fmt::format("{} (default {})", what, first))
        ->check(CLI::IsMember({first, second}))
        ->group(group);
  };
  choice(
      "--weights-mode",
      "push: update workers send all weights after each update; fetch: compute workers hold none "
      "and ask for those of each layer",
      "push", "fetch", [&](bool second) { fetch.on = second; });
  const auto count = [&](const char* flag, uint64_t& value, uint64_t min, const char* help) {
    app.add_option(flag, value, help)
        ->check(CLI::Range(min, uint64_t{1} << 16))
        ->type_name("N")
        ->capture_default_str()
        ->group(group);
  };
  count("--prefetch-depth", fetch.prefetch_depth, 0, "stages ahead whose weights are asked for");
  count("--cache-blocks", fetch.cache_blocks, 0,
        "blocks that a compute worker keeps beside those it is about to use: the hottest");
  count("--replication", fetch.replication, 1, "update workers that hold each block");
  choice("--routing",
         "which of them is asked: nearest by place, or least-loaded by bytes asked for", "nearest",
         "least-loaded",
         [&](bool second) { fetch.routing = second ? Routing::kLeastLoaded : Routing::kNearest; });
  choice("--serving", "who answers: a thread of its own, or the update worker between operations",
         "thread", "between",
         [&](bool second) { fetch.serving = second ? Serving::kBetween : Serving::kThread; });
  app.add_option_function<std::string>(
         "--serve-bandwidth",
         [&](const std::string& text) { fetch.serve_bytes_per_second = *ParseSuffixed(text); },
         "emulated: bytes per second at which an update worker reads blocks that were asked for; 0 "
         "is unlimited (default 0)")
      ->check([](const std::string& text) {
        return ParseSuffixed(text) ? "" : "'" + text + "' is no rate such as 500M or 2G";
      })
      ->type_name("RATE")
      ->group(group);
  app.add_option_function<double>(
         "--fetch-timeout-ms", [&](double ms) { fetch.timeout_ns = std::llround(ms * 1e6); },
         "time after which a request without an answer is repeated, doubled each time; 0: never "
         "(default 0)")
      ->check(CLI::Range(0.0, 1e6))
      ->type_name("MS")
      ->group(group);
}

std::string CheckFetch(const CLI::App& app, const Options& options) {
  const FetchOptions& fetch = options.fetch;
  if (!fetch.on) {
    for (const CLI::Option* option : app.get_options()) {
      const std::string name = option->get_name();
      const bool link = name.starts_with("--requests-") || name.starts_with("--replicas-");
      const bool own = option->get_group() == "Parameter fetch" && name != "--weights-mode";
      if ((link || own) && option->count() > 0) return name + " needs --weights-mode fetch";
    }
    return "";
  }
  if (options.mode == Mode::kMonolithic) return "--weights-mode fetch needs --mode disaggregated";
  if (options.weights.codec.needs_every_message()) {
    return fmt::format("--weights-codec {} needs --weights-mode push: fetched blocks are no stream",
                       CodecName(options.weights.codec));
  }
  if (fetch.replication > options.update_workers) {
    return fmt::format("--replication {} needs as many --update-workers, not {}", fetch.replication,
                       options.update_workers);
  }
  if (fetch.replication == 1) {
    for (const CLI::Option* option : app.get_options()) {
      const std::string name = option->get_name();
      if ((name == "--routing" || name.starts_with("--replicas-")) && option->count() > 0) {
        return name + " needs --replication 2 or more";
      }
    }
  }
  if (app.count("--serve-bandwidth") > 0 && !options.devices.emulated()) {
    return "--serve-bandwidth needs --device emulated";
  }
  return "";
}

}  // namespace poolscope::trainer
