#include <algorithm>
#include <cstdlib>

#include "advisor/run_data.h"

namespace poolscope {
namespace {

constexpr double kWarmUpShare = 0.1;
constexpr int64_t kLeastNs = 5'000'000'000;
constexpr int64_t kLeastSteps = 3;
const std::string kNoStep = "no step was marked (poolscope_step)";

struct Stretch {
  int64_t begin_ns, end_ns;
};

// The longest part of `span` that no event loss covers; a loss of no known time covers all.
Stretch LongestClean(Stretch span, const std::vector<EventLossRow>& losses) {
  std::vector<Stretch> lossy;
  for (const EventLossRow& loss : losses) {
    if (loss.events == 0) continue;
    if (loss.first_ns <= 0 && loss.last_ns <= 0) return {span.begin_ns, span.begin_ns};
    if (loss.last_ns < span.begin_ns || loss.first_ns > span.end_ns) continue;
    lossy.push_back({loss.first_ns, std::max(loss.first_ns, loss.last_ns)});
  }
  std::sort(lossy.begin(), lossy.end(),
            [](const Stretch& a, const Stretch& b) { return a.begin_ns < b.begin_ns; });
  Stretch best{span.begin_ns, span.begin_ns};
  int64_t clean_from = span.begin_ns;
  const auto offer = [&best](int64_t begin, int64_t end) {
    if (end - begin > best.end_ns - best.begin_ns) best = {begin, end};
  };
  for (const Stretch& loss : lossy) {
    offer(clean_from, std::min(loss.begin_ns, span.end_ns));
    clean_from = std::max(clean_from, loss.end_ns + 1);
  }
  offer(clean_from, span.end_ns);
  return best;
}

// Step boundaries (ends of steps) inside the stretch, and the stretch cut to them.
void CutToSteps(const RunData& run, AnalysedSpan& span) {
  int64_t first = 0;
  int64_t last = 0;
  int64_t boundaries = 0;
  for (const StepRow& step : run.steps) {
    if (step.end_ns < span.begin_ns || step.end_ns > span.end_ns) continue;
    if (boundaries++ == 0) first = step.end_ns;
    last = step.end_ns;
  }
  span.steps = std::max<int64_t>(0, boundaries - 1);
  if (span.steps > 0) {
    span.begin_ns = first;
    span.end_ns = last;
  }
}

}  // namespace

AnalysedSpan ChooseSpan(const RunData& run, bool newest_only) {
  AnalysedSpan span{run.run.start_ns, std::max(run.run.start_ns, run.run.end_ns), 0, "", false};
  const size_t steps = run.steps.size();
  if (steps >= 3) {
    const double stated = run.Number("warm_up_steps").value_or(0);
    const auto warm_up = static_cast<size_t>(
        std::clamp(std::max(kWarmUpShare * double(steps), stated), 1.0, double(steps)));
    span.begin_ns = run.steps[warm_up - 1].end_ns;
    span.end_ns = run.steps.back().end_ns;
  }
  // A pool that gave up or got a device is another one from then on.
  if (const auto changed = run.Number("mapping.changed_ns"); changed && *changed > 0) {
    const auto changed_ns =
        static_cast<int64_t>(std::strtoll(run.Text("mapping.changed_ns").c_str(), nullptr, 10));
    span.begin_ns = std::clamp(changed_ns, span.begin_ns, span.end_ns);
  }
  if (newest_only) {
    int64_t from = span.end_ns - kLeastNs;
    if (steps > static_cast<size_t>(kLeastSteps)) {
      from = std::min(from, run.steps[steps - 1 - kLeastSteps].end_ns);
    }
    span.begin_ns = std::max(span.begin_ns, from);
  }
  const Stretch clean = LongestClean({span.begin_ns, span.end_ns}, run.losses);
  AnalysedSpan cut = span;
  cut.begin_ns = clean.begin_ns;
  cut.end_ns = clean.end_ns;
  if (steps >= 3) CutToSteps(run, cut);
  const bool shortened = clean.begin_ns != span.begin_ns || clean.end_ns != span.end_ns;
  if (shortened && cut.steps < kLeastSteps) {
    span.lossy = true;
    span.abstain = steps == 0 ? kNoStep
                              : "events are missing from all but " + std::to_string(cut.steps) +
                                    " of its steps (see event losses)";
    if (steps >= 3) CutToSteps(run, span);
    return span;
  }
  if (cut.steps < kLeastSteps) {
    cut.abstain = steps == 0 ? kNoStep
                             : "only " + std::to_string(cut.steps) +
                                   " steps after the warm-up, at least 3 are needed";
  }
  return cut;
}

double TokensPerSecond(const RunData& run, const AnalysedSpan& span) {
  int64_t tokens = 0;
  for (const StepRow& step : run.steps) {
    if (step.end_ns > span.begin_ns && step.end_ns <= span.end_ns) tokens += step.tokens;
  }
  return span.seconds() > 0 ? static_cast<double>(tokens) / span.seconds() : 0;
}

std::vector<double> StepSeconds(const RunData& run, const AnalysedSpan& span) {
  std::vector<double> seconds;
  int64_t previous = -1;
  for (const StepRow& step : run.steps) {
    if (step.end_ns < span.begin_ns || step.end_ns > span.end_ns) continue;
    if (previous >= 0) seconds.push_back(static_cast<double>(step.end_ns - previous) * 1e-9);
    previous = step.end_ns;
  }
  return seconds;
}

}  // namespace poolscope
