#include "collector/mapping_suggest.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <map>
#include <set>

#include "trace/session_reader.h"

namespace poolscope {
namespace {

constexpr size_t kMostRules = 40;     // of ranges
constexpr double kLeastShare = 0.01;  // of the run's time, for a range to be worth a rule

// Words that projects use in the names of threads, processes and ranges, in lower case. The first
// that stands in a name decides.
struct Hint {
  std::string_view word, meaning;
};
constexpr Hint kPoolHints[] = {
    {"rollout", "rollout"}, {"vllm", "rollout"},    {"sglang", "rollout"},
    {"generat", "rollout"}, {"sampler", "rollout"}, {"inference", "rollout"},
    {"update", "update"},   {"optim", "update"},    {"server", "update"},
    {"learner", "trainer"}, {"trainer", "trainer"}, {"actor", "trainer"},
    {"compute", "compute"}, {"worker", "compute"},  {"train", "compute"},
    {"rank", "compute"}};
constexpr Hint kRangeHints[] = {{"load", "input"},
                                {"batch_fetch", "input"},
                                {"data", "input"},
                                {"tokeniz", "input"},
                                {"checkpoint", "other_work"},
                                {"save", "other_work"},
                                {"eval", "other_work"},
                                {"validat", "other_work"},
                                {"warmup", "phase"},
                                {"compile", "phase"},
                                {"allreduce", "wait_peer"},
                                {"all_reduce", "wait_peer"},
                                {"allgather", "wait_peer"},
                                {"all_gather", "wait_peer"},
                                {"reduce_scatter", "wait_peer"},
                                {"reducescatter", "wait_peer"},
                                {"barrier", "wait_peer"},
                                {"broadcast", "wait_peer"},
                                {"forward", "work"},
                                {"backward", "work"},
                                {"fwd", "work"},
                                {"bwd", "work"},
                                {"optim", "work"},
                                {"adam", "work"},
                                {"step", "work"},
                                {"generat", "work"},
                                {"rollout", "work"},
                                {"update_", "work"},
                                {"compute", "work"},
                                {"loss", "work"},
                                {"train", "work"}};
// Ranges that a link's rules need a person for.
constexpr Hint kLinkHints[] = {
    {"send", "wire"},       {"push", "wire"},         {"upload", "wire"},
    {"offload", "wire"},    {"recv", "wait_link"},    {"receive", "wait_link"},
    {"pull", "wait_link"},  {"wait", "wait_link"},    {"queue", "wait_link"},
    {"compress", "encode"}, {"encode", "encode"},     {"decompress", "decode"},
    {"decode", "decode"},   {"sync_weights", "wire"}, {"weight_sync", "wire"}};

template <size_t kCount>
std::string_view Guess(const Hint (&hints)[kCount], std::string_view name) {
  std::string lower(name);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const Hint& hint : hints) {
    if (lower.find(hint.word) != std::string::npos) return hint.meaning;
  }
  return "";
}

// "worker *" for "worker 12": each run of digits becomes a *.
std::string Pattern(std::string_view name) {
  std::string pattern;
  for (const char c : name) {
    const bool digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
    if (!digit) {
      pattern += c;
    } else if (pattern.empty() || pattern.back() != '*') {
      pattern += '*';
    }
  }
  return pattern;
}

// As a TOML text.
std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      quoted += '?';  // which any one character matches
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

class Suggestion {
 public:
  explicit Suggestion(const Seen& seen) : seen_(seen) {}

  std::string Write() {
    Say("# A mapping for what run {} recorded, to be completed: docs/mapping.md says what each "
        "key\n"
        "# means. Try it with: poolscope pools check THIS-FILE STORE\n",
        seen_.run.run_id.substr(0, 8));
    Processes();
    Workers();
    Devices();
    Communicators();
    Ranges();
    return std::move(text_);
  }

 private:
  template <typename... Values>
  void Say(const char* format, const Values&... values) {
    fmt::format_to(std::back_inserter(text_), fmt::runtime(format), values...);
  }

  void Processes() {
    Say("\n# Processes:\n");
    for (const auto& [session, process] : seen_.processes) {
      const auto rank = process.facts.Rank();
      Say("#   pid {} on {}{}: {}\n", process.row.pid, PlainText(process.row.host),
          rank.has_value() ? fmt::format(", rank {}", *rank) : "",
          PlainText(process.row.command.substr(0, 100)));
    }
  }

  // Threads that no annotation makes workers, by the pattern of their names.
  void Workers() {
    struct Group {
      std::set<std::string> names;
      std::set<const Seen::Process*> processes;
      std::set<uint64_t> ranks;
      int64_t ranges_ns = 0;
      std::string command;
    };
    std::map<std::string, Group> groups;
    std::vector<std::string> annotated;
    for (const auto& [id, thread] : seen_.threads) {
      if (thread.lane.has_value()) continue;
      if (thread.annotated && !thread.row.pool.empty()) {
        annotated.push_back(thread.row.name);
        continue;
      }
      if (thread.events == 0) continue;
      Group& group = groups[Pattern(thread.row.name)];
      group.names.insert(thread.row.name);
      group.processes.insert(thread.process);
      group.command = thread.process->row.command;
      if (const auto rank = thread.process->facts.Rank()) group.ranks.insert(*rank);
      group.ranges_ns += thread.ranges_ns;
    }
    if (!annotated.empty()) {
      Say("\n# {} thread{} say themselves which worker they are ({}, ...): no rule is needed.\n",
          annotated.size(), annotated.size() == 1 ? "" : "s", PlainText(annotated.front()));
    }
    for (const auto& [pattern, group] : groups) {
      std::string_view pool = Guess(kPoolHints, pattern);
      if (pool.empty()) pool = Guess(kPoolHints, group.command);
      Say("\n# {} thread{} of {} process{}, {:.3f} s in ranges.{}\n[[worker]]\n",
          group.names.size(), group.names.size() == 1 ? "" : "s", group.processes.size(),
          group.processes.size() == 1 ? "" : "es", static_cast<double>(group.ranges_ns) * 1e-9,
          pool.empty() ? " Which pool?" : "");
      const bool by_rank = group.ranks.size() > 1 && group.ranks.size() == group.processes.size();
      const bool numbered = pattern.find('*') != std::string::npos && group.names.size() > 1;
      if (by_rank) {
        Say("rank = {}   # split it where some ranks belong to another pool\n",
            Quoted(fmt::format("{}-{}", *group.ranks.begin(), *group.ranks.rbegin())));
      }
      if (!pattern.empty()) {
        Say("thread = {}\n", Quoted(pattern));
      } else if (!by_rank) {
        Say("process = {}\n", Quoted(group.command));
      }
      Say("pool = {}\n", Quoted(pool.empty() ? "compute" : pool));
      if (numbered && !by_rank && pattern.back() == '*') Say("index = \"*\"\n");
    }
  }

  void Devices() {
    std::map<uint64_t, std::set<uint64_t>> streams;  // by device
    for (const auto& [id, thread] : seen_.threads) {
      if (thread.lane.has_value() && thread.lane->kind == LaneKind::kDeviceStream) {
        streams[thread.lane->device].insert(thread.lane->number);
      }
    }
    if (streams.empty()) return;
    Say("\n# Devices. Their streams belong to the worker whose thread launched; a rule is needed "
        "only\n"
        "# where that is not so.\n");
    for (const auto& [device, numbers] : streams) {
      Say("#   device {}: stream{} {}\n", device, numbers.size() == 1 ? "" : "s",
          fmt::join(numbers, ", "));
    }
    Say("# [[worker]]\n# device = {}\n# pool = \"rollout\"\n", streams.begin()->first);
  }

  void Communicators() {
    std::map<std::string, std::set<uint64_t>> ranks;  // by communicator
    for (const auto& [id, thread] : seen_.threads) {
      if (thread.lane.has_value() && thread.lane->kind == LaneKind::kCommunicator) {
        ranks[thread.lane->communicator].insert(thread.lane->number);
      }
    }
    if (ranks.empty()) return;
    Say("\n# Communicators of NCCL. Of one that joins two pools, say which link it is.\n");
    for (const auto& [name, numbers] : ranks) {
      Say("#   {}: {} rank{} seen\n", PlainText(name), numbers.size(),
          numbers.size() == 1 ? "" : "s");
    }
    Say("# [[range]]\n# domain = \"nccl\"\n# communicator = {}\n# means = \"wire\"\n"
        "# link = \"weights\"\n",
        PlainText(Quoted(ranks.begin()->first)));
  }

  void Ranges() {
    struct Kind {
      int64_t events = 0, total_ns = 0;
    };
    std::map<std::pair<std::string, std::string>, Kind> kinds;  // domain, pattern of the name
    for (const Seen::Range& range : seen_.ranges) {
      if (range.thread->lane.has_value()) continue;
      Kind& kind = kinds[{range.domain, Pattern(range.name)}];
      kind.events += range.events;
      kind.total_ns += range.total_ns;
    }
    std::vector<std::pair<int64_t, std::pair<std::string, std::string>>> longest;
    for (const auto& [key, kind] : kinds) longest.emplace_back(kind.total_ns, key);
    std::sort(longest.rbegin(), longest.rend());
    const auto run_ns = static_cast<double>(seen_.run.end_ns - seen_.run.start_ns);
    size_t written = 0;
    if (!longest.empty()) Say("\n# Ranges, those of most time first.\n");
    for (const auto& [ns, key] : longest) {
      const Kind& kind = kinds[key];
      if (written == kMostRules ||
          (static_cast<double>(ns) < kLeastShare * run_ns && written > 0)) {
        Say("\n# {} more kinds of range or mark take less time.\n", longest.size() - written);
        break;
      }
      ++written;
      const std::string_view link_meaning = Guess(kLinkHints, key.second);
      std::string_view meaning = Guess(kRangeHints, key.second);
      const bool to_complete = meaning.empty() || !link_meaning.empty();
      if (!link_meaning.empty()) meaning = link_meaning;
      const char* const comment = to_complete ? "# " : "";
      Say("\n# {} event{}, {:.3f} s.{}\n", kind.events, kind.events == 1 ? "" : "s",
          static_cast<double>(ns) * 1e-9,
          !link_meaning.empty() ? " Of which link?"
          : meaning.empty()     ? " What does it mean?"
                                : "");
      Say("{}[[range]]\n", comment);
      if (!key.first.empty()) Say("{}domain = {}\n", comment, Quoted(key.first));
      Say("{}name = {}\n{}means = {}\n", comment, Quoted(key.second), comment,
          Quoted(meaning.empty() ? "work" : meaning));
      if (!link_meaning.empty()) Say("{}link = \"gradients\"\n", comment);
    }
    const bool links = std::any_of(longest.begin(), longest.end(), [](const auto& entry) {
      return !Guess(kLinkHints, entry.second.second).empty();
    });
    if (!links) return;
    Say("\n# [[link]]\n# name = \"gradients\"\n# from = \"compute\"\n# to = \"update\"\n");
  }

  const Seen& seen_;
  std::string text_;
};

}  // namespace

std::string SuggestMapping(const Seen& seen) { return Suggestion(seen).Write(); }

}  // namespace poolscope
