#pragma once

#include <memory>
#include <string>
#include <variant>

#include "reference-trainer/transport.h"

namespace poolscope::trainer {

// The transport of a process that mpirun (or nothing: then it is the only one) has started.
class MpiTransport : public Transport {
 public:
  using Transport::Transport;

  // Before Start(), by all processes together: the first process' error with its name, "" where
  // none has one.
  virtual std::string FirstError(const std::string& error) = 0;
  // The same `value` of process 0 for all.
  virtual uint64_t OfFirst(uint64_t value) = 0;
};

// Initialises MPI for the life of the result. The string is an error: this build has no MPI, or it
// is without threads. Once per process.
std::variant<std::unique_ptr<MpiTransport>, std::string> StartMpi();

}  // namespace poolscope::trainer
