// Reading a mapping from TOML; docs/mapping.md is its manual.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "collector/mapping.h"
#include "collector/presets.h"
#include "collector/toml_table.h"

namespace poolscope {
namespace {

using Words = std::span<const std::string_view>;

constexpr size_t kMaxFileBytes = size_t{1} << 20;
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
    {"step", Category::kStep, Stage::kQueued, false},
    {"discard", Category::kDiscard, Stage::kQueued, true},
};

// Keys that give a field, and the meanings that have such a field.
struct FieldKey {
  std::string_view key;
  Mapping::Field field;
  std::vector<Category> of;
};
const std::vector<FieldKey>& FieldKeys() {
  using Field = Mapping::Field;
  using enum Category;
  static const std::vector<FieldKey> keys = {
      {"step", Field::kStep, {kTransfer, kWork, kStep, kDiscard}},
      {"micro_batch", Field::kMicroBatch, {kTransfer, kWork, kDiscard}},
      {"version", Field::kVersion, {kTransfer, kWork, kStep, kDiscard}},
      {"applied_version", Field::kAppliedVersion, {kTransfer}},
      {"source", Field::kSource, {kTransfer, kWaitLink, kDiscard}},
      {"destination", Field::kDestination, {kTransfer, kDiscard}},
      {"sequence", Field::kSequence, {kTransfer, kWaitLink, kDiscard}},
      {"raw_bytes", Field::kRawBytes, {kTransfer}},
      {"wire_bytes", Field::kWireBytes, {kTransfer}},
      {"tokens", Field::kTokens, {kStep}},
      {"micro_batches", Field::kMicroBatches, {kStep}},
      {"loss", Field::kLoss, {kStep}},
  };
  return keys;
}

std::string_view RoleOf(std::string_view pool) {
  return std::find(kRoles.begin(), kRoles.end(), pool) != kRoles.end() ? pool : "other";
}

}  // namespace

// One [[section]] each; what is wrong is said to the table.
class MappingFile {
 public:
  using Take = void (*)(TomlTable&, Mapping&);
  struct Section {
    std::string_view name;
    Words keys;
    Take take;
  };
  static std::span<const Section> Sections();

 private:
  static void Worker(TomlTable& table, Mapping& mapping);
  static void Range(TomlTable& table, Mapping& mapping);
  static void Link(TomlTable& table, Mapping& mapping);
  static void Counter(TomlTable& table, Mapping& mapping);
  static void Pool(TomlTable& table, Mapping& mapping);
  static void Settings(TomlTable& table, Mapping& mapping);
};

std::span<const MappingFile::Section> MappingFile::Sections() {
  static constexpr std::string_view kWorker[] = {
      "thread",       "process",       "host",         "env",          "rank",  "device",
      "stream",       "communicator",  "pool",         "role",         "index", "per",
      "from_version", "until_version", "from_seconds", "until_seconds"};
  static constexpr std::string_view kLink[] = {"name", "from", "to", "capacity", "lanes", "direct"};
  static constexpr std::string_view kCounter[] = {"domain", "name", "means"};
  static constexpr std::string_view kPool[] = {"name", "devices_per_replica", "device_type",
                                               "memory_bytes", "batch"};
  static constexpr std::string_view kSettings[] = {"mode",  "micro_batches", "lag_bound",
                                                   "stale", "cores",         "warm_up_steps"};
  static const std::vector<std::string_view> range_keys = [] {
    std::vector<std::string_view> keys = {"domain",       "category", "name",  "thread", "pool",
                                          "communicator", "copy",     "means", "link",   "bytes"};
    for (const FieldKey& key : FieldKeys()) keys.push_back(key.key);
    return keys;
  }();
  static const std::vector<Section> kSections = {
      {"worker", kWorker, Worker},    {"link", kLink, Link}, {"range", range_keys, Range},
      {"counter", kCounter, Counter}, {"pool", kPool, Pool}, {"settings", kSettings, Settings}};
  return kSections;
}

void MappingFile::Worker(TomlTable& table, Mapping& mapping) {
  Mapping::WorkerRule rule;
  rule.line = table.line();
  rule.text = table.Summary();
  table.Text("thread", rule.thread);
  table.Text("process", rule.process);
  table.Text("host", rule.host);
  table.Text("communicator", rule.communicator);
  table.Numbers("rank", rule.rank);
  table.Numbers("device", rule.device);
  table.Numbers("stream", rule.stream);
  std::vector<std::string> env;
  table.Texts("env", env);
  for (const std::string& each : env) {
    const size_t equals = each.find('=');
    if (equals == std::string::npos || equals == 0) {
      table.Fail("env", "env must be written \"NAME=glob\"");
    } else {
      rule.env.emplace_back(each.substr(0, equals), each.substr(equals + 1));
    }
  }
  table.Name("pool", rule.pool, true);
  table.Text("role", rule.role);
  table.OneOf("role", rule.role, kRoles);
  if (rule.role.empty()) rule.role = RoleOf(rule.pool);
  static constexpr std::string_view kMatching[] = {"thread", "process", "host",   "env",
                                                   "rank",   "device",  "stream", "communicator"};
  if (std::none_of(std::begin(kMatching), std::end(kMatching),
                   [&](std::string_view key) { return table.has(key); })) {
    table.Fail("", fmt::format("[[worker]] matches everything: give one of {}",
                               fmt::join(kMatching, ", ")));
  }
  if (table.has("communicator") && (table.has("device") || table.has("stream"))) {
    table.Fail("communicator", "no lane is a communicator's and a stream's: give one of them");
  }

  Mapping::Period& period = rule.period;
  table.Number("from_version", period.from_version);
  table.Number("until_version", period.until_version);
  table.Seconds("from_seconds", period.from_ns);
  table.Seconds("until_seconds", period.until_ns);
  if (period.from_version >= period.until_version || period.from_ns >= period.until_ns) {
    table.Fail("", "the rule never holds: it ends before it begins");
  }

  using Index = Mapping::WorkerRule::Index;
  if (const toml::node* index = table.get("index"); index == nullptr) {
    rule.index = rule.rank.any() ? Index::kNextFree : Index::kRank;
  } else if (!index->is_string()) {
    table.Number("index", rule.number);
    rule.index = Index::kNumber;
  } else {
    const std::string text = index->value_or(std::string());
    rule.index = text == "*" ? Index::kStar : text == "rank" ? Index::kRank : Index::kDevice;
    const bool fits = (text == "*" && rule.thread.find('*') != std::string::npos) ||
                      (text == "rank" && !rule.rank.any()) ||
                      (text == "device" && !rule.device.any());
    if (!fits) {
      table.Fail("index",
                 "index must be a number, \"*\" with a '*' in 'thread', \"rank\" with 'rank', or "
                 "\"device\" with 'device'");
    }
  }
  std::string per = table.has("thread") || table.has("stream") ? "thread" : "process";
  table.Text("per", per);
  static constexpr std::string_view kPer[] = {"thread", "process"};
  table.OneOf("per", per, kPer);
  rule.per_thread = per == "thread";
  if (table.has("per") && rule.index != Index::kNextFree) {
    table.Fail("per", "'per' has no effect where 'index' or 'rank' gives the worker's number");
  }
  mapping.workers_.push_back(std::move(rule));
}

void MappingFile::Link(TomlTable& table, Mapping& mapping) {
  Mapping::Link link;
  link.line = table.line();
  table.Name("name", link.name, true);
  table.Name("from", link.from, true);
  table.Name("to", link.to, true);
  const auto same = std::find_if(mapping.links_.begin(), mapping.links_.end(),
                                 [&](const auto& other) { return other.name == link.name; });
  if (same != mapping.links_.end()) {
    table.Fail("name", fmt::format("link '{}' is given in line {} already", link.name, same->line));
  }
  table.Number("capacity", link.capacity);
  table.Number("lanes", link.lanes);
  table.Flag("direct", link.direct);
  if (link.lanes == 0) table.Fail("lanes", "'lanes' must be at least 1");
  mapping.links_.push_back(std::move(link));
}

void MappingFile::Range(TomlTable& table, Mapping& mapping) {
  Mapping::RangeRule rule;
  rule.line = table.line();
  rule.text = table.Summary();
  table.Text("domain", rule.domain);
  table.Text("category", rule.category);
  table.Text("name", rule.name);
  table.Text("thread", rule.thread);
  table.Text("pool", rule.pool);
  table.Text("communicator", rule.communicator);
  if (std::string copy; table.has("copy")) {
    table.Text("copy", copy);
    rule.copies = CopyNames(copy);
    if (rule.copies.empty()) {
      table.Fail("copy",
                 "'copy' must be written \"A to B\", of pageable, pinned, host, device, array, "
                 "managed, peer, *");
    }
    if (table.has("name") || table.has("domain")) {
      table.Fail("copy", "'copy' takes the place of 'domain' and 'name': give one of them");
    }
    rule.domain = "cuda";
  }
  table.Text("means", rule.means, true);
  table.Name("link", rule.link);
  std::vector<std::string_view> known;
  for (const Meaning& meaning : kMeanings) {
    known.push_back(meaning.name);
    if (meaning.name != rule.means) continue;
    rule.category_meant = meaning.category;
    rule.stage = meaning.stage;
    if (meaning.needs_link && rule.link.empty()) {
      table.Fail("", fmt::format("means = \"{}\" needs the key 'link'", rule.means));
    }
    if (!meaning.needs_link && table.has("link")) {
      table.Fail("link", fmt::format("'link' has no effect with means = \"{}\"", rule.means));
    }
  }
  table.OneOf("means", rule.means, known);
  using Field = Mapping::Field;
  const auto value = [&](Field field) -> Mapping::Value& {
    return rule.values[static_cast<size_t>(field)];
  };
  const auto has_field = [&](const std::vector<Category>& of) {
    return std::find(of.begin(), of.end(), rule.category_meant) != of.end();
  };
  const auto no_effect = [&](std::string_view key) {
    table.Fail(key, fmt::format("'{}' has no effect with means = \"{}\"", key, rule.means));
  };
  if (table.has("bytes")) {
    if (!has_field({Category::kTransfer})) no_effect("bytes");
    table.NumberOrText("bytes", value(Field::kRawBytes).constant, value(Field::kRawBytes).field);
    value(Field::kWireBytes) = value(Field::kRawBytes);
  }
  for (const FieldKey& key : FieldKeys()) {
    if (!table.has(key.key)) continue;
    if (!has_field(key.of)) no_effect(key.key);
    table.NumberOrText(key.key, value(key.field).constant, value(key.field).field);
  }
  mapping.ranges_.push_back(std::move(rule));
}

void MappingFile::Counter(TomlTable& table, Mapping& mapping) {
  Mapping::CounterRule rule;
  rule.line = table.line();
  rule.text = table.Summary();
  table.Text("domain", rule.domain);
  table.Text("name", rule.name, true);
  table.Text("means", rule.means, true);
  const bool named = rule.means.find('.') != std::string::npos && rule.means.front() != '.';
  static constexpr std::string_view kPlain[] = {"loss", "gradient_norm", "tokens"};
  const bool known =
      std::find(std::begin(kPlain), std::end(kPlain), rule.means) != std::end(kPlain) ||
      (named && (rule.means.ends_with(".depth") || rule.means.ends_with(".credits") ||
                 rule.means.ends_with(".occupancy") || rule.means.ends_with(".version")));
  if (!known) {
    table.Fail("means",
               "a counter means \"LINK.depth\", \"LINK.credits\", \"POOL.occupancy\", "
               "\"POOL.version\", \"loss\", \"gradient_norm\" or \"tokens\"");
  }
  mapping.counters_.push_back(std::move(rule));
}

void MappingFile::Pool(TomlTable& table, Mapping& mapping) {
  std::string name;
  table.Name("name", name, true);
  if (std::any_of(mapping.settings_.begin(), mapping.settings_.end(),
                  [&](const auto& setting) { return setting.first.starts_with(name + "."); })) {
    table.Fail("name", fmt::format("pool '{}' is given twice", name));
  }
  for (const std::string_view key : {"devices_per_replica", "memory_bytes", "batch"}) {
    if (!table.has(key)) continue;
    int64_t number = 0;
    table.Number(key, number);
    if (number == 0) table.Fail(key, fmt::format("'{}' must be at least 1", key));
    mapping.settings_.emplace_back(fmt::format("{}.{}", name, key), std::to_string(number));
  }
  if (std::string type; table.has("device_type")) {
    table.Text("device_type", type, true);
    mapping.settings_.emplace_back(name + ".device_type", type);
  }
}

void MappingFile::Settings(TomlTable& table, Mapping& mapping) {
  static constexpr std::string_view kModes[] = {"sync", "async"};
  static constexpr std::string_view kStale[] = {"wait", "drop", "recompute", "apply"};
  for (const auto& [key, words] : {std::pair<std::string_view, Words>{"mode", kModes},
                                   std::pair<std::string_view, Words>{"stale", kStale}}) {
    if (!table.has(key)) continue;
    std::string text;
    table.Text(key, text, true);
    table.OneOf(key, text, words);
    mapping.settings_.emplace_back(key, text);
  }
  for (const std::string_view key : {"micro_batches", "lag_bound", "cores", "warm_up_steps"}) {
    if (!table.has(key)) continue;
    int64_t number = 0;
    table.Number(key, number);
    mapping.settings_.emplace_back(key, std::to_string(number));
  }
}

Result<Mapping> Mapping::Load(const std::string& preset_or_path) {
  if (preset_or_path.empty()) return Mapping{};
  std::vector<std::string_view> names;
  for (const Preset& preset : Presets()) {
    if (preset.name == preset_or_path) {
      return Parse(preset.toml, fmt::format("preset {}", preset.name));
    }
    names.push_back(preset.name);
  }
  std::ifstream file(preset_or_path, std::ios::binary);
  std::string text(kMaxFileBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (!file.is_open() || file.bad()) {
    return Error{
        fmt::format("cannot read the pool mapping {}: give a TOML file (docs/mapping.md) "
                    "or a preset: {}",
                    preset_or_path, fmt::join(names, ", "))};
  }
  return Parse(text, preset_or_path);
}

Result<Mapping> Mapping::Parse(std::string_view text, const std::string& name) {
  if (text.size() > kMaxFileBytes) {
    return Error{
        fmt::format("{}: more than the {} bytes that a mapping may have", name, kMaxFileBytes)};
  }
  toml::table root;
  try {
    root = toml::parse(text, name);
  } catch (const toml::parse_error& error) {
    std::string why(error.description());  // it may quote a line's end
    std::replace(why.begin(), why.end(), '\n', ' ');
    return Error{fmt::format("{}:{}: {}", name, error.source().begin.line, why)};
  }
  Mapping mapping;
  std::vector<std::string_view> names;
  for (const auto& section : MappingFile::Sections()) names.push_back(section.name);
  for (const auto& [key, node] : root) {
    const uint32_t line = key.source().begin.line;
    const auto section =
        std::find_if(MappingFile::Sections().begin(), MappingFile::Sections().end(),
                     [&key = key](const auto& each) { return each.name == key.str(); });
    if (section == MappingFile::Sections().end()) {
      return Error{fmt::format("{}:{}: unknown section '{}': did you mean '{}'?", name, line,
                               key.str(), Nearest(key.str(), names))};
    }
    if (section->name == "settings" && node.is_table()) {
      TomlTable table(*node.as_table(), name, "[settings]", section->keys);
      if (table.error().empty()) section->take(table, mapping);
      if (!table.error().empty()) return Error{table.error()};
      continue;
    }
    const toml::array* entries = node.as_array();
    if (section->name == "settings") {
      return Error{fmt::format("{}:{}: 'settings' must be written [settings]", name, line)};
    }
    if (entries == nullptr || !entries->is_array_of_tables()) {
      return Error{fmt::format("{}:{}: '{}' must be written [[{}]]", name, line, section->name,
                               section->name)};
    }
    for (const toml::node& entry : *entries) {
      TomlTable table(*entry.as_table(), name, fmt::format("[[{}]]", section->name), section->keys);
      if (table.error().empty()) section->take(table, mapping);
      if (!table.error().empty()) return Error{table.error()};
    }
  }
  return mapping;
}

}  // namespace poolscope
