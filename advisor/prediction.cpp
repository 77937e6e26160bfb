#include "advisor/prediction.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "advisor/random.h"

namespace poolscope {
namespace {

constexpr double kNormal90 = 1.645;       // two-sided 90 %
constexpr double kLeastHalfWidth = 0.02;  // reruns of the same command do not repeat closer
constexpr size_t kBlocks = 6;

void Bootstrap(std::vector<Operation>& operations, Random& random) {
  for (Operation& operation : operations) {
    operation.samples.all.clear();
    for (std::vector<double>& own : operation.samples.by_worker) {
      const std::vector<double> from = own;
      for (double& value : own) value = from[random.Below(from.size())];
      operation.samples.all.insert(operation.samples.all.end(), own.begin(), own.end());
    }
  }
}

// Divides an ambiguous wire time: `share` of it to the bytes.
void Divide(const LinkFit& fit, double share, LinkModel& link) {
  if (!fit.ambiguous) return;
  link.ns_per_byte = share * fit.typical_ns / std::max(1.0, fit.typical_bytes);
  link.latency_ns = (1 - share) * fit.typical_ns;
}

// Fewer steps of large systems: the same number of messages.
SimulationOptions Options(const Model& model, uint64_t seed) {
  const double messages = 2.0 * model.compute.workers * model.update.workers +
                          3.0 * model.micro_batches +
                          (model.async ? model.micro_batches * model.update.workers : 0);
  const double steps = std::clamp(40000.0 / messages, 12.0, 80.0);
  return {.seed = seed, .steps = static_cast<int>(steps), .warm_up_steps = 6};
}

}  // namespace

std::string GainFrom(const Prediction& prediction) {
  // A worker's states fill its step: what they lose, added up, is what the step gains.
  struct Part {
    const char* what;
    double ns;
  };
  const auto parts = [](const Simulated& s) {
    const double discarded = s.compute.busy * (1 - s.accepted);
    return std::vector<Part>{{"discarded work", discarded * s.step_ns},
                             {"work", (s.compute.busy - discarded) * s.step_ns},
                             {"blocked on full buffers", s.compute.blocked_link * s.step_ns},
                             {"waiting for weights", s.compute.wait_link * s.step_ns},
                             {"waiting for credits", s.compute.wait_credit * s.step_ns}};
  };
  std::vector<Part> saved = parts(prediction.before);
  const std::vector<Part> after = parts(prediction.after);
  const double all = prediction.before.step_ns - prediction.after.step_ns;
  for (size_t i = 0; i < saved.size(); ++i) saved[i].ns -= after[i].ns;
  std::erase_if(saved, [all](const Part& part) { return all <= 0 || part.ns < 0.1 * all; });
  std::sort(saved.begin(), saved.end(), [](const Part& a, const Part& b) { return a.ns > b.ns; });
  std::string text;
  for (const Part& part : saved) {
    text += fmt::format("{}{} ({:.1f} ms)", text.empty() ? "" : ", ", part.what, part.ns * 1e-6);
  }
  return text;
}

double StepNoise(const std::vector<double>& steps, bool async) {
  if (steps.size() < 2 * kBlocks) return 0.02;
  const double whole = TypicalStep(steps, async);
  double squares = 0;
  for (size_t b = 0; b < kBlocks; ++b) {
    const auto from = steps.begin() + static_cast<std::ptrdiff_t>(b * steps.size() / kBlocks);
    const auto to = steps.begin() + static_cast<std::ptrdiff_t>((b + 1) * steps.size() / kBlocks);
    const double off = TypicalStep({from, to}, async) / whole - 1;
    squares += off * off;
  }
  return std::sqrt(squares / (kBlocks - 1) / kBlocks);
}

Predictor::Predictor(const Calibrated& calibrated, Run run, int replicates)
    : calibrated_(calibrated), run_(run) {
  for (int r = 0; r < replicates; ++r) {
    Model model = calibrated.model;
    Random random(static_cast<uint64_t>(r) + 11);
    if (r > 0) {
      for (PoolModel* pool : {&model.compute, &model.update}) {
        Bootstrap(pool->micro_batch, random);
        Bootstrap(pool->step, random);
      }
    }
    // The middle first, then both ends, then between.
    const double share = r == 0 ? 0.5 : r == 1 ? 0.0 : r == 2 ? 1.0 : random.Unit();
    Divide(calibrated.gradients_fit, share, model.gradients);
    Divide(calibrated.weights_fit, share, model.weights);
    before_.push_back(Simulate(model, Options(model, static_cast<uint64_t>(r) + 1)));
    replicates_.push_back(std::move(model));
  }
}

double Predictor::Speedup(size_t r, const Simulated& after, const Model& changed) const {
  const bool async = calibrated_.model.async || changed.async;
  const Simulated& before = before_[r];
  if (!before.finished || !after.finished) return 0;
  const double work = static_cast<double>(changed.micro_batches) / replicates_[r].micro_batches;
  return work * TypicalStepNs(before, async) / TypicalStepNs(after, async);
}

double Predictor::Screen(const Changes& changes) const {
  const Result<Model> changed = WithChanges(replicates_[0], changes);
  if (!changed) return 0;
  return Speedup(0, Simulate(*changed, Options(*changed, 1)), *changed);
}

Result<Prediction> Predictor::Predict(const Changes& changes) const {
  Prediction prediction;
  std::vector<double> speedups;
  double work = 1;
  double shape = 0;  // simulated median / typical step, after the change
  bool async = calibrated_.model.async;
  for (size_t r = 0; r < replicates_.size(); ++r) {
    const Result<Model> changed = WithChanges(replicates_[r], changes);
    if (!changed) return changed.error();
    work = static_cast<double>(changed->micro_batches) / replicates_[r].micro_batches;
    const Simulated after = Simulate(*changed, Options(*changed, static_cast<uint64_t>(r) + 1));
    async |= changed->async;
    const double speedup = Speedup(r, after, *changed);
    if (speedup <= 0) return prediction;
    if (r == 0) {
      prediction.before = before_[0];
      prediction.after = after;
    }
    speedups.push_back(speedup);
    shape += after.median_step_ns / TypicalStepNs(after, async) /
             static_cast<double>(replicates_.size());
  }
  prediction.possible = true;
  const bool ambiguous = calibrated_.gradients_fit.ambiguous || calibrated_.weights_fit.ambiguous;
  double mean = 0;
  for (double s : speedups) mean += s / static_cast<double>(speedups.size());
  double squares = 0;
  for (double s : speedups) squares += (s / mean - 1) * (s / mean - 1);
  const double spread =
      speedups.size() > 1 ? std::sqrt(squares / static_cast<double>(speedups.size() - 1)) : 0;
  const double own = kNormal90 * std::hypot(spread, run_.noise);
  const double half = std::min(0.9, std::max(kLeastHalfWidth, std::hypot(own, run_.replay_error)));
  prediction.speedup = mean;
  prediction.speedup_low = mean * (1 - half);
  prediction.speedup_high = mean * (1 + half);
  if (ambiguous) {
    const auto [least, most] = std::minmax_element(speedups.begin(), speedups.end());
    prediction.speedup_low = std::min(prediction.speedup_low, *least);
    prediction.speedup_high = std::max(prediction.speedup_high, *most);
  }
  prediction.baseline_seconds = async ? run_.mean_seconds : run_.median_seconds;
  prediction.step_seconds = prediction.baseline_seconds * work / mean;
  prediction.low = prediction.baseline_seconds * work / prediction.speedup_high;
  prediction.high = prediction.baseline_seconds * work / prediction.speedup_low;
  prediction.low = std::min(prediction.low, prediction.step_seconds * shape);
  prediction.high = std::max(prediction.high, prediction.step_seconds * shape);
  return prediction;
}

}  // namespace poolscope
