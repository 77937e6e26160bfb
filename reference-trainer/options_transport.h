#pragma once

#include <string>

namespace CLI {
class App;
}

namespace poolscope::trainer {

struct Options;

enum class TransportKind { kInProcess, kMpi, kNccl };

const char* TransportName(TransportKind transport);  // "inprocess", "mpi", "nccl"

void AddTransportOptions(CLI::App& app, TransportKind& transport);
// What cannot go over it: one line of error, or "".
std::string CheckTransport(const Options& options);

}  // namespace poolscope::trainer
