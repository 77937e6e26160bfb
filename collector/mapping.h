#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trace/event.h"
#include "trace/result.h"

namespace poolscope {

// Which threads do which pool's work, which ranges mean work, waits or transfers, and which links
// there are, for jobs that do not mark themselves with annotate.h. Format: docs/mapping.md.
class Mapping {
 public:
  // A preset's name ("reference-trainer") or the path of a TOML file; "" maps nothing.
  // Errors name the file, the line, and the nearest known key.
  static Result<Mapping> Load(const std::string& preset_or_path);
  static Result<Mapping> Parse(std::string_view toml, const std::string& name);

  struct ThreadFacts {
    std::string_view thread;   // its name
    std::string_view process;  // command line
    std::string_view host;
    uint32_t pid = 0;  // for rules on environment variables
  };
  struct WorkerMatch {
    std::string pool;
    std::string role;
    int64_t index = -1;  // -1: the next free one
  };
  std::optional<WorkerMatch> MatchWorker(const ThreadFacts& facts) const;

  struct RangeMatch {
    Category category = Category::kNone;
    Stage stage = Stage::kQueued;
    std::string link;
  };
  bool has_ranges() const { return !ranges_.empty(); }
  std::optional<RangeMatch> MatchRange(std::string_view domain, std::string_view category,
                                       std::string_view name) const;

  struct Link {
    std::string name, from, to;
    int64_t capacity = 0;
    int64_t lanes = 1;
  };
  const std::vector<Link>& links() const { return links_; }

 private:
  struct WorkerRule {
    std::string thread = "*", process = "*", host = "*", env_name, env_value;
    std::string pool, role;
    int64_t index = -1;
    bool index_from_star = false;  // index = "*": the number that the thread's last * matched
  };
  struct RangeRule {
    std::string domain = "*", category = "*", name = "*";
    RangeMatch means;
  };

  std::vector<WorkerRule> workers_;
  std::vector<RangeRule> ranges_;
  std::vector<Link> links_;
};

// Shell-like: * matches any text, ? one character. `last_star` gets what the last * matched.
bool GlobMatch(std::string_view pattern, std::string_view text,
               std::string_view* last_star = nullptr);

}  // namespace poolscope
