#pragma once

#include <string>
#include <vector>

#include "advisor/calibration.h"
#include "advisor/knobs.h"
#include "advisor/replay.h"
#include "advisor/simulation.h"

namespace poolscope {

// A predicted step time with its interval, and the model's picture before and after.
struct Prediction {
  bool possible = false;        // false: the changed system comes to a standstill
  double baseline_seconds = 0;  // the run's own, of the same statistic as step_seconds
  double step_seconds = 0, low = 0, high = 0;
  double speedup = 1;  // in accepted work per second
  double speedup_low = 1, speedup_high = 1;
  Simulated before, after;  // of the first replicate
};

// Predicts changes of one run. Each replicate draws the calibration anew (bootstrap), takes another
// seed, and, where a link's bytes and latency could not be told apart, another share of the two.
// The interval also holds the run's own noise and the replay's error. Steps are compared by what
// TypicalStep says, measured and simulated alike: where the run or the change is asynchronous, by
// means, so that step time and tokens per second tell the same. Where simulated steps alternate
// between lengths, their median may lie off their mean: the interval then holds it too.
class Predictor {
 public:
  struct Run {
    double median_seconds = 0;  // of its steps
    double mean_seconds = 0;    // without stalls
    double noise = 0.01;        // relative standard error of a run's step time, see StepNoise
    double replay_error = 0;
  };
  Predictor(const Calibrated& calibrated, Run run, int replicates);

  Result<Prediction> Predict(const Changes& changes) const;
  // One replicate alone, to choose candidates: predicted speedup, 0 where it stands still.
  double Screen(const Changes& changes) const;

  const Model& model() const { return calibrated_.model; }
  const Calibrated& calibrated() const { return calibrated_; }
  const Run& run() const { return run_; }
  const Simulated& before() const { return before_[0]; }  // the run as it is, simulated

 private:
  double Speedup(size_t replicate, const Simulated& after, const Model& changed) const;

  const Calibrated& calibrated_;
  const Run run_;
  std::vector<Model> replicates_;
  std::vector<Simulated> before_;
};

// What a producing worker spends less time on, per step, most first; each at least a tenth of all.
std::string GainFrom(const Prediction& prediction);

// Relative standard error of the typical step: from how much its blocks of steps differ.
double StepNoise(const std::vector<double>& steps, bool async);

}  // namespace poolscope
