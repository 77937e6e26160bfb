#pragma once

#include <cstdint>

#include "reference-trainer/profiles.h"

namespace poolscope::trainer {

// A GPT as far as its cost goes. No memory is taken for it.
struct EmulatedModel {
  double parameters = 0;  // 0: none, times and bytes are stated
  uint64_t layers = 0;
  uint64_t width = 0;
  uint64_t context = 2048;
  uint64_t batch = 1;  // sequences of a micro-batch

  double tokens() const { return static_cast<double>(context) * static_cast<double>(batch); }
};

// Layers and width of the published GPT that is nearest to `parameters` (ratio of parameters).
struct Shape {
  uint64_t layers, width;
};
Shape ShapeOfParameters(double parameters);

// How long operations take: passes FLOPs ÷ achieved rate + kernels × launch latency, the optimizer
// bytes ÷ achieved memory bandwidth + launch latency.
class CostModel {
 public:
  CostModel(const EmulatedModel& model, Precision precision)
      : model_(model), precision_(precision) {}

  double ForwardFlops() const;  // of a micro-batch
  double ForwardSeconds(const DeviceProfile& device) const;
  double BackwardSeconds(const DeviceProfile& device) const;

  double OptimizerBytes() const;  // that AdamW reads and writes for all parameters
  double UpdateSeconds(const DeviceProfile& device) const;  // all parameters on one device

 private:
  const EmulatedModel model_;
  const Precision precision_;
};

}  // namespace poolscope::trainer
