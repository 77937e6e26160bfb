#include "reference-trainer/cost_model.h"

#include <array>
#include <cmath>

namespace poolscope::trainer {
namespace {

struct PublishedShape {
  double parameters;
  Shape shape;
};

// Brown et al. 2020 (GPT-3), table 2.1, up to 1.3 G; above it Narayanan et al. 2021 (Megatron-LM),
// table 1, and GPT-3 itself.
constexpr std::array kShapes = {
    PublishedShape{125e6, {12, 768}},     PublishedShape{350e6, {24, 1024}},
    PublishedShape{760e6, {24, 1536}},    PublishedShape{1.3e9, {24, 2048}},
    PublishedShape{1.7e9, {24, 2304}},    PublishedShape{3.6e9, {30, 3072}},
    PublishedShape{7.5e9, {36, 4096}},    PublishedShape{18.4e9, {40, 6144}},
    PublishedShape{39.1e9, {48, 8192}},   PublishedShape{76.1e9, {60, 10240}},
    PublishedShape{145.6e9, {80, 12288}}, PublishedShape{175e9, {96, 12288}},
    PublishedShape{310.1e9, {96, 16384}}, PublishedShape{529.6e9, {105, 20480}},
    PublishedShape{1008e9, {128, 25600}},
};

// Kernels of a block's forward pass: two norms, four products, attention, GELU, two additions,
// two transpositions. Assumed; a backward pass has twice as many.
constexpr double kKernelsOfBlock = 12;

}  // namespace

Shape ShapeOfParameters(double parameters) {
  Shape best = kShapes.front().shape;
  double distance = INFINITY;
  for (const PublishedShape& each : kShapes) {
    const double here = std::abs(std::log(each.parameters / parameters));
    if (here < distance) {
      distance = here;
      best = each.shape;
    }
  }
  return best;
}

double CostModel::ForwardFlops() const {
  // Per token 2 N (Kaplan et al. 2020, section 2.1) and, for attention, 4 × layers × context ×
  // width (Chowdhery et al. 2022 (PaLM), appendix B: 12 with the backward pass).
  const double attention = 4 * static_cast<double>(model_.layers) *
                           static_cast<double>(model_.context) * static_cast<double>(model_.width);
  return model_.tokens() * (2 * model_.parameters + attention);
}

double CostModel::ForwardSeconds(const DeviceProfile& device) const {
  return ForwardFlops() / device.flops(precision_) +
         kKernelsOfBlock * static_cast<double>(model_.layers) * device.launch_seconds;
}

double CostModel::BackwardSeconds(const DeviceProfile& device) const {
  return 2 * ForwardSeconds(device);
}

double CostModel::OptimizerBytes() const {
  // Reads the gradient, weight and both moments, writes the latter three, all fp32; the bf16
  // weights for the compute pool are made by the codec of the link.
  return model_.parameters * (4 + 3 * 4 + 3 * 4);
}

double CostModel::UpdateSeconds(const DeviceProfile& device) const {
  return OptimizerBytes() / device.achieved_bytes_per_second() + device.launch_seconds;
}

}  // namespace poolscope::trainer
