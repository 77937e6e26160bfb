#include "collector/mapping.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <sstream>

namespace poolscope {
namespace {

constexpr std::string_view kReferenceTrainer = R"(
[[worker]]
thread = "compute/*"
pool = "compute"
role = "compute"
index = "*"
[[worker]]
thread = "update/*"
pool = "update"
role = "update"
index = "*"
)";

constexpr std::array<std::string_view, 5> kRoles = {"compute", "update", "rollout", "trainer",
                                                    "other"};
struct Meaning {
  std::string_view name;
  Category category;
  Stage stage;
  bool needs_link;
};
constexpr Meaning kMeanings[] = {
    {"work", Category::kWork, Stage::kQueued, false},
    {"wait_link", Category::kWaitLink, Stage::kQueued, true},
    {"blocked_link", Category::kBlockedLink, Stage::kQueued, true},
    {"wait_credit", Category::kWaitCredit, Stage::kQueued, false},
    {"wait_peer", Category::kWaitPeer, Stage::kQueued, false},
    {"host", Category::kHost, Stage::kQueued, false},
    {"input", Category::kInput, Stage::kQueued, false},
    {"other_work", Category::kOtherWork, Stage::kQueued, false},
    {"wait_device", Category::kWaitDevice, Stage::kQueued, false},
    {"phase", Category::kPhase, Stage::kQueued, false},
    {"queued", Category::kTransfer, Stage::kQueued, true},
    {"encode", Category::kTransfer, Stage::kEncode, true},
    {"wire", Category::kTransfer, Stage::kWire, true},
    {"decode", Category::kTransfer, Stage::kDecode, true},
    {"apply", Category::kTransfer, Stage::kApply, true},
};

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t cost = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = std::exchange(row[j], cost);
    }
  }
  return row[b.size()];
}

// The known word nearest to `text`: one that it begins, else by edits.
template <typename Words>
std::string_view Nearest(std::string_view text, const Words& words) {
  const auto begun = std::find_if(words.begin(), words.end(), [&](std::string_view word) {
    return text.size() >= 3 && word.starts_with(text);
  });
  if (begun != words.end()) return *begun;
  return *std::min_element(words.begin(), words.end(), [&](auto a, auto b) {
    return EditDistance(text, a) < EditDistance(text, b);
  });
}

// One table of the file, read key by key; the first error stays.
class Table {
 public:
  Table(const toml::table& table, std::string file, std::string kind,
        std::vector<std::string_view> known)
      : table_(table), file_(std::move(file)), kind_(std::move(kind)) {
    for (const auto& [key, value] : table) {
      const std::string_view name = key.str();
      if (std::find(known.begin(), known.end(), name) != known.end()) continue;
      Fail(key.source(), fmt::format("unknown key '{}' in [[{}]]: did you mean '{}'?", name, kind_,
                                     Nearest(name, known)));
    }
  }

  void Text(std::string_view key, std::string& out, bool required = false) {
    const toml::node* node = table_.get(key);
    if (node == nullptr) {
      if (required) Fail(table_.source(), fmt::format("[[{}]] needs the key '{}'", kind_, key));
      return;
    }
    const auto value = node->value_exact<std::string>();
    if (!value.has_value()) {
      return Fail(node->source(), fmt::format("'{}' must be a text in quotes", key));
    }
    if (required && value->empty()) return Fail(node->source(), fmt::format("'{}' is empty", key));
    out = *value;
  }

  void Number(std::string_view key, int64_t& out) {
    const toml::node* node = table_.get(key);
    if (node == nullptr) return;
    const auto value = node->value_exact<int64_t>();
    if (!value.has_value() || *value < 0) {
      return Fail(node->source(), fmt::format("'{}' must be a whole number from 0", key));
    }
    out = *value;
  }

  template <typename Words>
  void OneOf(std::string_view key, const std::string& value, const Words& words) {
    if (value.empty() || std::find(words.begin(), words.end(), value) != words.end()) return;
    Fail(table_.get(key)->source(), fmt::format("{} '{}' is not known: did you mean '{}'?", key,
                                                value, Nearest(value, words)));
  }

  void Fail(const toml::source_region& where, const std::string& what) {
    if (error_.empty()) error_ = fmt::format("{}:{}: {}", file_, where.begin.line, what);
  }

  const toml::node* get(std::string_view key) const { return table_.get(key); }
  const toml::table& table() const { return table_; }
  const std::string& error() const { return error_; }

 private:
  const toml::table& table_;
  std::string file_;
  std::string kind_;
  std::string error_;
};

std::string ProcessVariable(uint32_t pid, const std::string& name) {
  std::ifstream file(fmt::format("/proc/{}/environ", pid), std::ios::binary);
  std::string entry;
  while (std::getline(file, entry, '\0')) {
    if (entry.size() > name.size() && entry[name.size()] == '=' && entry.starts_with(name)) {
      return entry.substr(name.size() + 1);
    }
  }
  return "";
}

}  // namespace

bool GlobMatch(std::string_view pattern, std::string_view text, std::string_view* last_star) {
  constexpr size_t kNone = std::string_view::npos;
  size_t p = 0;
  size_t t = 0;
  size_t star = kNone;    // the last * met
  size_t star_begin = 0;  // where in the text its match begins
  size_t resume = 0;      // where to go on when the text after it does not fit
  while (t < text.size() || (p < pattern.size() && pattern[p] == '*')) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_begin = resume = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != kNone) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  if (p < pattern.size()) return false;
  if (last_star != nullptr && star != kNone) {
    const size_t tail = pattern.size() - star - 1;
    *last_star = text.substr(star_begin, text.size() - tail - star_begin);
  }
  return true;
}

Result<Mapping> Mapping::Load(const std::string& preset_or_path) {
  if (preset_or_path.empty()) return Mapping{};
  if (preset_or_path == "reference-trainer") {
    return Parse(kReferenceTrainer, "preset reference-trainer");
  }
  std::ifstream file(preset_or_path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) {
    return Error{
        fmt::format("cannot read the pool mapping {}: give a TOML file (docs/mapping.md) "
                    "or the preset 'reference-trainer'",
                    preset_or_path)};
  }
  return Parse(text.str(), preset_or_path);
}

Result<Mapping> Mapping::Parse(std::string_view toml_text, const std::string& name) {
  toml::table root;
  try {
    root = toml::parse(toml_text, name);
  } catch (const toml::parse_error& error) {
    return Error{fmt::format("{}:{}: {}", name, error.source().begin.line, error.description())};
  }
  Mapping mapping;
  const std::vector<std::string_view> sections = {"worker", "link", "range"};
  for (const auto& [key, node] : root) {
    const std::string_view section = key.str();
    if (std::find(sections.begin(), sections.end(), section) == sections.end()) {
      return Error{fmt::format("{}:{}: unknown section '{}': did you mean '{}'?", name,
                               key.source().begin.line, section, Nearest(section, sections))};
    }
    const toml::array* entries = node.as_array();
    if (entries == nullptr) {
      return Error{fmt::format("{}:{}: '{}' must be written [[{}]]", name, key.source().begin.line,
                               section, section)};
    }
    for (const toml::node& entry : *entries) {
      if (entry.as_table() == nullptr) {
        return Error{fmt::format("{}:{}: '{}' must be written [[{}]]", name,
                                 entry.source().begin.line, section, section)};
      }
      std::string error;
      if (section == "worker") {
        Table table(*entry.as_table(), name, "worker",
                    {"thread", "process", "host", "env", "pool", "role", "index"});
        WorkerRule rule;
        table.Text("thread", rule.thread);
        table.Text("process", rule.process);
        table.Text("host", rule.host);
        table.Text("pool", rule.pool, true);
        table.Text("role", rule.role);
        table.OneOf("role", rule.role, kRoles);
        if (rule.role.empty()) {
          const bool is_role = std::find(kRoles.begin(), kRoles.end(), rule.pool) != kRoles.end();
          rule.role = is_role ? rule.pool : "other";
        }
        std::string env;
        table.Text("env", env);
        if (!env.empty()) {
          const size_t equals = env.find('=');
          if (equals == std::string::npos || equals == 0) {
            table.Fail(table.get("env")->source(), "env must be written \"NAME=glob\"");
          } else {
            rule.env_name = env.substr(0, equals);
            rule.env_value = env.substr(equals + 1);
          }
        }
        if (rule.pool.find(' ') != std::string::npos) {
          table.Fail(table.get("pool")->source(), "a pool's name holds no spaces");
        }
        if (table.get("thread") == nullptr && table.get("process") == nullptr &&
            table.get("host") == nullptr && env.empty()) {
          table.Fail(table.table().source(),
                     "[[worker]] matches everything: give 'thread', 'process', 'host' or 'env'");
        }
        if (const toml::node* index = table.get("index"); index != nullptr && index->is_string()) {
          rule.index_from_star = *index->value<std::string>() == "*";
          if (!rule.index_from_star || rule.thread.find('*') == std::string::npos) {
            table.Fail(index->source(), "index must be a number, or \"*\" with a '*' in 'thread'");
          }
        } else {
          table.Number("index", rule.index);
        }
        error = table.error();
        mapping.workers_.push_back(std::move(rule));
      } else if (section == "link") {
        Table table(*entry.as_table(), name, "link", {"name", "from", "to", "capacity", "lanes"});
        Link link;
        table.Text("name", link.name, true);
        table.Text("from", link.from, true);
        table.Text("to", link.to, true);
        table.Number("capacity", link.capacity);
        table.Number("lanes", link.lanes);
        error = table.error();
        mapping.links_.push_back(std::move(link));
      } else {
        Table table(*entry.as_table(), name, "range",
                    {"domain", "category", "name", "means", "link"});
        RangeRule rule;
        std::string means;
        table.Text("domain", rule.domain);
        table.Text("category", rule.category);
        table.Text("name", rule.name);
        table.Text("means", means, true);
        table.Text("link", rule.means.link);
        std::vector<std::string_view> known;
        for (const Meaning& meaning : kMeanings) {
          known.push_back(meaning.name);
          if (meaning.name != means) continue;
          rule.means.category = meaning.category;
          rule.means.stage = meaning.stage;
          if (meaning.needs_link && rule.means.link.empty()) {
            table.Fail(table.table().source(),
                       fmt::format("means = \"{}\" needs the key 'link'", means));
          }
        }
        table.OneOf("means", means, known);
        error = table.error();
        mapping.ranges_.push_back(std::move(rule));
      }
      if (!error.empty()) return Error{error};
    }
  }
  return mapping;
}

std::optional<Mapping::WorkerMatch> Mapping::MatchWorker(const ThreadFacts& facts) const {
  for (const WorkerRule& rule : workers_) {
    std::string_view star;
    if (!GlobMatch(rule.thread, facts.thread, &star) || !GlobMatch(rule.process, facts.process) ||
        !GlobMatch(rule.host, facts.host)) {
      continue;
    }
    if (!rule.env_name.empty() &&
        !GlobMatch(rule.env_value, ProcessVariable(facts.pid, rule.env_name))) {
      continue;
    }
    WorkerMatch match{rule.pool, rule.role, rule.index};
    if (rule.index_from_star) {
      const auto [end, error] =
          std::from_chars(star.data(), star.data() + star.size(), match.index);
      if (error != std::errc() || end != star.data() + star.size() || match.index < 0) continue;
    }
    return match;
  }
  return std::nullopt;
}

std::optional<Mapping::RangeMatch> Mapping::MatchRange(std::string_view domain,
                                                       std::string_view category,
                                                       std::string_view name) const {
  for (const RangeRule& rule : ranges_) {
    if (GlobMatch(rule.domain, domain) && GlobMatch(rule.category, category) &&
        GlobMatch(rule.name, name)) {
      return rule.means;
    }
  }
  return std::nullopt;
}

}  // namespace poolscope
