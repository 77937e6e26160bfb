#pragma once

#include <span>
#include <vector>

#include "reference-trainer/passes.h"

namespace poolscope::trainer {

// Groups of parameters (indices of Parameters::groups()) that a stage reads.
using Groups = std::vector<size_t>;

// Where the weights of a staged pass come from, if they are not simply there.
class WeightSource {
 public:
  virtual ~WeightSource() = default;

  virtual void Begin(const MicroBatch& batch) = 0;
  // Waits until the weights of ahead[0] are in the replica, where they stay until the next call.
  // The rest of `ahead` is what the following stages will need, as far as it is known: experts are
  // not before their layer has chosen them.
  virtual void Need(std::span<const Groups> ahead) = 0;
  virtual void End() = 0;
};

// One micro-batch stage by stage, each of which is work of its own: where experts make the time of
// a layer depend on their load, or where weights come stage by stage. `source` may be null.
//
// On an emulated device a stage takes its matrices' share of the stated time (the embedding none);
// experts take theirs as if each had a device of its own: the most loaded one sets the time, and an
// even load costs what the stated time says.
double ForwardBackwardInStages(const Job& job, Device& device, Replica* replica,
                               const MicroBatch& batch, WeightSource* source);

}  // namespace poolscope::trainer
