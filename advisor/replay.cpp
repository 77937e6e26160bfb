#include "advisor/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace poolscope {
namespace {

constexpr double kMostStepError = 0.10;
constexpr double kMostRatioError = 0.10;
constexpr int64_t kLeastSteps = 6;
constexpr double kCalibratedShare = 0.6;
constexpr double kStallMedians = 3;

// Mean number of messages in the link's buffers: from hand-over until they are taken.
double MeasureDepth(const EventRecords& records, int link, const Stretches& stretches) {
  double sum = 0;
  double wall = 0;
  for (const auto& [begin, end] : stretches) wall += static_cast<double>(end - begin);
  for (const TransferRecord& t : records.transfers) {
    if (t.link != link || !t.stage(0).seen()) continue;
    const StageTime& taken = t.stage(3).seen() ? t.stage(3) : t.stage(4);
    const int64_t end = taken.seen() ? taken.start_ns : t.stage(2).end_ns;
    sum += static_cast<double>(Overlap(stretches, t.stage(0).start_ns, end));
  }
  return wall > 0 ? sum / wall : 0;
}

// The steps from `split` on, without those in which the machine stood still.
Stretches WithoutStalls(const std::vector<int64_t>& step_ends, int64_t split) {
  std::vector<double> lengths;
  for (size_t i = 1; i < step_ends.size(); ++i) {
    lengths.push_back(static_cast<double>(step_ends[i] - step_ends[i - 1]));
  }
  const double stall = kStallMedians * Median(lengths);
  Stretches steps;
  for (size_t i = 1; i < step_ends.size(); ++i) {
    if (step_ends[i - 1] < split) continue;
    if (static_cast<double>(step_ends[i] - step_ends[i - 1]) <= stall) {
      steps.emplace_back(step_ends[i - 1], step_ends[i]);
    }
  }
  return steps;
}

void AddStates(const std::string& pool, const MeasuredStates& measured,
               const SimulatedStates& replayed, std::vector<ReplayRow>& rows) {
  rows.push_back({pool + " busy", measured.busy, replayed.busy});
  rows.push_back({pool + " wait_link", measured.wait_link, replayed.wait_link});
  rows.push_back({pool + " blocked_link", measured.blocked_link, replayed.blocked_link});
  rows.push_back({pool + " wait_credit", measured.wait_credit, replayed.wait_credit});
}

}  // namespace

double TypicalStep(const std::vector<double>& steps, bool async) {
  const double median = Median(steps);
  if (!async || steps.empty()) return median;
  double sum = 0;
  for (double step : steps) sum += std::min(step, kStallMedians * median);
  return sum / static_cast<double>(steps.size());
}

double TypicalStepNs(const Simulated& simulated, bool async) {
  return async ? simulated.step_ns : simulated.median_step_ns;
}

Replay ReplayHeldOut(const RunData& run, const EventRecords& records, const AnalysedSpan& span) {
  Replay replay;
  AnalysedSpan seen = span;
  seen.begin_ns = std::max(span.begin_ns, records.begin_ns);
  std::vector<int64_t> ends;
  for (const StepRow& step : run.steps) {
    if (step.end_ns >= seen.begin_ns && step.end_ns <= seen.end_ns) ends.push_back(step.end_ns);
  }
  const auto steps = static_cast<int64_t>(ends.size()) - 1;
  if (steps < kLeastSteps) {
    replay.refused = fmt::format("only {} steps to check the what-if on, {} are needed",
                                 std::max<int64_t>(0, steps), kLeastSteps);
    return replay;
  }
  const int64_t split =
      ends[static_cast<size_t>(std::lround(kCalibratedShare * static_cast<double>(steps)))];
  Result<Calibrated> calibrated = Calibrate(run, records, ends.front(), split);
  if (!calibrated) {
    replay.refused = calibrated.error().message;
    return replay;
  }
  const Model& model = calibrated->model;
  const Simulated simulated = Simulate(model, {.seed = 7, .steps = 60});
  if (!simulated.finished) {
    replay.refused = "the replay came to a standstill";
    return replay;
  }
  AnalysedSpan held_out = seen;
  held_out.begin_ns = split;
  const double measured_step = TypicalStep(StepSeconds(run, held_out), model.async);
  const double replayed_step = TypicalStepNs(simulated, model.async) * 1e-9;
  replay.rows.push_back({"step seconds", measured_step, replayed_step});
  const Result<Roles> roles = FindRoles(run);
  // The last steps of an asynchronous run start no new work.
  const auto draining = static_cast<std::ptrdiff_t>(model.async ? model.lag_bound + 1 : 0);
  if (static_cast<std::ptrdiff_t>(ends.size()) > draining + kLeastSteps) {
    ends.erase(ends.end() - draining, ends.end());
  }
  const Stretches held_out_steps = WithoutStalls(ends, split);
  AddStates(model.compute.name, MeasureStates(records, roles->compute, held_out_steps),
            simulated.compute, replay.rows);
  AddStates(model.update.name, MeasureStates(records, roles->update, held_out_steps),
            simulated.update, replay.rows);
  replay.rows.push_back({model.gradients.name + " depth",
                         MeasureDepth(records, roles->gradients, held_out_steps),
                         simulated.gradients.depth});
  replay.rows.push_back({model.weights.name + " depth",
                         MeasureDepth(records, roles->weights, held_out_steps),
                         simulated.weights.depth});

  if (measured_step <= 0) {
    replay.refused = "the held-out steps took no time";
    return replay;
  }
  replay.step_error = std::abs(replayed_step / measured_step - 1);
  const std::string cores = ShortOfCores(run, MeasureCoreShare(records, held_out_steps));
  if (*replay.step_error > kMostStepError) {
    replay.refused = fmt::format(
        "the replay of held-out steps was {:.0f} % off ({:.1f} ms, "
        "measured {:.1f} ms){}",
        *replay.step_error * 100, replayed_step * 1e3, measured_step * 1e3, cores);
    return replay;
  }
  for (const ReplayRow& row : replay.rows) {
    if (row.what.find(" busy") == std::string::npos) continue;
    if (std::abs(row.replayed - row.measured) <= kMostRatioError) continue;
    replay.refused = fmt::format(
        "the replay of held-out steps had {} {:.0f} % of the time, "
        "measured {:.0f} %{}",
        row.what, row.replayed * 100, row.measured * 100, cores);
    return replay;
  }
  return replay;
}

}  // namespace poolscope
