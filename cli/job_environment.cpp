#include "cli/job_environment.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>

namespace poolscope {

const std::vector<LoadingVariable>& LoadingVariables() {
  static const std::vector<LoadingVariable> variables = {
      {"NVTX_INJECTION64_PATH", "no NVTX range of this job"},
      {"CUDA_INJECTION64_PATH", "no device activity of this job"},
      {"NCCL_PROFILER_PLUGIN", "no NCCL operation of this job"},
  };
  return variables;
}

std::string AgentPath() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return "";
  const auto agent = program.parent_path().parent_path() / "lib" / "libpoolscope_agent.so";
  return std::filesystem::exists(agent, error) ? agent.string() : "";
}

std::string NewRunId() {
  unsigned char bytes[16];
  if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes)) std::abort();
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

Result<std::string> RunId() {
  const char* given = std::getenv("POOLSCOPE_RUN_ID");
  if (given == nullptr || *given == 0) return NewRunId();
  std::string id = given;
  std::transform(id.begin(), id.end(), id.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (id.size() != 32 || id.find_first_not_of("0123456789abcdef") != std::string::npos) {
    return Error{fmt::format(
        "POOLSCOPE_RUN_ID is '{}', no run's id: it takes 32 hex digits; unset it for a new one",
        given)};
  }
  return id;
}

std::string ForeignValue(const LoadingVariable& variable, const std::string& agent) {
  const char* value = std::getenv(variable.name);
  return value == nullptr || value == agent ? "" : value;
}

std::vector<std::string> ForeignNotes(const std::string& agent) {
  std::vector<std::string> notes;
  for (const LoadingVariable& variable : LoadingVariables()) {
    const std::string foreign = ForeignValue(variable, agent);
    if (foreign.empty()) continue;
    notes.push_back(fmt::format(
        "{} is set to {}: left as it is, {} will be recorded unless that is Poolscope's agent; "
        "unset it to use {}",
        variable.name, foreign, variable.unseen, agent));
  }
  return notes;
}

void SetLoadingVariables(const std::string& agent) {
  for (const LoadingVariable& variable : LoadingVariables()) {
    if (ForeignValue(variable, agent).empty()) setenv(variable.name, agent.c_str(), 1);
  }
}

}  // namespace poolscope
