#include "collector/mapping_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "trace/session_reader.h"

namespace poolscope {
namespace {

constexpr size_t kNamed = 6;  // of what matched, before "and 12 more"

std::string Counted(int64_t count, const char* one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

std::string Listed(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < std::min(kNamed, names.size()); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ", ", PlainText(names[i]));
  }
  if (names.size() > kNamed) text += fmt::format(" and {} more", names.size() - kNamed);
  return text;
}

std::string Seconds(int64_t ns) { return fmt::format("{:.3f} s", static_cast<double>(ns) * 1e-9); }

struct Use {
  std::vector<std::string> names;  // of what it decided, each once
  int64_t events = 0, total_ns = 0;
  uint32_t taken_by = 0;  // line of an earlier rule that decided all that it matches; 0: none did
};

class Checker {
 public:
  Checker(const Mapping& mapping, const Seen& seen) : mapping_(mapping), seen_(seen) {}

  MappingCheck Run() {
    Say("run {} of {}: {}, {}\n", seen_.run.run_id.substr(0, 8), PlainText(seen_.run.host),
        Counted(static_cast<int64_t>(seen_.processes.size()), "process"),
        Counted(static_cast<int64_t>(seen_.threads.size()), "thread"));
    MatchThreads();
    MatchRanges();
    for (const auto& rule : mapping_.workers()) {
      const Use& use = workers_[&rule];
      Head(rule.line, "worker", rule.text);
      if (use.names.empty()) {
        Nothing(use.taken_by != 0 ? Taken(use) : WhyNoThread(rule));
      } else {
        Say("   {}: {}\n", Counted(static_cast<int64_t>(use.names.size()), "thread"),
            Listed(use.names));
      }
    }
    for (const auto& rule : mapping_.ranges()) {
      const Use& use = ranges_[&rule];
      Head(rule.line, "range", rule.text);
      if (use.names.empty()) {
        Nothing(use.taken_by != 0 ? Taken(use) : "no range or mark is so");
      } else {
        Say("   {} of {}, {}: {}\n", Counted(use.events, "event"),
            Counted(static_cast<int64_t>(use.names.size()), "name"), Seconds(use.total_ns),
            Listed(use.names));
      }
    }
    for (const auto& rule : mapping_.counters()) {
      Head(rule.line, "counter", rule.text);
      int64_t samples = 0;
      for (const auto& counter : seen_.counters) {
        const bool first = mapping_.MatchCounter(counter.domain, counter.name) == &rule;
        if (first) samples += counter.samples;
      }
      if (samples == 0) {
        Nothing("no counter is so, or an earlier line takes it");
      } else {
        Say("   {}\n", Counted(samples, "sample"));
      }
    }
    for (const auto& link : mapping_.links()) CheckLink(link);
    LeftOver();
    if (result_.matched_nothing > 0) {
      Say("\n{} matched nothing\n", Counted(result_.matched_nothing, "rule"));
    }
    return std::move(result_);
  }

 private:
  template <typename... Values>
  void Say(const char* format, const Values&... values) {
    fmt::format_to(std::back_inserter(result_.text), fmt::runtime(format), values...);
  }
  void Head(uint32_t line, const char* kind, const std::string& rule) {
    Say("line {:<4} {:<7} {}\n", line, kind, PlainText(rule));
  }
  void Nothing(const std::string& why) {
    ++result_.matched_nothing;
    Say("   nothing: {}\n", why);
  }
  static std::string Taken(const Use& use) {
    return fmt::format("all that it fits, line {} takes before it", use.taken_by);
  }

  void MatchThreads() {
    for (const auto& [id, thread] : seen_.threads) {
      const Mapping::WorkerRule* decided = nullptr;
      for (const auto& rule : mapping_.workers()) {
        if (!Mapping::Match(rule, thread.facts()).has_value()) continue;
        if (decided == nullptr || !decided->period.always()) {
          decided = &rule;
          workers_[&rule].names.push_back(thread.Title());
        } else if (workers_[&rule].taken_by == 0) {
          workers_[&rule].taken_by = decided->line;
        }
      }
      // What the job says of itself counts before the mapping.
      pools_[id] = thread.annotated ? thread.row.pool : decided != nullptr ? decided->pool : "";
      if (pools_[id].empty()) left_threads_.push_back(&thread);
    }
  }

  void MatchRanges() {
    std::map<const Mapping::RangeRule*, std::set<std::string>> names;
    std::map<std::string, Use> left;
    for (const auto& range : seen_.ranges) {
      const std::string& pool = pools_[range.thread->row.thread_id];
      const RangeFacts facts = range.facts(pool);
      const Mapping::RangeRule* decided[2] = {nullptr, nullptr};  // its meaning, and its step
      for (const auto& rule : mapping_.ranges()) {
        if (!Mapping::Match(rule, facts)) continue;
        Use& use = ranges_[&rule];
        const Mapping::RangeRule*& by = decided[rule.is_step()];
        if (by != nullptr) {
          if (use.taken_by == 0) use.taken_by = by->line;
          continue;
        }
        by = &rule;
        if (names[&rule].insert(range.name).second) use.names.push_back(range.name);
        use.events += range.events;
        use.total_ns += range.total_ns;
      }
      const bool lane = range.thread->lane.has_value();  // what its kernels mean is known
      if (decided[0] != nullptr || pool.empty() || lane) continue;
      Use& use = left[range.name];
      use.events += range.events;
      use.total_ns += range.total_ns;
    }
    for (const auto& [name, use] : left) left_ranges_.emplace_back(use.total_ns, name);
    std::sort(left_ranges_.rbegin(), left_ranges_.rend());
  }

  std::string WhyNoThread(const Mapping::WorkerRule& rule) const {
    const auto none = [&](const auto& fits) {
      return std::none_of(seen_.processes.begin(), seen_.processes.end(),
                          [&](const auto& entry) { return fits(entry.second.facts); });
    };
    if ((!rule.rank.any() || !rule.env.empty()) &&
        none([](const ProcessFacts& facts) { return facts.environment_known(); })) {
      return "no process's environment was read (they had ended, or are another user's)";
    }
    if (!rule.rank.any() &&
        none([](const ProcessFacts& facts) { return facts.Rank().has_value(); })) {
      return "no process has a rank in its environment";
    }
    for (const auto& [name, pattern] : rule.env) {
      if (none([&, &name = name](const ProcessFacts& facts) {
            return facts.Variable(name) != nullptr;
          })) {
        return fmt::format(
            "of no process {} is known: not set, or not named by the mapping that "
            "the run was collected with",
            name);
      }
    }
    const auto lane = [&](LaneKind kind) {
      return std::any_of(seen_.threads.begin(), seen_.threads.end(), [&](const auto& entry) {
        return entry.second.lane.has_value() && entry.second.lane->kind == kind;
      });
    };
    if ((!rule.device.any() || !rule.stream.any()) && !lane(LaneKind::kDeviceStream)) {
      return "no device's stream was recorded";
    }
    if (!rule.communicator.empty() && !lane(LaneKind::kCommunicator)) {
      return "no communicator of NCCL was recorded";
    }
    return "no thread is so";
  }

  void CheckLink(const Mapping::Link& link) {
    Head(link.line, "link", fmt::format("{}: {} -> {}", link.name, link.from, link.to));
    for (const std::string& end : {link.from, link.to}) {
      const bool known = std::any_of(pools_.begin(), pools_.end(),
                                     [&](const auto& entry) { return entry.second == end; });
      if (!known) return Nothing(fmt::format("no thread works for pool {}", end));
    }
    const auto rule =
        std::find_if(mapping_.ranges().begin(), mapping_.ranges().end(),
                     [&](auto& r) { return r.link == link.name && !ranges_[&r].names.empty(); });
    if (rule != mapping_.ranges().end()) return Say("   by line {}\n", rule->line);
    const bool marked = std::any_of(seen_.links.begin(), seen_.links.end(),
                                    [&](const LinkRow& row) { return row.link == link.name; });
    const bool annotated = std::any_of(seen_.threads.begin(), seen_.threads.end(),
                                       [](const auto& entry) { return entry.second.annotated; });
    if (marked && annotated) return Say("   marked by the job itself\n");
    Nothing("no [[range]] of it matched anything");
  }

  // Links that rules name and nobody says what they join: nothing of them can be attributed.
  std::vector<std::string> LinksUnknown() const {
    std::set<std::string> unknown;
    for (const auto& rule : mapping_.ranges()) unknown.insert(rule.link);
    unknown.erase("");
    for (const auto& link : mapping_.links()) unknown.erase(link.name);
    // A mapping that the run was collected with left a row without pools.
    for (const LinkRow& row : seen_.links) {
      if (!row.from_pool.empty()) unknown.erase(row.link);
    }
    return {unknown.begin(), unknown.end()};
  }

  void LeftOver() {
    const std::vector<std::string> links = LinksUnknown();
    if (left_threads_.empty() && left_ranges_.empty() && links.empty()) return;
    Say("\nleft over\n");
    if (!links.empty()) {
      Say("   {} that no [[link]] says the pools of: {}\n",
          Counted(static_cast<int64_t>(links.size()), "link"), Listed(links));
    }
    std::sort(left_threads_.begin(), left_threads_.end(),
              [](const auto* a, const auto* b) { return a->ranges_ns > b->ranges_ns; });
    std::vector<std::string> names;
    for (const Seen::Thread* thread : left_threads_) names.push_back(thread->Title());
    if (!names.empty()) {
      Say("   {} of no pool: {}\n", Counted(static_cast<int64_t>(names.size()), "thread"),
          Listed(names));
    }
    names.clear();
    for (const auto& [ns, name] : left_ranges_) {
      names.push_back(fmt::format("{} ({})", name, Seconds(ns)));
    }
    if (!names.empty()) {
      Say("   {} on workers' threads that no rule gives a meaning: {}\n",
          Counted(static_cast<int64_t>(names.size()), "name"), Listed(names));
    }
  }

  const Mapping& mapping_;
  const Seen& seen_;
  MappingCheck result_;
  std::map<const Mapping::WorkerRule*, Use> workers_;
  std::map<const Mapping::RangeRule*, Use> ranges_;
  std::map<int64_t, std::string> pools_;  // by thread
  std::vector<const Seen::Thread*> left_threads_;
  std::vector<std::pair<int64_t, std::string>> left_ranges_;
};

}  // namespace

MappingCheck CheckMapping(const Mapping& mapping, const Seen& seen) {
  return Checker(mapping, seen).Run();
}

}  // namespace poolscope
