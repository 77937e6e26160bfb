#include "cli/job_environment.h"

#include <cstdlib>

namespace poolscope {

const std::vector<LoadingVariable>& LoadingVariables() {
  static const std::vector<LoadingVariable> variables = {
      {"NVTX_INJECTION64_PATH", "nothing of this job"},
      {"NCCL_PROFILER_PLUGIN", "no NCCL operation of this job"},
  };
  return variables;
}

std::string ForeignValue(const LoadingVariable& variable, const std::string& agent) {
  const char* value = std::getenv(variable.name);
  return value == nullptr || value == agent ? "" : value;
}

void SetLoadingVariables(const std::string& agent) {
  for (const LoadingVariable& variable : LoadingVariables()) {
    if (ForeignValue(variable, agent).empty()) setenv(variable.name, agent.c_str(), 1);
  }
}

}  // namespace poolscope
