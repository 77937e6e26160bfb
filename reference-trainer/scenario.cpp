#include "reference-trainer/scenario.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "reference-trainer/scenario_texts.h"

namespace poolscope::trainer {
namespace {

std::string Flag(const std::string& name, const toml::node& value) {
  const std::string flag = "--" + name;
  if (const auto* text = value.as_string()) return flag + "=" + text->get();
  if (const auto* whole = value.as_integer()) return fmt::format("{}={}", flag, whole->get());
  if (const auto* number = value.as_floating_point()) {
    return fmt::format("{}={}", flag, number->get());
  }
  return flag;  // true
}

Scenario Read(const ScenarioText& text) {
  const toml::table table = toml::parse(text.toml);
  const auto field = [&](const char* key) { return table[key].value_or(std::string()); };
  Scenario scenario{text.name,        field("title"),  field("cause"),
                    field("finding"), field("remedy"), {}};
  if (const toml::table* flags = table["flags"].as_table()) {
    for (const auto& [key, value] : *flags) {
      if (const toml::array* several = value.as_array()) {
        for (const toml::node& each : *several) {
          scenario.flags.push_back(Flag(std::string(key.str()), each));
        }
      } else {
        scenario.flags.push_back(Flag(std::string(key.str()), value));
      }
    }
  }
  return scenario;
}

// Letters to insert, delete or replace (Levenshtein).
size_t Distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t corner = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t change = corner + (a[i] == b[j] ? 0 : 1);
      corner = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, corner + 1, change});
    }
  }
  return row.back();
}

// "--sync" and "--async" say the same thing differently.
std::string NameOf(const std::string& flag) {
  const std::string name = flag.substr(0, flag.find('='));
  return name == "--sync" ? "--async" : name;
}

}  // namespace

const std::vector<Scenario>& Scenarios() {
  static const std::vector<Scenario> scenarios = [] {
    std::vector<Scenario> all;
    for (const ScenarioText& text : kScenarioTexts) all.push_back(Read(text));
    return all;
  }();
  return scenarios;
}

std::string ListScenarios() {
  std::string text;
  for (const Scenario& each : Scenarios()) {
    text += fmt::format("{:<28}{}\n{:28}cause    {}\n{:28}finding  {}\n", each.name, each.title, "",
                        each.cause, "", each.finding);
    if (!each.remedy.empty()) text += fmt::format("{:28}remedy   {}\n", "", each.remedy);
  }
  return text;
}

std::variant<std::vector<std::string>, std::string> WithScenario(
    const std::vector<std::string>& arguments) {
  constexpr std::string_view kFlag = "--scenario";
  std::set<std::string> given;
  std::string name;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& each = arguments[i];
    given.insert(NameOf(each));
    if (each == kFlag && i + 1 < arguments.size()) name = arguments[i + 1];
    if (each.rfind("--scenario=", 0) == 0) name = each.substr(kFlag.size() + 1);
  }
  if (given.count(std::string(kFlag)) == 0) return arguments;
  if (name.empty()) return std::string("--scenario needs a name; --list-scenarios has them");
  const std::vector<Scenario>& all = Scenarios();
  const auto scenario =
      std::find_if(all.begin(), all.end(), [&](const Scenario& each) { return each.name == name; });
  if (scenario == all.end()) {
    const auto nearest =
        std::min_element(all.begin(), all.end(), [&](const Scenario& a, const Scenario& b) {
          return Distance(a.name, name) < Distance(b.name, name);
        });
    return fmt::format("--scenario '{}' is unknown; did you mean {}? (--list-scenarios has all)",
                       name, nearest->name);
  }
  std::vector<std::string> together;
  for (const std::string& flag : scenario->flags) {
    if (given.count(NameOf(flag)) == 0) together.push_back(flag);
  }
  together.insert(together.end(), arguments.begin(), arguments.end());
  return together;
}

}  // namespace poolscope::trainer
