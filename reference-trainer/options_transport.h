#pragma once

#include <string>

namespace CLI {
class App;
}

namespace poolscope::trainer {

struct Options;

enum class TransportKind { kInProcess, kMpi };

void AddTransportOptions(CLI::App& app, TransportKind& transport);
// What cannot go over processes: one line of error, or "".
std::string CheckTransport(const Options& options);

}  // namespace poolscope::trainer
