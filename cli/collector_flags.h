#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace poolscope {

// What `run` and `collect` tell a collector alike: --pools and --metrics (checked when parsed).
void AddCollectorFlags(CLI::App& command, std::string& pools, std::string& metrics);

}  // namespace poolscope
