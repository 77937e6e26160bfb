#include "reference-trainer/options_experts.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

namespace poolscope::trainer {

void AddExpertsOptions(CLI::App& app, ExpertsOptions& experts) {
  const std::string group = "Mixture of experts";
  app.add_option("--experts", experts.count, "experts in place of each layer's MLP (default: none)")
      ->check(CLI::Range(uint64_t{1}, uint64_t{64}))
      ->type_name("E")
      ->group(group);
  app.add_option("--experts-per-token", experts.per_token, "experts that each token goes to")
      ->check(CLI::Range(uint64_t{1}, uint64_t{64}))
      ->type_name("K")
      ->capture_default_str()
      ->group(group);
  app.add_option("--expert-skew", experts.skew,
                 "forced imbalance: S × ln(1 + e) is taken from the router's score of expert e")
      ->check(CLI::Range(0.0, 100.0))
      ->type_name("S")
      ->capture_default_str()
      ->group(group);
  app.add_option("--expert-balance", experts.balance,
                 "weight of the auxiliary loss that keeps the experts evenly loaded")
      ->check(CLI::Range(0.0, 100.0))
      ->type_name("W")
      ->capture_default_str()
      ->group(group);
}

std::string CheckExperts(const CLI::App& app, const ExpertsOptions& experts) {
  if (experts.count == 0) {
    for (const char* flag : {"--experts-per-token", "--expert-skew", "--expert-balance"}) {
      if (app.count(flag) > 0) return fmt::format("{} needs --experts", flag);
    }
    return "";
  }
  if (experts.per_token <= experts.count) return "";
  return fmt::format("--experts-per-token {} is more than --experts {}", experts.per_token,
                     experts.count);
}

}  // namespace poolscope::trainer
