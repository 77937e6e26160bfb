#include "reference-trainer/options_host.h"

#include <fmt/format.h>
#include <poolscope/annotate.h>

#include <CLI/CLI.hpp>

#include "reference-trainer/options.h"

namespace poolscope::trainer {

void AddHostOptions(CLI::App& app, HostOptions& host) {
  const std::string group = "Emulated device";
  app.add_option_function<double>(
         "--host-ms", [&host](double ms) { host.seconds = ms / 1e3; },
         "host work before the device gets an operation (default 0)")
      ->check(CLI::Range(0.0, 1e6))
      ->type_name("MS")
      ->group(group);
  app.add_option("--launch-ahead", host.ahead,
                 "operations that the host launches before the device takes them; 0: it waits for "
                 "each to end")
      ->check(CLI::Range(uint64_t{0}, uint64_t{4096}))
      ->type_name("N")
      ->capture_default_str()
      ->group(group);
}

std::string CheckHost(const CLI::App& app, const Options& options) {
  if (options.host.seconds > 0 && !options.devices.emulated()) {
    return "--host-ms needs --device emulated";
  }
  if (app.count("--launch-ahead") > 0 && options.host.seconds == 0) {
    return "--launch-ahead needs --host-ms";
  }
  return "";
}

void AnnotateHost(const HostOptions& host) {
  if (host.seconds == 0) return;
  poolscope_setting("host.ms", fmt::format("{:.6g}", host.seconds * 1e3).c_str());
  poolscope_setting("host.launch_ahead", fmt::format("{}", host.ahead).c_str());
}

}  // namespace poolscope::trainer
