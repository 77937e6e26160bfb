#include "collector/mapping.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "collector/glob.h"

namespace poolscope {
namespace {

// The index that the last * of a thread's name matched; -1: it is no number.
int64_t Index(std::string_view text) {
  int64_t index = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  return error == std::errc() && end == text.data() + text.size() && index >= 0 ? index : -1;
}

}  // namespace

std::optional<Mapping::WorkerMatch> Mapping::Match(const WorkerRule& rule,
                                                   const ThreadFacts& facts) {
  std::string_view star;
  if (!GlobMatch(rule.thread, facts.thread, &star) ||
      !GlobMatch(rule.process, facts.process.command) ||
      !GlobMatch(rule.host, facts.process.host)) {
    return std::nullopt;
  }
  const auto lane = [&](LaneKind kind) {
    return facts.lane.has_value() && facts.lane->kind == kind;
  };
  if (!rule.communicator.empty() &&
      !(lane(LaneKind::kCommunicator) && GlobMatch(rule.communicator, facts.lane->communicator))) {
    return std::nullopt;
  }
  if (!rule.device.any() || !rule.stream.any()) {
    if (!lane(LaneKind::kDeviceStream)) return std::nullopt;
    if (!rule.device.any() && !rule.device.Contains(facts.lane->device)) return std::nullopt;
    if (!rule.stream.any() && !rule.stream.Contains(facts.lane->number)) return std::nullopt;
  }
  for (const auto& [name, pattern] : rule.env) {
    const std::string* value = facts.process.Variable(name);
    if (value == nullptr || !GlobMatch(pattern, *value)) return std::nullopt;
  }
  WorkerMatch match{&rule, -1};
  if (!rule.rank.any()) {
    const auto rank = facts.process.Rank();
    const auto place = rank.has_value() ? rule.rank.PlaceOf(*rank) : std::nullopt;
    if (!place.has_value()) return std::nullopt;
    if (rule.index == WorkerRule::Index::kRank) match.index = static_cast<int64_t>(*place);
  }
  if (rule.index == WorkerRule::Index::kNumber) match.index = rule.number;
  if (rule.index == WorkerRule::Index::kStar) match.index = Index(star);
  if (rule.index == WorkerRule::Index::kDevice) {
    match.index = static_cast<int64_t>(facts.lane->device & INT64_MAX);
  }
  if (match.index < 0 && rule.index != WorkerRule::Index::kNextFree) return std::nullopt;
  return match;
}

std::vector<Mapping::WorkerMatch> Mapping::MatchWorkers(const ThreadFacts& facts) const {
  std::vector<WorkerMatch> matches;
  for (const WorkerRule& rule : workers_) {
    const auto match = Match(rule, facts);
    if (!match.has_value()) continue;
    matches.push_back(*match);
    if (rule.period.always()) break;
  }
  return matches;
}

bool Mapping::has_periods() const {
  return std::any_of(workers_.begin(), workers_.end(),
                     [](const WorkerRule& rule) { return !rule.period.always(); });
}

std::vector<int64_t> Mapping::VersionBounds() const {
  std::vector<int64_t> bounds;
  for (const WorkerRule& rule : workers_) {
    if (rule.period.from_version > 0) bounds.push_back(rule.period.from_version);
    if (rule.period.until_version < INT64_MAX) bounds.push_back(rule.period.until_version);
  }
  return bounds;
}

bool Mapping::Match(const RangeRule& rule, const RangeFacts& facts) {
  const bool named =
      rule.copies.empty()
          ? GlobMatch(rule.name, facts.name)
          : std::any_of(rule.copies.begin(), rule.copies.end(),
                        [&](const auto& copy) { return GlobMatch(copy, facts.name); });
  return named && GlobMatch(rule.domain, facts.domain) &&
         GlobMatch(rule.category, facts.category) && GlobMatch(rule.thread, facts.thread) &&
         GlobMatch(rule.pool, facts.pool) && GlobMatch(rule.communicator, facts.communicator);
}

const Mapping::RangeRule* Mapping::MatchRange(const RangeFacts& facts) const {
  for (const RangeRule& rule : ranges_) {
    if (!rule.is_step() && Match(rule, facts)) return &rule;
  }
  return nullptr;
}

const Mapping::RangeRule* Mapping::MatchStep(const RangeFacts& facts) const {
  for (const RangeRule& rule : ranges_) {
    if (rule.is_step() && Match(rule, facts)) return &rule;
  }
  return nullptr;
}

const Mapping::CounterRule* Mapping::MatchCounter(std::string_view domain,
                                                  std::string_view name) const {
  for (const CounterRule& rule : counters_) {
    if (GlobMatch(rule.domain, domain) && GlobMatch(rule.name, name)) return &rule;
  }
  return nullptr;
}

const Mapping::Link* Mapping::FindLink(std::string_view name) const {
  for (const Link& link : links_) {
    if (link.name == name) return &link;
  }
  return nullptr;
}

bool Mapping::ranges_by_thread() const {
  return std::any_of(ranges_.begin(), ranges_.end(), [](const RangeRule& rule) {
    return rule.thread != "*" || rule.pool != "*" || rule.communicator != "*";
  });
}

std::vector<std::string> Mapping::Variables() const {
  std::vector<std::string> names;
  for (const WorkerRule& rule : workers_) {
    for (const auto& [name, pattern] : rule.env) names.push_back(name);
  }
  return names;
}

std::vector<std::string> CopyNames(std::string_view direction) {
  static constexpr std::array<std::string_view, 8> kKinds = {
      "pageable", "pinned", "host", "device", "array", "managed", "peer", "*"};
  constexpr std::string_view kTo = " to ";
  const size_t at = direction.find(kTo);
  if (at == std::string_view::npos) return {};
  const std::string_view from = direction.substr(0, at);
  const std::string_view to = direction.substr(at + kTo.size());
  const auto known = [](std::string_view kind) {
    return std::find(kKinds.begin(), kKinds.end(), kind) != kKinds.end();
  };
  if (!known(from) || !known(to)) return {};
  const auto alternatives = [](std::string_view kind) {
    return kind == "host" ? std::vector<std::string_view>{"pageable", "pinned"}
                          : std::vector<std::string_view>{kind};
  };
  std::vector<std::string> names;
  for (const std::string_view source : alternatives(from)) {
    for (const std::string_view target : alternatives(to)) {
      names.push_back(std::string("copy ").append(source).append(kTo).append(target));
    }
  }
  return names;
}

}  // namespace poolscope
