// Sessions whose bytes are not what a writer would have left.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <fstream>
#include <random>

#include "tests/collector/drain_fixture.h"

namespace poolscope {
namespace {

using ::testing::HasSubstr;

TEST_F(Drain, Malicious_RingBytes_AreCountedAndTheNextOnesRead) {
  FakeSession session(Session());
  auto collector = Open();
  session.Mark(7, 10, session.Name("m"));
  session.Mark(7, 11, session.Name("m"));
  session.RingOf(7)[3] = 0xffff'ffff'ffff'ffff;  // the second record's header
  DrainOnce(*collector);
  session.Mark(7, 12, session.Name("m"));
  DrainOnce(*collector);
  EXPECT_EQ(Stored().size(), 2u);
  auto store = OpenStore();
  const auto losses = store->EventLosses(store->FindRun("")->run_id);
  ASSERT_EQ(losses->size(), 1u);
  EXPECT_EQ((*losses)[0].cause, "undecodable");
  EXPECT_EQ((*losses)[0].place, "collector");
}

TEST_F(Drain, Malicious_RandomBytesAsASession_AreRefusedInOneLine) {
  const auto path = folder_.path() / (std::string(32, 'a') + kSessionSuffix);
  {
    std::ofstream file(path, std::ios::binary);
    std::mt19937 random(1);
    for (int i = 0; i < 1 << 16; ++i) file.put(static_cast<char>(random()));
  }
  chmod(path.c_str(), 0600);
  const timespec old[2] = {{1, 0}, {1, 0}};
  utimensat(AT_FDCWD, path.c_str(), old, 0);
  auto collector = Open();
  DrainOnce(*collector);
  const auto warnings = collector->TakeWarnings();
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(warnings[0], HasSubstr(path.string()));
  DrainOnce(*collector);
  EXPECT_TRUE(collector->TakeWarnings().empty()) << "said once";
}

TEST_F(Drain, Malicious_TruncatedUnderTheCollector_StopsOnlyThatSession) {
  FakeSession good(Session(1));
  FakeSession bad(Session(2));
  auto collector = Open();
  good.Mark(7, 10, good.Name("m"));
  bad.Mark(7, 10, bad.Name("m"));
  DrainOnce(*collector);
  bad.Truncate(100);
  good.Mark(7, 11, good.Name("m"));
  DrainOnce(*collector);
  EXPECT_EQ(collector->TakeWarnings().size(), 1u);
  EXPECT_EQ(Stored().size(), 3u);
  DrainOnce(*collector);
  auto store = OpenStore();
  const auto losses = store->EventLosses(store->FindRun("")->run_id);
  ASSERT_EQ(losses->size(), 1u);
  EXPECT_EQ((*losses)[0].cause, "unknown_count");
  EXPECT_FALSE((*losses)[0].events.has_value());
}

TEST_F(Drain, Malicious_SlotThatIsNone_IsCountedOnce) {
  FakeSession session(Session());
  auto collector = Open();
  session.Mark(7, 10, session.Name("m"));
  session.slot(0).ring_bytes = 12345;
  for (int round = 0; round < 5; ++round) DrainOnce(*collector);
  auto store = OpenStore();
  const auto losses = store->EventLosses(store->FindRun("")->run_id);
  ASSERT_EQ(losses->size(), 1u);
  EXPECT_EQ((*losses)[0].cause, "undecodable");
  EXPECT_EQ((*losses)[0].events, 1);
}

TEST_F(Drain, Malicious_FlippedBytesAnywhere_NeverStopTheCollector) {
  std::mt19937 random(7);
  auto collector = Open();
  for (int i = 0; i < 60; ++i) {
    FakeSession::Options options = Session();
    options.session_id = std::string(30, '0') + std::to_string(10 + i);
    FakeSession session(options);
    const uint32_t domain = session.Domain("poolscope");
    session.Resource(domain, 7, "worker compute 0 compute");
    for (int k = 0; k < 50; ++k) session.Range(7, 10 + k, 11 + k, session.Name("n"), 1, domain);
    session.Push(7, 100, session.Name("open"));
    const size_t interesting[] = {0, kDefinitionsAt, kProcessRangesAt, kSlotsAt, kRingsAt};
    for (int k = 0; k < 20; ++k) {
      session.FlipByte(interesting[random() % 5] + 16 + random() % 400);
    }
    DrainOnce(*collector);
    if (random() % 2 == 0) session.KillWriter();
    DrainOnce(*collector);
  }
}

}  // namespace
}  // namespace poolscope
