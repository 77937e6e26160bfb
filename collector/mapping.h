#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collector/number_set.h"
#include "collector/process_facts.h"
#include "trace/event.h"
#include "trace/result.h"

namespace poolscope {

// What is known of a thread, or of a lane, before its events are looked at.
struct ThreadFacts {
  std::string_view thread;  // its name
  const ProcessFacts& process;
  std::optional<Lane> lane;
};

// What is known of an event.
struct RangeFacts {
  std::string_view domain, category, name;
  std::string_view thread, pool;  // whose it is
  std::string_view communicator;  // of NCCL, "" elsewhere
};

// Which threads do which pool's work, which ranges mean work, waits or transfers, and which links
// there are, for jobs that do not mark themselves with annotate.h. Format: docs/mapping.md.
class Mapping {
 public:
  // A preset's name or the path of a TOML file; "" maps nothing.
  // Errors name the file, the line, and the nearest known key.
  static Result<Mapping> Load(const std::string& preset_or_path);
  static Result<Mapping> Parse(std::string_view toml, const std::string& name);

  // When a rule holds: from the first to before the last, versions of the weights and times since
  // the run's start.
  struct Period {
    int64_t from_version = 0, until_version = INT64_MAX;
    int64_t from_ns = 0, until_ns = INT64_MAX;
    bool always() const {
      return from_version == 0 && from_ns == 0 && until_version == INT64_MAX &&
             until_ns == INT64_MAX;
    }
  };

  struct WorkerRule {
    uint32_t line = 0;
    std::string text;  // its keys on one line
    std::string thread = "*", process = "*", host = "*";
    std::string communicator;                              // "": no communicator is asked for
    std::vector<std::pair<std::string, std::string>> env;  // name, pattern of its value
    NumberSet rank, device, stream;
    Period period;
    std::string pool, role;
    // kRank: the place of the process's rank in `rank`; kStar: what the thread's last * matched.
    enum class Index { kNextFree, kNumber, kStar, kRank, kDevice } index = Index::kNextFree;
    int64_t number = -1;  // kNumber
    bool of_lanes() const { return !device.any() || !stream.any() || !communicator.empty(); }
    bool per_thread =
        true;  // false: the process's threads, or its lanes of a device, are one worker
  };
  struct WorkerMatch {
    const WorkerRule* rule = nullptr;
    int64_t index = -1;  // -1: the next free one
  };
  // The rules that match, in order, up to the first that always holds.
  std::vector<WorkerMatch> MatchWorkers(const ThreadFacts& facts) const;
  // Whether some rule holds but for a time, and the versions at which one begins or ends to hold.
  bool has_periods() const;
  std::vector<int64_t> VersionBounds() const;
  static std::optional<WorkerMatch> Match(const WorkerRule& rule, const ThreadFacts& facts);

  // Fields that a rule can give its events: a number, or the name of a payload field ("value": the
  // plain payload of NVTX).
  enum class Field : size_t {
    kStep,
    kMicroBatch,
    kVersion,
    kAppliedVersion,
    kSource,
    kDestination,
    kSequence,
    kRawBytes,
    kWireBytes,
    kTokens,
    kMicroBatches,
    kLoss,
    kCount
  };
  struct Value {
    std::optional<double> constant;
    std::string field;
    bool given() const { return constant.has_value() || !field.empty(); }
  };

  struct RangeRule {
    uint32_t line = 0;
    std::string text;  // its keys on one line
    std::string domain = "*", category = "*", name = "*", thread = "*", pool = "*";
    std::string communicator = "*";
    std::vector<std::string> copies;  // names of cuda's copies, instead of `name`
    std::string means;
    Category category_meant = Category::kNone;
    Stage stage = Stage::kQueued;
    std::string link;
    std::array<Value, static_cast<size_t>(Field::kCount)> values;
    bool is_step() const { return category_meant == Category::kStep; }
    const Value& value(Field field) const { return values[static_cast<size_t>(field)]; }
  };
  // The first rule that gives it a meaning, and the first that makes its end a step; null: none.
  const RangeRule* MatchRange(const RangeFacts& facts) const;
  const RangeRule* MatchStep(const RangeFacts& facts) const;
  static bool Match(const RangeRule& rule, const RangeFacts& facts);

  struct Link {
    uint32_t line = 0;
    std::string name, from, to;
    int64_t capacity = 0;
    int64_t lanes = 1;
    bool direct = false;  // nothing queues: a message is on the wire when it is handed over
  };

  // Counters that mean what annotate.h's of the name do: "<link>.depth", "<pool>.occupancy".
  struct CounterRule {
    uint32_t line = 0;
    std::string text;
    std::string domain = "*", name = "*";
    std::string means;
  };
  const CounterRule* MatchCounter(std::string_view domain, std::string_view name) const;

  const std::vector<WorkerRule>& workers() const { return workers_; }
  const std::vector<RangeRule>& ranges() const { return ranges_; }
  const std::vector<Link>& links() const { return links_; }
  const std::vector<CounterRule>& counters() const { return counters_; }
  const Link* FindLink(std::string_view name) const;  // null: not described
  // Facts of pools and knobs of the run, for the what-if.
  const std::vector<std::pair<std::string, std::string>>& settings() const { return settings_; }
  bool has_ranges() const { return !ranges_.empty(); }
  // Whether what a range means depends on whose it is.
  bool ranges_by_thread() const;
  // Environment variables that rules name.
  std::vector<std::string> Variables() const;

 private:
  friend class MappingFile;
  std::vector<WorkerRule> workers_;
  std::vector<RangeRule> ranges_;
  std::vector<Link> links_;
  std::vector<CounterRule> counters_;
  std::vector<std::pair<std::string, std::string>> settings_;
};

// "copy A to B" names of the agent's copies for "A to B" of a rule, where `host` is pageable or
// pinned memory and * is any; empty: not of that form.
std::vector<std::string> CopyNames(std::string_view direction);

}  // namespace poolscope
