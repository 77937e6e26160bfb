#pragma once

#include <string>
#include <variant>
#include <vector>

namespace poolscope::trainer {

// One bottleneck with its known cause, or a healthy run: `scenarios/NAME.toml`, part of the
// program.
struct Scenario {
  std::string name;
  std::string title;
  std::string cause;               // one sentence
  std::string finding;             // the rule that is right, "none" where the run is healthy
  std::string remedy;              // flags that cure it; "" where none does
  std::vector<std::string> flags;  // "--async", "--steps=100"
};

const std::vector<Scenario>& Scenarios();  // by name

// What --list-scenarios prints.
std::string ListScenarios();

// `arguments` (without the program) with the flags of the scenario that --scenario names before
// them. A flag of the scenario that is also given is left out. The string is one line of error.
std::variant<std::vector<std::string>, std::string> WithScenario(
    const std::vector<std::string>& arguments);

}  // namespace poolscope::trainer
