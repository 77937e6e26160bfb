#include "advisor/what_if.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

#include "advisor/report_json.h"

namespace poolscope {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kReplicates = 9;

Json Number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

std::string Value(const ReplayRow& row, double value) {
  if (row.what == "step seconds") return fmt::format("{:.2f} ms", value * 1e3);
  if (row.what.ends_with(" depth")) return fmt::format("{:.2f}", value);
  return fmt::format("{:.1f} %", value * 100);
}

// The knobs of a run that cannot be calibrated, by its pools' and links' names.
Model Nominal(const RunData& run) {
  Model model;
  const Result<Roles> roles = FindRoles(run);
  if (!roles) return model;
  model.compute.name = run.pools[static_cast<size_t>(roles->compute)].pool;
  model.update.name = run.pools[static_cast<size_t>(roles->update)].pool;
  model.gradients.name = run.links[static_cast<size_t>(roles->gradients)].link;
  model.weights.name = run.links[static_cast<size_t>(roles->weights)].link;
  return model;
}

}  // namespace

WhatIfResult AskWhatIf(const Store& store, const std::string& run_id, const Changes& changes) {
  Result<RunData> run = ReadRunData(store, run_id);
  if (!run) return {std::nullopt, {false, run.error().message}};
  const AnalysedSpan span = ChooseSpan(*run, false);
  if (FindRoles(*run)) {
    if (Result<Model> known = WithChanges(Nominal(*run), changes); !known) {
      return {std::nullopt, {true, known.error().message}};
    }
  }
  Result<WhatIf> what_if = PrepareWhatIf(store, std::move(*run), span, false);
  if (!what_if) return {std::nullopt, {false, what_if.error().message}};
  WhatIfAnswer answer;
  answer.run = what_if->run.run.run_id;
  answer.step_seconds = Median(StepSeconds(what_if->run, span));
  answer.replay = what_if->replay;
  answer.changes = changes;
  answer.refused = what_if->replay.refused;
  if (!answer.refused.empty() || !what_if->calibrated) return {std::move(answer), {}};
  const Predictor predictor(*what_if->calibrated, what_if->measured, kReplicates);
  Result<Prediction> prediction = predictor.Predict(changes);
  if (!prediction) return {std::nullopt, {true, prediction.error().message}};
  if (!prediction->possible) {
    answer.refused = "the changed system comes to a standstill";
    return {std::move(answer), {}};
  }
  answer.prediction = *prediction;
  answer.step_seconds = prediction->baseline_seconds;
  answer.producer = predictor.model().compute.name;
  answer.updater = predictor.model().update.name;
  answer.change = Recommend(*what_if, *prediction, "what_if", changes);
  const Result<Model> changed = WithChanges(predictor.model(), changes);
  const std::string why_not =
      changed ? what_if->limits.WhyNot(predictor.model(), *changed) : std::string();
  for (const std::string& limit : {why_not, WhatDoesNotFit(answer.change->memory)}) {
    if (!limit.empty()) answer.limits.push_back(limit);
  }
  return {std::move(answer), {}};
}

std::string WhatIfAsText(const WhatIfAnswer& answer) {
  std::string text;
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "run {}\n", answer.run.substr(0, 8));
  if (!answer.replay.rows.empty()) {
    fmt::format_to(out, "\n{:<26}{:>12}{:>12}\n", "held-out steps", "measured", "replayed");
    for (const ReplayRow& row : answer.replay.rows) {
      fmt::format_to(out, "{:<26}{:>12}{:>12}\n", row.what, Value(row, row.measured),
                     Value(row, row.replayed));
    }
  }
  if (!answer.prediction) {
    fmt::format_to(out, "\nNothing is predicted: {}.\n", answer.refused);
    return text;
  }
  const Prediction& p = *answer.prediction;
  const Recommendation& change = *answer.change;
  fmt::format_to(out, "\nchange    {}  ({})\n", change.change, change.klass);
  fmt::format_to(out,
                 "predicts  step {:.2f} ms -> {:.2f} ms [{:.2f} .. {:.2f}], {:.2f} x the speed "
                 "[{:.2f} .. {:.2f}]\n",
                 answer.step_seconds * 1e3, p.step_seconds * 1e3, p.low * 1e3, p.high * 1e3,
                 p.speedup, p.speedup_low, p.speedup_high);
  const auto pool = [&](const std::string& what, const SimulatedStates& before,
                        const SimulatedStates& after) {
    fmt::format_to(out, "          {:<8} busy {:.1f} % -> {:.1f} %\n", what, before.busy * 100,
                   after.busy * 100);
  };
  pool(answer.producer, p.before.compute, p.after.compute);
  pool(answer.updater, p.before.update, p.after.update);
  if (!change.apply.empty()) fmt::format_to(out, "apply     {}\n", change.apply);
  for (const MemoryEstimate& need : change.memory) {
    fmt::format_to(out, "memory    {}\n", MemoryAsText(need));
  }
  for (const std::string& limit : answer.limits) fmt::format_to(out, "LIMIT     {}\n", limit);
  for (const std::string& value : change.assumed) fmt::format_to(out, "assumed   {}\n", value);
  return text;
}

std::string WhatIfAsJson(const WhatIfAnswer& answer) {
  Json json = {{"schema", "poolscope.what_if/1"},
               {"run", answer.run},
               {"step_seconds", Number(answer.step_seconds)}};
  json["replay"] = Json::array();
  for (const ReplayRow& row : answer.replay.rows) {
    json["replay"].push_back({{"what", row.what},
                              {"measured", Number(row.measured)},
                              {"replayed", Number(row.replayed)}});
  }
  json["replay_error"] =
      answer.replay.step_error ? Number(*answer.replay.step_error) : Json(nullptr);
  json["set"] = Json::object();
  for (const auto& [knob, value] : answer.changes) json["set"][knob] = value;
  if (!answer.prediction) {
    json["prediction"] = nullptr;
    json["abstained"] = answer.refused;
  } else {
    const Prediction& p = *answer.prediction;
    const Recommendation& change = *answer.change;
    json["prediction"] = {
        {"change", change.change},
        {"class", change.klass},
        {"predicted_step_seconds", Number(p.step_seconds)},
        {"interval", Json::array({Number(p.low), Number(p.high)})},
        {"predicted_speedup", Number(p.speedup)},
        {"predicted_tokens_per_second", change.predicted_tokens_per_second > 0
                                            ? Number(change.predicted_tokens_per_second)
                                            : Json(nullptr)},
        {"memory", MemoryAsJson(change.memory)},
        {"limits", answer.limits},
        {"apply", change.apply},
        {"assumed", change.assumed}};
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace poolscope
