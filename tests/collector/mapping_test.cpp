#include "collector/mapping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "collector/glob.h"
#include "collector/number_set.h"
#include "collector/presets.h"

namespace poolscope {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string ErrorOf(std::string_view toml) {
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

TEST(Mapping, Numbers_AreListsOfRanges) {
  const auto set = NumberSet::Parse("0-3, 8,16-17");
  ASSERT_TRUE(set.has_value());
  EXPECT_EQ(set->PlaceOf(0), 0u);
  EXPECT_EQ(set->PlaceOf(3), 3u);
  EXPECT_EQ(set->PlaceOf(8), 4u);
  EXPECT_EQ(set->PlaceOf(17), 6u);
  EXPECT_FALSE(set->Contains(4));
  for (const char* bad : {"", "a", "3-1", "1,", "1-", "-1", "1 2", "99999999999999999999"}) {
    EXPECT_FALSE(NumberSet::Parse(bad).has_value()) << bad;
  }
}

// The pool and index that a mapping gives a thread: "update 3", "" where it has none.
std::string WorkerOf(const Mapping& mapping, const ThreadFacts& facts) {
  const auto matches = mapping.MatchWorkers(facts);
  if (matches.empty()) return "";
  return matches.front().rule->pool + " " + std::to_string(matches.front().index);
}

Mapping Parsed(const char* toml) {
  auto mapping = Mapping::Parse(toml, "pools.toml");
  EXPECT_TRUE(mapping.ok()) << mapping.error().message;
  return mapping.ok() ? std::move(*mapping) : Mapping{};
}

TEST(Mapping, ReferenceTrainerPreset_MapsItsThreadNames) {
  const auto mapping = Mapping::Load("reference-trainer");
  ASSERT_TRUE(mapping.ok()) << mapping.error().message;
  const ProcessFacts process;
  EXPECT_EQ(WorkerOf(*mapping, {"update/3", process, {}}), "update 3");
  EXPECT_EQ(mapping->MatchWorkers({"update/3", process, {}}).front().rule->role, "update");
  EXPECT_EQ(WorkerOf(*mapping, {"link/gradients/0", process, {}}), "");
  EXPECT_EQ(WorkerOf(*mapping, {"compute/x", process, {}}), "");
}

TEST(Mapping, Rank_GivesThePoolAndTheWorkersPlaceInIt) {
  const Mapping mapping = Parsed(R"(
[[worker]]
rank = "0-3,8"
pool = "compute"
[[worker]]
rank = 4
pool = "update"
)");
  const auto of = [&](const char* variable, const char* rank) {
    ProcessFacts process;
    process.SetVariable(variable, rank);
    return WorkerOf(mapping, {"any", process, {}});
  };
  EXPECT_EQ(of("RANK", "2"), "compute 2");
  EXPECT_EQ(of("OMPI_COMM_WORLD_RANK", "8"), "compute 4");
  EXPECT_EQ(of("SLURM_PROCID", "4"), "update 0");
  EXPECT_EQ(of("SLURM_PROCID", "5"), "");
  EXPECT_EQ(of("RANK", "x"), "");
  EXPECT_EQ(WorkerOf(mapping, {"any", ProcessFacts(), {}}), "") << "no rank is not rank 0";
  ProcessFacts both;  // torchrun under srun: the rank of the launcher that is nearer
  both.SetVariable("RANK", "1");
  both.SetVariable("SLURM_PROCID", "4");
  EXPECT_EQ(WorkerOf(mapping, {"any", both, {}}), "compute 1");
}

TEST(Mapping, EveryConditionOfARule_MustHold) {
  const Mapping mapping = Parsed(R"(
[[worker]]
env = ["DMLC_ROLE=server", "ZONE=eu-*"]
process = "*ps.py*"
host = "gpu-?"
pool = "update"
)");
  ProcessFacts process("python ps.py", "gpu-1");
  EXPECT_EQ(WorkerOf(mapping, {"", process, {}}), "");
  process.SetVariable("DMLC_ROLE", "server");
  process.SetVariable("ZONE", "eu-north");
  EXPECT_EQ(WorkerOf(mapping, {"", process, {}}), "update -1") << "the next free number";
  EXPECT_FALSE(mapping.MatchWorkers({"", process, {}}).front().rule->per_thread);
  process.host = "gpu-12";
  EXPECT_EQ(WorkerOf(mapping, {"", process, {}}), "");
  EXPECT_THAT(mapping.Variables(), ::testing::ElementsAre("DMLC_ROLE", "ZONE"));
}

TEST(Mapping, DevicesStreamsAndCommunicators_MatchLanesAlone) {
  const Mapping mapping = Parsed(R"(
[[worker]]
device = "0-1"
stream = "7"
pool = "rollout"
[[worker]]
device = "0-3"
pool = "trainer"
index = "device"
[[worker]]
communicator = "*pp0*"
pool = "other"
)");
  const ProcessFacts process;
  const auto stream = [&](uint64_t device, uint64_t number) {
    return WorkerOf(mapping,
                    {"device", process, Lane{LaneKind::kDeviceStream, device, number, ""}});
  };
  EXPECT_EQ(stream(1, 7), "rollout -1");
  EXPECT_EQ(stream(1, 8), "trainer 1");
  EXPECT_EQ(stream(3, 7), "trainer 3");
  EXPECT_EQ(stream(4, 7), "");
  EXPECT_EQ(WorkerOf(mapping, {"device 0 stream 7", process, {}}), "") << "a thread of that name";
  const Lane lane{LaneKind::kCommunicator, kNoDevice, 0, "NCCL pp0 00ff"};
  EXPECT_EQ(WorkerOf(mapping, {"", process, lane}), "other -1");
}

RangeFacts Range(std::string_view domain, std::string_view name, std::string_view pool = "") {
  return {domain, "", name, "", pool, ""};
}

TEST(Mapping, Ranges_AreToldApartByPoolThreadAndCommunicator) {
  const Mapping mapping = Parsed(R"(
[[range]]
name = "step"
pool = "update"
means = "work"
[[range]]
name = "step"
thread = "loader*"
means = "input"
[[range]]
domain = "nccl"
communicator = "*pp0*"
means = "wait_peer"
)");
  EXPECT_TRUE(mapping.ranges_by_thread());
  EXPECT_EQ(mapping.MatchRange(Range("", "step", "update"))->category_meant, Category::kWork);
  EXPECT_EQ(mapping.MatchRange(Range("", "step", "compute")), nullptr);
  EXPECT_EQ(mapping.MatchRange({"", "", "step", "loader 1", "", ""})->category_meant,
            Category::kInput);
  EXPECT_EQ(mapping.MatchRange({"nccl", "", "AllReduce", "", "", "NCCL pp0 ff"})->line, 10u);
  EXPECT_EQ(mapping.MatchRange({"nccl", "", "AllReduce", "", "", "NCCL tp ff"}), nullptr);
}

TEST(Mapping, Copies_GoByTheirDirection) {
  const Mapping mapping = Parsed(R"(
[[range]]
copy = "device to host"
means = "wire"
link = "gradients"
[[range]]
copy = "* to device"
means = "wire"
link = "weights"
)");
  EXPECT_EQ(mapping.MatchRange(Range("cuda", "copy device to pinned"))->link, "gradients");
  EXPECT_EQ(mapping.MatchRange(Range("cuda", "copy device to pageable"))->link, "gradients");
  EXPECT_EQ(mapping.MatchRange(Range("cuda", "copy pinned to device"))->link, "weights");
  EXPECT_EQ(mapping.MatchRange(Range("cuda", "copy device to array")), nullptr);
  EXPECT_EQ(mapping.MatchRange(Range("mine", "copy device to pinned")), nullptr);
}

TEST(Mapping, StepsAndMeanings_AreToldApart) {
  const Mapping mapping = Parsed(R"(
[[range]]
name = "optimizer*"
means = "step"
tokens = 4096
loss = "loss"
[[range]]
name = "optimizer*"
means = "work"
)");
  EXPECT_EQ(mapping.MatchRange(Range("", "optimizer.step"))->category_meant, Category::kWork);
  const Mapping::RangeRule* step = mapping.MatchStep(Range("", "optimizer.step"));
  ASSERT_NE(step, nullptr);
  EXPECT_EQ(step->value(Mapping::Field::kTokens).constant, 4096);
  EXPECT_EQ(step->value(Mapping::Field::kLoss).field, "loss");
  EXPECT_FALSE(step->value(Mapping::Field::kVersion).given());
}

TEST(Mapping, RulesThatHoldForATime_AreFollowedByThoseAfter) {
  const Mapping mapping = Parsed(R"(
[[worker]]
device = 3
until_version = 100
pool = "rollout"
[[worker]]
device = 3
from_seconds = 60.5
pool = "trainer"
[[worker]]
device = "0-7"
pool = "spare"
[[worker]]
device = "0-7"
pool = "never"
)");
  const ProcessFacts process;
  std::vector<std::string> pools;
  for (const auto& match :
       mapping.MatchWorkers({"", process, Lane{LaneKind::kDeviceStream, 3, 7, ""}})) {
    pools.push_back(match.rule->pool);
  }
  EXPECT_THAT(pools, ::testing::ElementsAre("rollout", "trainer", "spare"));
  EXPECT_EQ(mapping.workers()[1].period.from_ns, 60'500'000'000);
  EXPECT_THAT(mapping.VersionBounds(), ::testing::ElementsAre(100));
  EXPECT_THAT(ErrorOf("[[worker]]\nrank = 1\npool = \"p\"\nfrom_version = 3\nuntil_version = 3\n"),
              HasSubstr("never holds"));
  EXPECT_THAT(ErrorOf("[[worker]]\nrank = 1\npool = \"p\"\nfrom_seconds = \"3\"\n"),
              HasSubstr("seconds"));
}

TEST(Mapping, PoolsAndSettings_BecomeSettingsOfTheRun) {
  const Mapping mapping = Parsed(R"(
[[pool]]
name = "rollout"
devices_per_replica = 8
device_type = "h100"
memory_bytes = 85899345920
batch = 512
[settings]
mode = "async"
lag_bound = 2
)");
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"rollout.devices_per_replica", "8"},
      {"rollout.memory_bytes", "85899345920"},
      {"rollout.batch", "512"},
      {"rollout.device_type", "h100"},
      {"mode", "async"},
      {"lag_bound", "2"}};
  EXPECT_EQ(mapping.settings(), expected);
}

TEST(Mapping, FieldsThatAMeaningDoesNotHave_AreRefused) {
  const auto range = [](const std::string& keys) {
    return ErrorOf(("[[range]]\nname = \"x\"\n" + keys).c_str());
  };
  EXPECT_THAT(range("means = \"input\"\ntokens = 3\n"),
              AllOf(HasSubstr("'tokens'"), HasSubstr("no effect")));
  EXPECT_THAT(range("means = \"step\"\nbytes = 3\n"), HasSubstr("no effect"));
  EXPECT_THAT(range("means = \"step\"\ntokens = -1\n"), HasSubstr("from 0"));
  EXPECT_THAT(range("means = \"step\"\ntokens = true\n"), HasSubstr("payload field"));
  EXPECT_THAT(ErrorOf("[[counter]]\nname = \"q\"\nmeans = \"queue\"\n"), HasSubstr("LINK.depth"));
  EXPECT_THAT(ErrorOf("[settings]\nmode = \"asink\"\n"), HasSubstr("'async'"));
  EXPECT_THAT(ErrorOf("[[settings]]\nmode = \"async\"\n"), HasSubstr("[settings]"));
  EXPECT_THAT(ErrorOf("[settings]\nmod = \"async\"\n"),
              AllOf(HasSubstr("in [settings]"), HasSubstr("'mode'")));
  EXPECT_THAT(ErrorOf("[[pool]]\nname = \"p\"\nbatch = 0\n"), HasSubstr("at least 1"));
}

// Any bytes are a mapping or one line of error: nothing crashes, hangs or throws.
TEST(Malicious_Mapping, MutatedFiles_AreMappingsOrOneLineErrors) {
  std::mt19937 random(7);
  const auto below = [&](size_t n) {
    return std::uniform_int_distribution<size_t>(0, n - 1)(random);
  };
  size_t refused = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string text(Presets()[below(Presets().size())].toml);
    for (size_t edits = 1 + below(6); edits-- > 0 && !text.empty();) {
      const size_t at = below(text.size());
      const size_t length = std::min(text.size() - at, 1 + below(40));
      switch (below(4)) {
        case 0:
          text[at] = static_cast<char>(below(256));
          break;
        case 1:
          text.erase(at, length);
          break;
        case 2:
          text.insert(at, text.substr(below(text.size()), length));
          break;
        default:
          text.insert(at, std::string(1 + below(3), "[]=\"\n#.{}0-9*"[below(14)]));
      }
    }
    const auto mapping = Mapping::Parse(text, "pools.toml");
    if (mapping.ok()) {
      const ProcessFacts process("python", "host");
      (void)mapping->MatchWorkers({"compute/1", process, {}});
      (void)mapping->MatchRange(Range("", "forward"));
      continue;
    }
    ++refused;
    EXPECT_THAT(mapping.error().message, ::testing::StartsWith("pools.toml:"));
    EXPECT_EQ(mapping.error().message.find('\n'), std::string::npos) << text;
  }
  EXPECT_GT(refused, 1000u);
}

TEST(Mapping, Presets_AllParse) {
  for (const Preset& preset : Presets()) {
    const auto mapping = Mapping::Load(std::string(preset.name));
    EXPECT_TRUE(mapping.ok()) << mapping.error().message;
  }
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
  EXPECT_EQ(mapping->MatchRange(Range("NCCL", "ncclAllReduceRing"))->category_meant,
            Category::kWaitPeer);
  EXPECT_EQ(mapping->MatchRange(Range("any", "send grads"))->stage, Stage::kWire);
  EXPECT_EQ(mapping->MatchRange(Range("any", "send grads"))->link, "gradients");
  EXPECT_EQ(mapping->MatchRange(Range("any", "other")), nullptr);
  const ProcessFacts process("python train.py -x", "h");
  EXPECT_EQ(mapping->MatchWorkers({"t", process, {}}).front().rule->role, "other");
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

TEST(Mapping, NamesOfPoolsAndLinks_AreWordsOfBoundedLength) {
  const std::string link = "[[link]]\nname = \"g\"\nfrom = \"a\"\nto = \"b\"\n";
  EXPECT_EQ(ErrorOf(link), "");
  EXPECT_EQ(ErrorOf("[[worker]]\nthread = \"t\"\npool = \"" + std::string(100, 'p') + "\"\n"), "");
  for (const std::string& name : {std::string("a b"), std::string("a\\nb"),
                                  std::string("a\\u001b[31m"), std::string(101, 'p')}) {
    EXPECT_THAT(ErrorOf("[[worker]]\nthread = \"t\"\npool = \"" + name + "\"\n"),
                HasSubstr("pools.toml:3: 'pool' must be a name"));
    EXPECT_THAT(ErrorOf("[[link]]\nname = \"" + name + "\"\nfrom = \"a\"\nto = \"b\"\n"),
                HasSubstr("pools.toml:2: 'name' must be a name"));
    EXPECT_THAT(ErrorOf("[[range]]\nmeans = \"wire\"\nlink = \"" + name + "\"\n"),
                HasSubstr("pools.toml:3: 'link' must be a name"));
  }
}

TEST(Mapping, WhatIsGivenTwice_IsRefused) {
  const std::string link = "[[link]]\nname = \"g\"\nfrom = \"a\"\nto = \"b\"\n";
  EXPECT_THAT(ErrorOf(link + link), HasSubstr("pools.toml:6: link 'g' is given in line 1 already"));
  const std::string pool = "[[pool]]\nname = \"a\"\nbatch = 4\n";
  EXPECT_THAT(ErrorOf(pool + pool), HasSubstr("pools.toml:5: pool 'a' is given twice"));
  EXPECT_EQ(ErrorOf(pool + "[[pool]]\nname = \"ab\"\nbatch = 4\n"), "");
}

TEST(Mapping, MissingOrWrongValues_AreNamed) {
  EXPECT_THAT(ErrorOf("[[worker]]\nthread = \"a\"\n"), HasSubstr("needs the key 'pool'"));
  EXPECT_THAT(ErrorOf("[[worker]]\nthread = 3\npool = \"p\"\n"), HasSubstr("in quotes"));
  EXPECT_THAT(ErrorOf("[[worker]]\npool = \"p\"\n"), HasSubstr("matches everything"));
  EXPECT_THAT(ErrorOf("[[range]]\nname = \"x\"\nmeans = \"wire\"\n"), HasSubstr("'link'"));
  EXPECT_THAT(ErrorOf("[[worker]]\nrank = \"3-1\"\npool = \"p\"\n"), HasSubstr("0-7,12"));
  EXPECT_THAT(ErrorOf("[[worker]]\nthread = \"a\"\nindex = \"*\"\npool = \"p\"\n"),
              HasSubstr("'*' in 'thread'"));
  EXPECT_THAT(ErrorOf("[[range]]\ncopy = \"up\"\nmeans = \"work\"\n"), HasSubstr("A to B"));
  EXPECT_THAT(ErrorOf("[[range]]\nname = \"x\"\nmeans = \"work\"\nlink = \"l\"\n"),
              HasSubstr("no effect"));
  EXPECT_THAT(ErrorOf("[[worker]]\nrank = 1\nper = \"thread\"\npool = \"p\"\n"),
              HasSubstr("no effect"));
  EXPECT_THAT(ErrorOf("[[worker]]\nenv = []\npool = \"p\"\n"), HasSubstr("'env' is empty"));
  EXPECT_THAT(ErrorOf("[[worker]\n"), HasSubstr("pools.toml:1:"));
  EXPECT_THAT(ErrorOf("worker = 3\n"), HasSubstr("[[worker]]"));
  const auto missing = Mapping::Load("/nonexistent/pools.toml");
  ASSERT_FALSE(missing.ok());
  EXPECT_THAT(missing.error().message, HasSubstr("/nonexistent/pools.toml"));
}

}  // namespace
}  // namespace poolscope
