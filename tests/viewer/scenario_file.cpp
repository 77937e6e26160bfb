#include <cstdio>
#include <nlohmann/json.hpp>

#include "tests/support/scenario.h"

// scenario_file OUT JSON: the store of a scenario, for tests that drive the viewer from outside.
int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: scenario_file OUT JSON\n");
    return 2;
  }
  const auto json = nlohmann::json::parse(argv[2], nullptr, false);
  if (json.is_discarded()) {
    std::fprintf(stderr, "scenario_file: not JSON: %s\n", argv[2]);
    return 2;
  }
  using namespace poolscope::testing;
  const std::string error = WriteStore(ParseScenario(json), argv[1]);
  if (!error.empty()) std::fprintf(stderr, "scenario_file: %s\n", error.c_str());
  return error.empty() ? 0 : 1;
}
