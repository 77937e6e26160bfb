#pragma once

#include <cstdint>
#include <string>

namespace CLI {
class App;
}

namespace poolscope::trainer {

struct Options;

// The host that feeds an emulated device.
struct HostOptions {
  double seconds = 0;  // of host work before the device gets an operation; 0: none
  uint64_t ahead = 2;  // operations that may be launched before the device takes them
};

void AddHostOptions(CLI::App& app, HostOptions& host);
// What is wrong with them beside the others: one line, or "".
std::string CheckHost(const CLI::App& app, const Options& options);

void AnnotateHost(const HostOptions& host);

}  // namespace poolscope::trainer
