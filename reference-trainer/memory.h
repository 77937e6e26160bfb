#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace poolscope::trainer {

struct Options;

// What lies in the memory of an emulated device with a profile, in bytes.
struct MemoryPart {
  const char* name;  // "weights"
  double bytes = 0;
};
struct MemoryNeed {
  std::string worker;  // "a worker of pool compute"
  std::vector<MemoryPart> parts;
  double capacity = 0;  // of its device

  double bytes() const;
};

// Of one worker of each pool; empty where devices have no profile. Per parameter: weights 2 or 4
// bytes by precision, gradient sum 4, master weights 4, both moments 8 (Rajbhandari et al. 2020
// (ZeRO), section 3.1, with an fp32 sum); activations 34 bytes × layers × tokens × width
// (Korthikanti et al. 2022, equation 2, attention recomputed; twice that in fp32); messages in the
// worker's buffers; what --memory-leak has left after `steps` steps.
std::vector<MemoryNeed> MemoryNeeds(const Options& options, uint64_t steps = 0);

// "" where every worker's need fits after `steps` steps of a leak, else one line that says which
// does not and why.
std::string CheckMemory(const Options& options, uint64_t steps = 0);

}  // namespace poolscope::trainer
