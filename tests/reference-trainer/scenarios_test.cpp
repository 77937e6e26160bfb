#include <gmock/gmock.h>

#include <algorithm>

#include "reference-trainer/scenario.h"
#include "tests/reference-trainer/parse_options.h"

namespace poolscope::trainer {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

TEST(Scenarios, EachIsExplained_AndItsFlagsAreUnderstood) {
  ASSERT_FALSE(Scenarios().empty());
  for (const Scenario& each : Scenarios()) {
    EXPECT_FALSE(each.title.empty() || each.cause.empty() || each.finding.empty()) << each.name;
    EXPECT_EQ(std::count(each.cause.begin(), each.cause.end(), '\n'), 0) << each.name;
    EXPECT_EQ(Good("--scenario " + each.name).scenario, each.name);
    if (!each.remedy.empty()) Good("--scenario " + each.name + " " + each.remedy);
  }
}

TEST(Scenarios, FlagsBesideAScenario_OverrideItsOwn) {
  const std::string name = "update_pool_too_small";
  const Options as_written = Good("--scenario " + name);
  EXPECT_EQ(as_written.mode, Mode::kAsync);
  EXPECT_EQ(as_written.compute_workers, 6u);
  const Options overridden = Good("--compute-workers 3 --sync --steps=7 --scenario=" + name);
  EXPECT_EQ(overridden.mode, Mode::kSync);
  EXPECT_EQ(overridden.compute_workers, 3u);
  EXPECT_EQ(overridden.steps, 7u);
  EXPECT_DOUBLE_EQ(overridden.update_seconds, as_written.update_seconds);
}

TEST(Scenarios, Unknown_SuggestsTheNearest) {
  EXPECT_THAT(Error("--scenario update_pol_too_smal"), HasSubstr("update_pool_too_small"));
  Error("--scenario");
}

TEST(Scenarios, List_NamesCauseFindingAndRemedy) {
  const auto parsed = Parse("--list-scenarios");
  const Exit& exit = std::get<Exit>(parsed);
  EXPECT_EQ(exit.code, 0);
  EXPECT_THAT(exit.text, AllOf(HasSubstr("update_pool_too_small"), HasSubstr("pool_imbalance"),
                               HasSubstr("--update-workers 2")));
}

TEST(Scenarios, ANameThatIsMissing_IsAskedFor) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--scenario"}, {"--scenario="}}) {
    const auto read = WithScenario(arguments);
    ASSERT_TRUE(std::holds_alternative<std::string>(read));
    EXPECT_NE(std::get<std::string>(read).find("needs a name"), std::string::npos);
  }
}

}  // namespace
}  // namespace poolscope::trainer
