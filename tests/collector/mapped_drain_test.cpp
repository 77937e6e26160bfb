// What the collector makes of a mapping, from sessions to rows of the store.
#include <gmock/gmock.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cstring>
#include <fstream>
#include <map>

#include "collector/mapping_check.h"
#include "tests/collector/drain_fixture.h"
#include "tests/support/child_process.h"

namespace poolscope {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kSecond = 1'000'000'000;

class MappedDrain : public Drain {
 protected:
  void Map(const std::string& toml) {
    options_.pools = files_.path() / "pools.toml";
    std::ofstream(options_.pools) << toml;
  }
  // "compute 0": what each thread is, by its name or number.
  std::map<std::string, std::string> Workers() {
    std::map<std::string, std::string> workers;
    auto store = OpenStore();
    const auto threads = store->Threads(store->FindRun("")->run_id);
    for (const ThreadRow& row : *threads) {
      workers[row.name.empty() ? std::to_string(row.tid) : row.name] =
          row.pool.empty() ? "" : row.pool + " " + std::to_string(row.worker_index);
    }
    return workers;
  }
  MappingCheck Check(const std::string& toml) {
    const auto mapping = Mapping::Parse(toml, "pools.toml");
    EXPECT_TRUE(mapping.ok()) << mapping.error().message;
    auto store = OpenStore();
    auto seen = ReadSeen(*store, "");
    EXPECT_TRUE(seen.ok()) << seen.error().message;
    return CheckMapping(*mapping, *seen);
  }
};

constexpr char kByRank[] = R"([[worker]]
rank = "0-1"
pool = "compute"
[[worker]]
rank = "2-3"
pool = "update"
)";

TEST_F(MappedDrain, RankFromTheProcessEnvironment_MakesThePool) {
  Map(kByRank);
  const ChildProcess first({"RANK=1", "SECRET=1"}), second({"OMPI_COMM_WORLD_RANK=3"});
  auto of = Session(1);
  of.pid = first.pid();
  FakeSession one(of);
  of = Session(2);
  of.pid = second.pid();
  FakeSession two(of);
  FakeSession three(Session(3));  // of no process of this system
  one.Mark(7, 10, one.Name("m"));
  one.Mark(8, 10, one.Name("m"));
  two.Mark(9, 10, two.Name("m"));
  three.Mark(10, 10, three.Name("m"));
  auto collector = Open();
  DrainOnce(*collector);
  const std::map<std::string, std::string> expected = {
      {"7", "compute 1"}, {"8", "compute 1"}, {"9", "update 1"}, {"10", ""}};
  EXPECT_EQ(Workers(), expected);
  // What the mapping needs is kept, so that another one can be tried; what it does not is not.
  EXPECT_EQ(Check(kByRank).matched_nothing, 0);
  EXPECT_EQ(Check("[[worker]]\nrank = 5\npool = \"p\"\n").matched_nothing, 1);
  auto store = OpenStore();
  const auto facts = store->ProcessFacts(one.path().stem());
  EXPECT_EQ(facts->size(), 2u) << "its rank, and that its environment was read";
  for (const ProcessFactRow& row : *facts) {
    EXPECT_THAT(row.key, Not(HasSubstr("SECRET")));
  }
}

TEST_F(MappedDrain, ThreadsOfOneProcess_AreOneWorkerUnlessTheRuleNamesThreads) {
  Map("[[worker]]\nprocess = \"fake*\"\npool = \"compute\"\n");
  FakeSession one(Session(1)), two(Session(2));
  for (const uint32_t tid : {7, 8}) one.Mark(tid, 10, one.Name("m"));
  two.Mark(9, 10, two.Name("m"));
  two.Lane(0, {two.Name("device 0 stream 7"), LaneKind::kDeviceStream, 0, 1, 7});
  two.Activity(9, 0, 10, 11, two.Name("gemm"));
  auto collector = Open();
  DrainOnce(*collector);
  auto workers = Workers();
  EXPECT_EQ(workers["7"], workers["8"]);
  EXPECT_NE(workers["7"], workers["9"]);
  EXPECT_EQ(workers["device 0 stream 7"], workers["9"]);
}

TEST_F(MappedDrain, DevicesOfOneProcess_CanBeWorkersOfTwoPools) {
  Map("[[worker]]\ndevice = 0\npool = \"rollout\"\n[[worker]]\ndevice = 1\npool = \"trainer\"\n");
  FakeSession session(Session());
  uint32_t lane = 0;
  for (const uint64_t device : {0, 1}) {
    for (const uint64_t stream : {7, 13}) {
      const std::string name =
          "device " + std::to_string(device) + " stream " + std::to_string(stream);
      session.Lane(lane, {session.Name(name), LaneKind::kDeviceStream, device, 1, stream});
      session.Activity(7, lane++, 10, 11, session.Name("gemm"));
    }
  }
  auto collector = Open();
  DrainOnce(*collector);
  auto workers = Workers();
  EXPECT_EQ(workers["device 0 stream 7"], "rollout 0");
  EXPECT_EQ(workers["device 0 stream 13"], "rollout 0") << "streams of a device are one worker";
  EXPECT_EQ(workers["device 1 stream 7"], "trainer 0");
  EXPECT_EQ(Check("[[worker]]\ndevice = 1\nstream = 13\npool = \"p\"\n").matched_nothing, 0);
}

TEST_F(MappedDrain, WorkersThatGotTheNextFreeNumber_KeepItAfterARestart) {
  Map("[[worker]]\nthread = \"gpu *\"\npool = \"compute\"\n");
  FakeSession session(Session());
  for (const uint32_t tid : {7, 8, 9}) {
    session.ThreadName(tid, "gpu " + std::to_string(tid));
    session.Mark(tid, 10, session.Name("m"));
  }
  auto collector = Open();
  DrainOnce(*collector);
  const auto before = Workers();
  EXPECT_EQ(std::set<std::string>({before.at("gpu 7"), before.at("gpu 8"), before.at("gpu 9")}),
            std::set<std::string>({"compute 0", "compute 1", "compute 2"}));
  collector.reset();
  collector = Open();
  for (const uint32_t tid : {9, 8, 7}) session.Mark(tid, 20, session.Name("m"));
  DrainOnce(*collector);
  EXPECT_EQ(Workers(), before);
  EXPECT_EQ(OpenStore()->Workers(OpenStore()->FindRun("")->run_id)->size(), 3u);
}

TEST_F(MappedDrain, ThreadThatTheJobDoesNotName_GoesByTheSystemsName) {
  char old[16];
  prctl(PR_GET_NAME, old);
  prctl(PR_SET_NAME, "rollout-3");
  Map("[[worker]]\nthread = \"rollout-*\"\npool = \"rollout\"\nindex = \"*\"\n");
  auto of = Session();
  of.pid = static_cast<uint32_t>(getpid());
  FakeSession session(of);
  session.Mark(static_cast<uint32_t>(syscall(SYS_gettid)), 10, session.Name("m"));
  auto collector = Open();
  DrainOnce(*collector);
  prctl(PR_SET_NAME, old);
  EXPECT_EQ(Workers()["rollout-3"], "rollout 3");
}

TEST_F(MappedDrain, ThreadThatIsGone_GoesByTheNameThatItBeganWith) {
  Map("[[worker]]\nthread = \"rollout-*\"\npool = \"rollout\"\nindex = \"*\"\n");
  FakeSession session(Session());  // its process is none that we can see
  std::strcpy(session.slot(session.SlotOf(7)).name, "rollout-3");
  std::memcpy(session.slot(session.SlotOf(8)).name, "\x1b[31m rollout-4!", 16);
  for (const uint32_t tid : {7, 8}) session.Mark(tid, 10, session.Name("m"));
  auto collector = Open();
  DrainOnce(*collector);
  EXPECT_EQ(Workers()["rollout-3"], "rollout 3");
  EXPECT_TRUE(Workers().contains("?[31m rollout-4!")) << "a hostile session ends no name";
}

// Seconds that worker 0 of the pool was in a state.
double InState(Result<Store> store, const std::string& pool, State state) {
  double seconds = 0;
  const auto windows = store->WorkerWindows(store->FindRun("")->run_id, {});
  for (const WorkerWindowRow& row : *windows) {
    if (row.pool == pool) seconds += static_cast<double>(row.state_ns[static_cast<size_t>(state)]);
  }
  return seconds / kSecond;
}

TEST_F(MappedDrain, ARangeMeansWhatTheRuleForItsPoolAndCategorySays) {
  const std::string toml = R"([[worker]]
thread = "a"
pool = "compute"
[[worker]]
thread = "b"
pool = "update"
[[range]]
name = "step"
pool = "compute"
means = "work"
[[range]]
name = "step"
category = "slow"
means = "input"
[[range]]
name = "never"
means = "work"
)";
  Map(toml);
  FakeSession session(Session());
  const uint32_t domain = session.Domain("training");
  const uint32_t text[] = {domain, session.Name("slow")};
  session.Define(DefinitionKind::kCategory, 5, std::as_bytes(std::span(text)));
  session.ThreadName(7, "a");
  session.ThreadName(8, "b");
  session.Range(7, 10 * kSecond, 12 * kSecond, session.Name("step"), 5, domain);
  session.Range(8, 10 * kSecond, 13 * kSecond, session.Name("step"), 5, domain);
  session.Range(8, 13 * kSecond, 14 * kSecond, session.Name("other"), 0, domain);
  auto collector = Open();
  DrainOnce(*collector);
  session.Exit();
  DrainOnce(*collector);
  EXPECT_NEAR(InState(OpenStore(), "compute", State::kBusy), 2, 1e-6);
  EXPECT_NEAR(InState(OpenStore(), "update", State::kInput), 3, 1e-6);
  const MappingCheck check = Check(toml);
  EXPECT_EQ(check.matched_nothing, 1) << check.text;
  EXPECT_THAT(check.text, HasSubstr("line 15   range   name = 'never'"));
  EXPECT_THAT(check.text, HasSubstr("3.000 s: step"));
  EXPECT_THAT(check.text, HasSubstr("no rule gives a meaning: other (1.000 s)"));
}

TEST_F(MappedDrain, Check_SaysWhichEarlierRuleTakesAll) {
  Map("");
  FakeSession session(Session());
  session.ThreadName(7, "a");
  session.Mark(7, 10, session.Name("m"));
  auto collector = Open();
  DrainOnce(*collector);
  const MappingCheck check = Check(
      "[[worker]]\nthread = \"*\"\npool = \"x\"\n[[worker]]\nthread = \"a\"\npool = \"y\"\n"
      "[[link]]\nname = \"l\"\nfrom = \"x\"\nto = \"y\"\n");
  EXPECT_EQ(check.matched_nothing, 2) << check.text;
  EXPECT_THAT(check.text, HasSubstr("nothing: all that it fits, line 1 takes before it"));
  EXPECT_THAT(check.text, HasSubstr("nothing: no thread works for pool y"));
}

}  // namespace
}  // namespace poolscope
