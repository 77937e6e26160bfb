#include "collector/mapping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace poolscope {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string ErrorOf(const char* toml) {
  const auto mapping = Mapping::Parse(toml, "pools.toml");
  return mapping.ok() ? "" : mapping.error().message;
}

TEST(Mapping, Glob_MatchesAsAShellDoes) {
  EXPECT_TRUE(GlobMatch("*", ""));
  EXPECT_TRUE(GlobMatch("a*c", "abbbc"));
  EXPECT_TRUE(GlobMatch("a?c*", "abc"));
  EXPECT_FALSE(GlobMatch("a?c", "ac"));
  EXPECT_FALSE(GlobMatch("a*c", "abcd"));
  EXPECT_TRUE(GlobMatch("*ab*ab*", "xxabyyabzz"));
  std::string_view star;
  EXPECT_TRUE(GlobMatch("rank */worker *", "rank 3/worker 12", &star));
  EXPECT_EQ(star, "12");
  EXPECT_TRUE(GlobMatch("w*-gpu", "w7-gpu", &star));
  EXPECT_EQ(star, "7");
}

TEST(Mapping, ReferenceTrainerPreset_MapsItsThreadNames) {
  const auto mapping = Mapping::Load("reference-trainer");
  ASSERT_TRUE(mapping.ok()) << mapping.error().message;
  const auto match = mapping->MatchWorker({"update/3", "", "", 0});
  ASSERT_TRUE(match.has_value());
  EXPECT_EQ(match->pool, "update");
  EXPECT_EQ(match->role, "update");
  EXPECT_EQ(match->index, 3);
  EXPECT_FALSE(mapping->MatchWorker({"link/gradients/0", "", "", 0}).has_value());
  EXPECT_FALSE(mapping->MatchWorker({"compute/x", "", "", 0}).has_value());
}

TEST(Mapping, Ranges_MapToCategoriesAndStages) {
  const auto mapping = Mapping::Parse(R"(
[[worker]]
process = "*train.py*"
pool = "gpu"
[[range]]
domain = "NCCL"
name = "ncclAllReduce*"
means = "wait_peer"
[[range]]
name = "send grads"
means = "wire"
link = "gradients"
[[link]]
name = "gradients"
from = "compute"
to = "update"
capacity = 8
)",
                                      "pools.toml");
  ASSERT_TRUE(mapping.ok()) << mapping.error().message;
  EXPECT_EQ(mapping->MatchRange("NCCL", "", "ncclAllReduceRing")->category, Category::kWaitPeer);
  EXPECT_EQ(mapping->MatchRange("any", "", "send grads")->stage, Stage::kWire);
  EXPECT_EQ(mapping->MatchRange("any", "", "send grads")->link, "gradients");
  EXPECT_FALSE(mapping->MatchRange("any", "", "other").has_value());
  EXPECT_EQ(mapping->MatchWorker({"t", "python train.py -x", "h", 0})->role, "other");
  ASSERT_EQ(mapping->links().size(), 1u);
  EXPECT_EQ(mapping->links()[0].lanes, 1);
}

TEST(Mapping, Typo_NamesTheKeyTheLineAndTheNearestKey) {
  EXPECT_THAT(ErrorOf("[[worker]]\nthraed = \"a\"\npool = \"p\"\n"),
              AllOf(HasSubstr("pools.toml:2:"), HasSubstr("'thraed'"), HasSubstr("'thread'")));
  EXPECT_THAT(ErrorOf("[[wroker]]\npool = \"p\"\n"),
              AllOf(HasSubstr("pools.toml:1:"), HasSubstr("'worker'")));
  EXPECT_THAT(ErrorOf("[[range]]\nname = \"x\"\nmeans = \"wrok\"\n"), HasSubstr("'work'"));
  EXPECT_THAT(ErrorOf("[[range]]\nname = \"x\"\nmeans = \"blocked\"\nlink = \"l\"\n"),
              HasSubstr("'blocked_link'"))
      << "a shortened word";
  EXPECT_THAT(ErrorOf("[[worker]]\nthread = \"a\"\npool = \"p\"\nrole = \"updat\"\n"),
              AllOf(HasSubstr("pools.toml:4:"), HasSubstr("'update'")));
}

TEST(Mapping, MissingOrWrongValues_AreNamed) {
  EXPECT_THAT(ErrorOf("[[worker]]\nthread = \"a\"\n"), HasSubstr("needs the key 'pool'"));
  EXPECT_THAT(ErrorOf("[[worker]]\nthread = 3\npool = \"p\"\n"), HasSubstr("in quotes"));
  EXPECT_THAT(ErrorOf("[[worker]]\npool = \"p\"\n"), HasSubstr("matches everything"));
  EXPECT_THAT(ErrorOf("[[range]]\nname = \"x\"\nmeans = \"wire\"\n"), HasSubstr("'link'"));
  EXPECT_THAT(ErrorOf("[[worker]\n"), HasSubstr("pools.toml:1:"));
  EXPECT_THAT(ErrorOf("worker = 3\n"), HasSubstr("[[worker]]"));
  const auto missing = Mapping::Load("/nonexistent/pools.toml");
  ASSERT_FALSE(missing.ok());
  EXPECT_THAT(missing.error().message, HasSubstr("/nonexistent/pools.toml"));
}

}  // namespace
}  // namespace poolscope
