#include <fmt/format.h>

#include "advisor/rules/rule.h"

namespace poolscope {
namespace {

constexpr double kBlockedShare = 0.03;

}  // namespace

std::vector<Finding> BufferTooShallow(const RuleInput& input) {
  std::vector<Finding> findings;
  for (size_t i = 0; i < input.totals.links.size(); ++i) {
    const LinkTotals& link = input.totals.links[i];
    const LinkRow& ends = input.run.links[i];
    if (link.end_ns <= link.begin_ns) continue;
    if (input.span.lossy) return {Abstain("buffer_too_shallow", input)};
    if (link.blocked_share <= kBlockedShare) continue;

    Finding finding;
    finding.rule = "buffer_too_shallow";
    finding.subject = link.link;
    const int64_t capacity = link.capacity > 0 ? link.capacity : ends.capacity;
    finding.evidence.push_back(
        {.text = fmt::format("{} stood blocked on full buffers of {} {} of its time; they held "
                             "{:.1f} of {} messages on average",
                             ends.from_pool, link.link, Percent(link.blocked_share),
                             link.depth_mean, capacity),
         .subject = link.link,
         .begin_ns = link.begin_ns,
         .end_ns = link.end_ns,
         .numbers = {{"blocked_share", link.blocked_share},
                     {"depth_messages", link.depth_mean},
                     {"capacity_messages", static_cast<double>(capacity)}}});
    const auto option = input.advice.buffer_depth.find(link.link);
    Conclude(finding, input, option == input.advice.buffer_depth.end() ? nullptr : &option->second);
    finding.summary = fmt::format(
        "{}: {} stood blocked on full buffers {} of its time",
        finding.recommendation ? "the buffers of " + link.link + " are too shallow" : link.link,
        ends.from_pool, Percent(link.blocked_share));
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace poolscope
