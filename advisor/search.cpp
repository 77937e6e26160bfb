#include "advisor/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace poolscope {
namespace {

constexpr int64_t kEventBudget = 600'000;
constexpr int64_t kQuickEventBudget = 150'000;
constexpr double kLeastGain = 0.03;      // reruns of the same differ by 2 to 3 %
constexpr double kNearlyTheBest = 0.01;  // then the smaller change is taken
constexpr int kDeepest = 16;
constexpr double kRestartSeconds = 30;  // what changing the pools costs: a restart
constexpr int kMostRatios = 24;         // candidates of the pool ratio

struct Candidate {
  Changes changes;
  double distance = 0;  // how large the change is
  double speedup = 0;   // screened
};

// Of those nearly as good as the best, the smallest change.
const Candidate* Choose(const std::vector<Candidate>& candidates) {
  const Candidate* best = nullptr;
  for (const Candidate& candidate : candidates) {
    if (best == nullptr || candidate.speedup > best->speedup) best = &candidate;
  }
  for (const Candidate& candidate : candidates) {
    if (candidate.distance < best->distance &&
        candidate.speedup >= best->speedup * (1 - kNearlyTheBest)) {
      best = &candidate;
    }
  }
  return best;
}

// Ratios of the same devices that give the busier pool more of them, of those that the pools'
// limits allow: `why_not` says where these leave none. The other direction may pay too, through
// fewer messages or more buffers, but that is the cause of another rule.
std::vector<Candidate> PoolRatios(const PoolLimits& limits, const Predictor& predictor,
                                  std::string& why_not) {
  const Model& model = predictor.model();
  const Simulated& now = predictor.before();
  const int devices = model.compute.workers + model.update.workers;
  const int towards = now.update.busy > now.compute.busy ? 1 : -1;
  std::vector<Candidate> allowed;
  Model changed = model;
  for (int update = model.update.workers + towards; update >= 1 && update < devices;
       update += towards) {
    changed.update.workers = update;
    changed.compute.workers = devices - update;
    if (std::string why = limits.WhyNot(model, changed); !why.empty()) {
      if (why_not.empty()) why_not = std::move(why);
      continue;
    }
    allowed.push_back({{{model.compute.name + ".workers", std::to_string(changed.compute.workers)},
                        {model.update.name + ".workers", std::to_string(update)}},
                       static_cast<double>(std::abs(update - model.update.workers))});
  }
  // All of the smallest moves, of the others one in so many.
  std::vector<Candidate> candidates;
  const size_t stride = 1 + allowed.size() / kMostRatios;
  for (size_t i = 0; i < allowed.size(); ++i) {
    if (i < 4 || (i + 1) % stride == 0) candidates.push_back(std::move(allowed[i]));
  }
  return candidates;
}

std::vector<Candidate> Depths(const LinkModel& link) {
  std::vector<Candidate> candidates;
  for (int depth = 1; depth <= kDeepest; depth *= 2) {
    if (depth <= link.depth) continue;
    candidates.push_back({{{link.name + ".depth", std::to_string(depth)}}, std::log2(depth)});
  }
  return candidates;
}

Option Try(const WhatIf& what_if, const Predictor& predictor, const std::string& kind,
           std::vector<Candidate> candidates, const std::string& none) {
  Option option;
  const Model& model = predictor.model();
  std::erase_if(candidates, [&](const Candidate& candidate) {
    const Result<Model> changed = WithChanges(model, candidate.changes);
    const std::string lack = changed ? WhatDoesNotFit(what_if.limits.Memory(model, *changed)) : "";
    if (!lack.empty() && option.no_memory.empty()) {
      option.no_memory = fmt::format("{}: {}", DescribeChanges(model, candidate.changes), lack);
    }
    return !lack.empty();
  });
  if (candidates.empty()) {
    option.why_not = option.no_memory.empty() ? none : option.no_memory;
    return option;
  }
  for (Candidate& candidate : candidates) candidate.speedup = predictor.Screen(candidate.changes);
  const Candidate& best = *Choose(candidates);
  const Result<Prediction> prediction = predictor.Predict(best.changes);
  const std::string change = DescribeChanges(model, best.changes);
  if (!prediction) {
    option.why_not = prediction.error().message;
  } else if (!prediction->possible) {
    option.why_not = change + " would bring training to a standstill";
  } else if (prediction->speedup < 1 + kLeastGain || prediction->speedup_low <= 1) {
    option.why_not = fmt::format(
        "no change worth making: the best, {}, would bring the step from {:.1f} to {:.1f} ms "
        "[{:.1f} .. {:.1f}]",
        change, prediction->baseline_seconds * 1e3, prediction->step_seconds * 1e3,
        prediction->low * 1e3, prediction->high * 1e3);
  } else {
    option.recommendation = Recommend(what_if, *prediction, kind, best.changes);
    option.gain_from = GainFrom(*prediction);
  }
  return option;
}

// The best two recommendations made at once.
std::optional<Together> TryTogether(const PoolLimits& limits, const Predictor& predictor,
                                    const Advice& advice) {
  std::vector<const Recommendation*> best;
  const auto add = [&best](const Option& option) {
    if (option.recommendation) best.push_back(&*option.recommendation);
  };
  add(advice.pool_ratio);
  for (const auto* options : {&advice.compression, &advice.buffer_depth}) {
    for (const auto& [link, option] : *options) add(option);
  }
  if (best.size() < 2) return std::nullopt;
  std::sort(best.begin(), best.end(), [](const Recommendation* a, const Recommendation* b) {
    return a->predicted_speedup > b->predicted_speedup;
  });
  Together together;
  together.set = best[0]->set;
  together.set.insert(best[1]->set.begin(), best[1]->set.end());
  const Result<Model> changed = WithChanges(predictor.model(), together.set);
  if (!changed || !WhatDoesNotFit(limits.Memory(predictor.model(), *changed)).empty()) {
    return std::nullopt;
  }
  const Result<Prediction> prediction = predictor.Predict(together.set);
  if (!prediction || !prediction->possible) return std::nullopt;
  if (prediction->speedup < best[0]->predicted_speedup * (1 + kLeastGain)) return std::nullopt;
  together.change = DescribeChanges(predictor.model(), together.set);
  together.step_seconds = prediction->step_seconds;
  together.low = prediction->low;
  together.high = prediction->high;
  return together;
}

}  // namespace

Result<WhatIf> PrepareWhatIf(const Store& store, RunData run, const AnalysedSpan& span,
                             bool quick) {
  Result<PoolLimits> limits = PoolLimits::Read(store, run, span);
  if (!limits) return limits.error();
  WhatIf what_if{std::move(run), span, std::move(*limits), {}, {}, {}, {}, 0};
  if (!span.abstain.empty()) {
    what_if.replay.refused = span.abstain;
    return what_if;
  }
  if (Result<Roles> roles = FindRoles(what_if.run); !roles) {
    what_if.replay.refused = roles.error().message;
    return what_if;
  }
  Result<EventRecords> records =
      ReadEventRecords(store, what_if.run, span, quick ? kQuickEventBudget : kEventBudget);
  if (!records) return records.error();
  what_if.records = std::move(*records);
  what_if.replay = ReplayHeldOut(what_if.run, what_if.records, span);
  if (!what_if.replay.refused.empty()) return what_if;
  Result<Calibrated> calibrated = Calibrate(
      what_if.run, what_if.records, std::max(span.begin_ns, what_if.records.begin_ns), span.end_ns);
  if (!calibrated) {
    what_if.replay.refused = calibrated.error().message;
    return what_if;
  }
  const bool async = calibrated->model.async;
  const std::vector<double> steps = StepSeconds(what_if.run, span);
  what_if.measured = {Median(steps), TypicalStep(steps, true), StepNoise(steps, async),
                      what_if.replay.step_error.value_or(0)};
  what_if.calibrated = std::move(*calibrated);
  what_if.tokens_per_second = TokensPerSecond(what_if.run, span);
  return what_if;
}

Recommendation Recommend(const WhatIf& what_if, const Prediction& prediction,
                         const std::string& kind, const Changes& changes) {
  const Model& model = what_if.calibrated->model;
  Recommendation r;
  r.kind = kind;
  r.change = DescribeChanges(model, changes);
  r.klass = ClassOf(changes);
  r.set = changes;
  r.baseline_step_seconds = prediction.baseline_seconds;
  r.predicted_step_seconds = prediction.step_seconds;
  r.interval_low = prediction.low;
  r.interval_high = prediction.high;
  r.predicted_speedup = prediction.speedup;
  r.apply = ApplyFlags(model, changes);
  r.extrapolated = true;  // one run has exercised one value of each knob
  const Result<Model> changed = WithChanges(model, changes);
  if (what_if.tokens_per_second > 0 && changed) {
    r.predicted_tokens_per_second = what_if.tokens_per_second * prediction.speedup;
    r.device_seconds_per_token =
        (changed->compute.workers + changed->update.workers) / r.predicted_tokens_per_second;
  }
  if (changed) r.memory = what_if.limits.Memory(model, *changed);
  const double saved = prediction.baseline_seconds - prediction.step_seconds;
  if (saved > 0) r.pays_back_after_steps = std::ceil(kRestartSeconds / saved);
  for (const auto& [knob, value] : changes) {
    if (!knob.ends_with(".codec") || value != "bf16") continue;
    const bool gradients = knob == model.gradients.name + ".codec";
    if (!(gradients ? model.gradients : model.weights).bf16.assumed) continue;
    r.assumed = what_if.calibrated->assumed;
  }
  for (const std::string& value : what_if.calibrated->assumed) {
    const bool codec = value.find("bf16") != std::string::npos;
    if (!codec && std::find(r.assumed.begin(), r.assumed.end(), value) == r.assumed.end()) {
      r.assumed.push_back(value);
    }
  }
  return r;
}

Advice Search(const WhatIf& what_if, bool quick) {
  Advice advice;
  advice.replay_error = what_if.replay.step_error;
  advice.replay_note = what_if.replay.refused;
  if (!what_if.calibrated) return advice;
  const Predictor predictor(*what_if.calibrated, what_if.measured, quick ? 3 : 7);
  const Model& model = predictor.model();
  advice.producer = model.compute.name;
  std::string none;
  std::vector<Candidate> ratios = PoolRatios(what_if.limits, predictor, none);
  if (none.empty()) none = "the idler pool has no worker to give";
  advice.pool_ratio = Try(what_if, predictor, "pool_ratio", std::move(ratios), none);
  for (const LinkModel* link : {&model.gradients, &model.weights}) {
    std::vector<Candidate> codecs;
    if (link->codec.name == "none") codecs.push_back({{{link->name + ".codec", "bf16"}}});
    advice.compression[link->name] =
        Try(what_if, predictor, "compression", std::move(codecs), "the link is compressed already");
    advice.buffer_depth[link->name] = Try(what_if, predictor, "buffer_depth", Depths(*link),
                                          "its buffers are as deep as is useful already");
  }
  advice.together = TryTogether(what_if.limits, predictor, advice);
  return advice;
}

}  // namespace poolscope
