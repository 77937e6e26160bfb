#include <fmt/format.h>

#include <algorithm>

#include "advisor/rules/rule.h"

namespace poolscope {
namespace {

constexpr double kTrafficShare = 0.15;
constexpr double kExposedShare = 0.10;
// Of the receivers' time alone: a small pool that waits counts little in the exposed share.
constexpr double kReceiversShare = 0.25;

}  // namespace

std::vector<Finding> ExposedTraffic(const RuleInput& input) {
  std::vector<Finding> findings;
  for (size_t i = 0; i < input.totals.links.size(); ++i) {
    const LinkTotals& link = input.totals.links[i];
    const LinkRow& ends = input.run.links[i];
    if (link.end_ns <= link.begin_ns) continue;
    if (ends.from_pool == ends.to_pool) continue;  // what goes on inside a pool crosses none
    if (input.span.lossy) return {Abstain("exposed_traffic", input)};
    const double of_link = std::max(0.0, link.own_wait_share());
    if (link.traffic_share <= kTrafficShare && link.exposed_share <= kExposedShare &&
        of_link <= kReceiversShare) {
      continue;
    }

    Finding finding;
    finding.rule = "exposed_traffic";
    finding.subject = link.link;
    finding.evidence.push_back(
        {.text =
             fmt::format("a worker of {} was encoding, on the wire or decoding {} of its time; "
                         "workers waited because of the link {} of theirs",
                         ends.from_pool, Percent(link.traffic_share), Percent(link.exposed_share)),
         .subject = link.link,
         .begin_ns = link.begin_ns,
         .end_ns = link.end_ns,
         .numbers = {{"traffic_share", link.traffic_share},
                     {"exposed_share", link.exposed_share},
                     {"queued_seconds", link.stage_seconds[0]},
                     {"wire_seconds", link.stage_seconds[2]}}});
    if (link.wait_share > 0.01) {
      std::string text = fmt::format(
          "{} waited for {} {} of its time: {} because of the link, {} while {} was still "
          "computing",
          ends.to_pool, link.link, Percent(link.wait_share), Percent(of_link),
          Percent(link.upstream_busy_share), ends.from_pool);
      if (link.unattributed_share > 0.005) {
        text += fmt::format(", {} for messages not known", Percent(link.unattributed_share));
      }
      finding.evidence.push_back({.text = std::move(text),
                                  .subject = link.link,
                                  .begin_ns = link.begin_ns,
                                  .end_ns = link.end_ns,
                                  .numbers = {{"wait_share", link.wait_share},
                                              {"upstream_busy_share", link.upstream_busy_share},
                                              {"unattributed_share", link.unattributed_share}}});
    }
    const auto option = input.advice.compression.find(link.link);
    Conclude(finding, input, option == input.advice.compression.end() ? nullptr : &option->second);
    finding.summary =
        fmt::format("{} traffic: {} of the senders' time on it, {} exposed", link.link,
                    Percent(link.traffic_share), Percent(link.exposed_share));
    if (finding.recommendation) {
      // A link that makes nobody wait may still hold up credits or age gradients.
      const bool held_up = link.exposed_share > kExposedShare || of_link > kReceiversShare;
      const std::string& gain_from = option->second.gain_from;
      if (held_up) {
        finding.summary = "too much " + finding.summary;
      } else if (!gain_from.empty()) {
        finding.summary += "; less of it would save " + gain_from;
      }
      if (!gain_from.empty()) {
        finding.evidence.push_back(
            {.text = fmt::format("the gain: per step, a worker of {} would save {}",
                                 input.advice.producer, gain_from),
             .subject = link.link,
             .begin_ns = link.begin_ns,
             .end_ns = link.end_ns,
             .numbers = {}});
      }
    }
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace poolscope
