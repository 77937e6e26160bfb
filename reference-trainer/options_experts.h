#pragma once

#include <cstdint>
#include <string>

namespace CLI {
class App;
}

namespace poolscope::trainer {

// Mixture of experts in place of each layer's MLP.
struct ExpertsOptions {
  uint64_t count = 0;  // 0: none
  uint64_t per_token = 1;
  double skew = 0;        // see Experts
  double balance = 0.01;  // weight of the auxiliary loss
};

void AddExpertsOptions(CLI::App& app, ExpertsOptions& experts);
// What the flags need of each other: one line of error, or "".
std::string CheckExperts(const CLI::App& app, const ExpertsOptions& experts);

}  // namespace poolscope::trainer
