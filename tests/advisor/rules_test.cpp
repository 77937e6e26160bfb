#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "advisor/report.h"
#include "tests/support/scenario.h"
#include "tests/support/scratch_folder.h"

// Each folder tests/advisor/<rule>/{fires,abstains} holds pairs: a run described in a few numbers,
// and what must be found in it. A recommendation is held against a run of the changed scenario.
namespace poolscope {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

json Load(const fs::path& path) {
  std::ifstream file(path);
  return json::parse(file, nullptr, false);
}

Report ReportOf(const testing::Scenario& scenario) {
  const testing::ScratchFolder scratch;
  const std::string path = scratch / "run.db";
  EXPECT_EQ(testing::WriteStore(scenario, path), "");
  Result<Store> store = Store::Open(path, Store::Mode::kRead);
  EXPECT_TRUE(store.ok());
  Result<Report> report = BuildReport(*store, "");
  EXPECT_TRUE(report.ok());
  return *report;
}

bool Has(const Report& report, const std::string& rule, bool recommending) {
  for (const Finding& finding : report.findings) {
    if (finding.rule == rule && (!recommending || finding.recommendation)) return true;
  }
  return false;
}

void CheckFinding(const Finding& finding, const json& expected) {
  EXPECT_EQ(finding.rule, expected.value("rule", finding.rule));
  EXPECT_EQ(finding.subject, expected.value("subject", finding.subject));
  EXPECT_EQ(finding.severity, expected.value("severity", finding.severity));
  EXPECT_FALSE(finding.evidence.empty());
  const std::string abstained = expected.value("abstained", "");
  EXPECT_NE(finding.abstained.find(abstained), std::string::npos) << finding.abstained;
  if (!expected.contains("kind")) return;
  ASSERT_TRUE(finding.recommendation) << finding.abstained;
  EXPECT_EQ(finding.recommendation->kind, expected.at("kind"));
  EXPECT_EQ(finding.recommendation->klass, expected.value("class", finding.recommendation->klass));
}

// The scenario with the recommended change made, as the trainer would be started with it.
json Changed(json scenario, const Recommendation& change) {
  for (const auto& [knob, value] : change.set) {
    const std::string name = knob.substr(0, knob.find('.'));
    if (knob.ends_with(".workers")) scenario[name] = std::stoi(value);
    if (knob.ends_with(".depth")) scenario[name]["depth"] = std::stoi(value);
    if (knob.ends_with(".codec")) {
      scenario[name]["bytes"] = scenario[name].value("bytes", 1e6) / 2;
    }
  }
  return scenario;
}

class Rules : public ::testing::TestWithParam<fs::path> {};

TEST_P(Rules, FixtureGetsItsFindings) {
  const json scenario = Load(GetParam());
  fs::path expected_path = GetParam();
  const json expected = Load(expected_path.replace_extension(".expected.json"));
  ASSERT_FALSE(scenario.is_discarded());
  ASSERT_FALSE(expected.is_discarded());
  const Report report = ReportOf(testing::ParseScenario(scenario));
  SCOPED_TRACE(ReportAsText(report));

  if (expected.contains("first")) {
    ASSERT_FALSE(report.findings.empty());
    CheckFinding(report.findings[0], expected["first"]);
  }
  for (const auto& rule : expected.value("present", json::array())) {
    EXPECT_TRUE(Has(report, rule, false)) << rule;
  }
  for (const auto& rule : expected.value("absent", json::array())) {
    EXPECT_FALSE(Has(report, rule, false)) << rule;
  }
  for (const auto& rule : expected.value("no_recommendation", json::array())) {
    EXPECT_FALSE(Has(report, rule, true)) << rule;
  }
  if (expected.contains("findings")) {
    EXPECT_EQ(report.findings.size(), expected["findings"].get<size_t>());
  }
  if (expected.value("together", false)) {
    EXPECT_TRUE(report.findings[0].evidence.back().numbers.contains("together_step_seconds"));
  }
  int recommendations = 0;
  for (const Finding& finding : report.findings) {
    EXPECT_NE(finding.abstained.find(expected.value("abstained", "")), std::string::npos)
        << finding.abstained;
    if (!finding.recommendation) continue;
    ++recommendations;
    const json changed = Changed(scenario, *finding.recommendation);
    const double measured = testing::StepSeconds(testing::Play(testing::ParseScenario(changed)));
    EXPECT_NEAR(finding.recommendation->predicted_step_seconds, measured, 0.05 * measured)
        << finding.recommendation->change;
    EXPECT_LE(finding.recommendation->interval_low, measured * 1.005);
    EXPECT_GE(finding.recommendation->interval_high, measured * 0.995);
  }
  EXPECT_EQ(recommendations, expected.value("recommendations", recommendations));
}

std::vector<fs::path> Fixtures() {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::recursive_directory_iterator(ADVISOR_FIXTURES)) {
    const fs::path& path = entry.path();
    if (path.extension() != ".json" || path.string().ends_with(".expected.json")) continue;
    paths.push_back(path);
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::string NameOf(const ::testing::TestParamInfo<fs::path>& info) {
  const fs::path& path = info.param;
  return path.parent_path().parent_path().filename().string() + "_" +
         path.parent_path().filename().string() + "_" + path.stem().string();
}

INSTANTIATE_TEST_SUITE_P(Fixtures, Rules, ::testing::ValuesIn(Fixtures()), NameOf);

}  // namespace
}  // namespace poolscope
