#include "advisor/rules/rule.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace poolscope {
namespace {

constexpr double kCriticalSpeedup = 1.5;
constexpr double kEqualGain = 0.02;  // gains closer than this are equal: the simpler change first

double Gain(const Finding& finding) {
  return finding.recommendation ? finding.recommendation->predicted_speedup - 1 : 0;
}

// How much a change takes: a flag that costs nothing, one that costs precision, new groups.
int Simplicity(const Finding& finding) {
  if (!finding.recommendation) return 9;
  if (finding.recommendation->klass == "changes training") return 8;
  if (finding.recommendation->kind == "buffer_depth") return 0;
  return finding.recommendation->kind == "compression" ? 1 : 2;
}

int SeverityRank(const Finding& finding) {
  return finding.severity == "critical" ? 0 : finding.severity == "warning" ? 1 : 2;
}

}  // namespace

std::string Percent(double share) { return fmt::format("{:.1f} %", share * 100); }

void Conclude(Finding& finding, const RuleInput& input, const Option* option) {
  finding.severity = "note";
  if (!input.span.abstain.empty()) {
    finding.abstained = input.span.abstain;
  } else if (option != nullptr && option->recommendation) {
    finding.recommendation = option->recommendation;
    finding.severity =
        option->recommendation->predicted_speedup >= kCriticalSpeedup ? "critical" : "warning";
  } else if (!input.advice.replay_note.empty()) {
    finding.abstained = input.advice.replay_note;
  } else if (option != nullptr && !option->why_not.empty()) {
    finding.abstained = option->why_not;
  } else {
    finding.abstained = "no change of this kind was tried";
  }
  if (option != nullptr && !option->no_memory.empty() && finding.abstained != option->no_memory) {
    finding.evidence.push_back({.text = "left out, " + option->no_memory,
                                .subject = finding.subject,
                                .begin_ns = input.span.begin_ns,
                                .end_ns = input.span.end_ns,
                                .numbers = {}});
  }
}

Finding Abstain(const std::string& rule, const RuleInput& input) {
  Finding finding;
  finding.rule = rule;
  finding.severity = "note";
  finding.summary = "not judged, " + input.span.abstain;
  finding.abstained = input.span.abstain;
  finding.evidence.push_back({.text = "events are missing",
                              .subject = "",
                              .begin_ns = input.span.begin_ns,
                              .end_ns = input.span.end_ns,
                              .numbers = {}});
  return finding;
}

std::vector<Finding> RunRules(const RuleInput& input) {
  std::vector<Finding> findings;
  for (const auto rule : {PoolImbalance, ExposedTraffic, BufferTooShallow, CheckpointStalls}) {
    for (Finding& finding : rule(input)) findings.push_back(std::move(finding));
  }
  // By gain, then the nearly equal ones from the simplest on: a change of training never first.
  std::stable_sort(findings.begin(), findings.end(), [](const Finding& a, const Finding& b) {
    return std::make_tuple(SeverityRank(a) == 2, -Gain(a)) <
           std::make_tuple(SeverityRank(b) == 2, -Gain(b));
  });
  size_t equal = 1;
  while (equal < findings.size() && findings[equal].recommendation &&
         Gain(findings[0]) - Gain(findings[equal]) < kEqualGain) {
    ++equal;
  }
  if (equal <= findings.size()) {
    std::stable_sort(
        findings.begin(), findings.begin() + static_cast<std::ptrdiff_t>(equal),
        [](const Finding& a, const Finding& b) { return Simplicity(a) < Simplicity(b); });
  }
  const auto first_kept =
      std::find_if(findings.begin(), findings.end(), [](const Finding& finding) {
        return finding.recommendation && finding.recommendation->klass != "changes training";
      });
  if (first_kept != findings.end()) std::rotate(findings.begin(), first_kept, first_kept + 1);
  if (input.advice.together && !findings.empty() && findings[0].recommendation) {
    const Together& together = *input.advice.together;
    findings[0].evidence.push_back(
        {.text = fmt::format(
             "made together, {} should bring the step to {:.1f} ms [{:.1f} .. {:.1f}]",
             together.change, together.step_seconds * 1e3, together.low * 1e3, together.high * 1e3),
         .subject = findings[0].subject,
         .begin_ns = input.span.begin_ns,
         .end_ns = input.span.end_ns,
         .numbers = {{"together_step_seconds", together.step_seconds}}});
  }
  return findings;
}

}  // namespace poolscope
