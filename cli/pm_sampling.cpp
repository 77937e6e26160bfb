#include "cli/pm_sampling.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace poolscope {
namespace {

// Whether this process has CAP_SYS_ADMIN, which NVIDIA's driver takes for an administrator.
bool IsAdministrator() {
  constexpr unsigned kSysAdmin = 21;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("CapEff:")) {
      return (std::strtoull(line.c_str() + 7, nullptr, 16) >> kSysAdmin & 1) != 0;
    }
  }
  return false;
}

}  // namespace

void AddPmSamplingFlag(CLI::App& command, int& interval_ms) {
  command
      .add_option("--pm-sampling", interval_ms,
                  "have devices sample their counters at this interval, in ms (1 to 10000; "
                  "docs/cupti.md)")
      ->type_name("MS")
      ->check(CLI::Range(1, 10000));
}

Result<std::string> PmSamplingPermission() {
  const char* instead = std::getenv("POOLSCOPE_NVIDIA_PARAMS");
  const std::string path = instead != nullptr ? instead : "/proc/driver/nvidia/params";
  std::ifstream file(path);
  if (!file) return Error{fmt::format("no {}: NVIDIA's driver is not loaded here", path)};
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    int value = 0;
    if (!(words >> name >> value) || name != "RmProfilingAdminOnly:" || value == 0) continue;
    if (IsAdministrator()) return std::string("permitted to administrators, of which you are one");
    return Error{fmt::format(
        "{} says RmProfilingAdminOnly: {}: the driver lets administrators alone sample; "
        "load it with NVreg_RestrictProfilingToAdminUsers=0, or run the job with "
        "CAP_SYS_ADMIN",
        path, value)};
  }
  return std::string("permitted to every user");
}

}  // namespace poolscope
