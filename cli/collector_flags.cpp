#include "cli/collector_flags.h"

#include "collector/metrics_server.h"

namespace poolscope {

void AddCollectorFlags(CLI::App& command, std::string& pools, std::string& metrics) {
  command.add_option("--pools", pools, "pool mapping: a TOML file or a preset's name")
      ->type_name("FILE|PRESET");
  command
      .add_option("--metrics", metrics,
                  "serve Prometheus metrics there, for example :9464 (port 0: a free one)")
      ->type_name("ADDR")
      ->check([](const std::string& text) {
        const auto address = ParseMetricsAddress(text);
        return address.ok() ? std::string() : address.error().message;
      });
}

}  // namespace poolscope
