// What NVTX calls become in the session. The jobs are tests/support/nvtx_probe.c.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <set>

#include "tests/support/nvtx_job.h"
#include "trace/event.h"

namespace poolscope::support {
namespace {

using testing::ElementsAre;
using testing::Pair;
using testing::UnorderedElementsAre;

class Capture : public testing::Test {
 protected:
  // Runs one scenario; its session.
  SessionView After(const std::string& scenario) {
    result_ = jobs_.Run("nvtx_probe", {scenario});
    EXPECT_EQ(result_.exit_code, 0);
    EXPECT_EQ(result_.err, "");
    return jobs_.OnlySession();
  }
  const ViewedEvent& Event(const SessionView& view, const std::string& name) {
    const ViewedEvent* event = view.Find(name);
    EXPECT_NE(event, nullptr) << name;
    static const ViewedEvent kNone{};
    return event != nullptr ? *event : kNone;
  }
  size_t Definitions(const SessionView& view, DefinitionKind kind) {
    size_t count = 0;
    for (const auto& definition : view.definitions) count += definition.kind == kind ? 1 : 0;
    return count;
  }

  Jobs jobs_;
  JobResult result_;
};

TEST_F(Capture, CoreCalls_AreRecordedWithLevelsAndPlainValues) {
  const SessionView view = After("core");
  EXPECT_EQ(result_.out, "level 0\nlevel 1\nlevel 2\nlevel 2\nlevel 1\nlevel 0\ndone core\n");
  ASSERT_EQ(view.events.size(), 9u);
  EXPECT_THAT(view.losses, ElementsAre());
  const ViewedEvent& inner = Event(view, "push ex");
  EXPECT_EQ(inner.kind, RecordKind::kRange);
  EXPECT_EQ(inner.depth, 1u);
  EXPECT_EQ(inner.category, 7u);
  EXPECT_EQ(static_cast<int64_t>(inner.value), -5);
  const ViewedEvent& outer = Event(view, "push a");
  EXPECT_EQ(outer.depth, 0u);
  EXPECT_LE(outer.start, inner.start);
  EXPECT_GE(outer.end, inner.end);
  EXPECT_EQ(Event(view, "push w \xc3\xa9 \xe4\xb8\xad \xf0\x9f\x98\x80").depth, 2u);
  EXPECT_EQ(Event(view, "mark a").kind, RecordKind::kMark);
  EXPECT_EQ(std::bit_cast<double>(Event(view, "mark ex").value), 2.5);
  EXPECT_EQ(Event(view, "mark ex").flags, kRecordHasValue | kRecordFloat);
  for (const char* name : {"start a", "start w", "start ex"}) {
    EXPECT_EQ(Event(view, name).kind, RecordKind::kProcessRange) << name;
  }
  EXPECT_EQ(Event(view, "start ex").category, 3u);
  ASSERT_EQ(Definitions(view, DefinitionKind::kCategory), 1u);
  ASSERT_EQ(Definitions(view, DefinitionKind::kThreadName), 1u);
  EXPECT_EQ(view.definitions[1].id, view.pid);
  EXPECT_EQ(view.strings.at(view.definitions[1].Word(0)), "probe main");
}

TEST_F(Capture, DomainsOfOneName_AreOneDomain) {
  const SessionView view = After("core2");
  EXPECT_EQ(result_.out, "same domain 1\ndone core2\n");
  EXPECT_THAT(view.domains,
              ElementsAre(Pair(1, "domain one"), Pair(2, "domain two"), Pair(3, "nvtx.object")));
  ASSERT_EQ(view.events.size(), 4u);
  EXPECT_EQ(Event(view, "registered").domain, "domain one");
  EXPECT_EQ(view.events[1].domain, "domain two");
  EXPECT_EQ(view.events[2].domain, "domain one");
  EXPECT_EQ(view.events[2].kind, RecordKind::kProcessRange);
  EXPECT_EQ(Event(view, "a resource").payload.at("nvtx.object").at("kind"), "pointer");
  bool seen = false;
  for (const auto& definition : view.definitions) {
    if (definition.kind != DefinitionKind::kResource) continue;
    seen = true;
    EXPECT_EQ(definition.Word(0), 0x1234u);
    EXPECT_EQ(definition.Word(2), 2u);  // domain
    EXPECT_EQ(view.strings.at(definition.Word(3)), "a resource");
  }
  EXPECT_TRUE(seen);
}

TEST_F(Capture, Annotations_CarryTheirPayloads) {
  const SessionView view = After("annotate");
  EXPECT_THAT(view.losses, ElementsAre());
  const ViewedEvent& work = Event(view, "forward");
  EXPECT_EQ(work.domain, kPoolscopeDomain);
  EXPECT_EQ(work.category, static_cast<uint32_t>(Category::kWork));
  EXPECT_THAT(
      work.payload.at("poolscope.work"),
      UnorderedElementsAre(Pair("step", "3"), Pair("micro_batch", "1"), Pair("version", "9"),
                           Pair("scope", "0"), Pair("cpu_ns", std::to_string(kNoValue))));
  EXPECT_THAT(Event(view, "weights").payload.at("poolscope.wait"),
              UnorderedElementsAre(Pair("source", "1"), Pair("sequence", "12")));
  const auto& transfer = Event(view, "gradients").payload.at("poolscope.transfer");
  EXPECT_THAT(transfer, UnorderedElementsAre(Pair("stage", "2"), Pair("source", "2"),
                                             Pair("destination", "4"), Pair("sequence", "77"),
                                             Pair("version", "5"), Pair("applied_version", "6"),
                                             Pair("raw_bytes", "1000"), Pair("wire_bytes", "500"),
                                             Pair("step", "3"), Pair("micro_batch", "1"),
                                             Pair("codec", "bf16")));
  const ViewedEvent& queued = Event(view, "queued link");
  EXPECT_EQ(queued.kind, RecordKind::kProcessRange);
  EXPECT_EQ(queued.payload.at("poolscope.transfer").at("stage"), "0");
  EXPECT_EQ(queued.payload.at("poolscope.transfer").at("codec"), "");
  EXPECT_EQ(Event(view, "step").payload.at("poolscope.step").at("loss"), "1.250000");
  EXPECT_EQ(Event(view, "discarded").category, static_cast<uint32_t>(Category::kDiscard));
  const ViewedEvent& depth = Event(view, "gradients.depth");
  EXPECT_EQ(depth.kind, RecordKind::kCounter);
  EXPECT_EQ(std::bit_cast<double>(depth.value), 3.5);
  std::set<std::string> resources;
  for (const auto& definition : view.definitions) {
    if (definition.kind == DefinitionKind::kResource) {
      resources.insert(view.strings.at(definition.Word(3)));
    }
  }
  EXPECT_THAT(resources,
              UnorderedElementsAre("worker compute 2 compute", "link gradients compute update 4 1",
                                   "setting mode sync"));
}

TEST_F(Capture, PayloadFields_AreWidenedByTheirTypes) {
  const SessionView view = After("payload");
  EXPECT_EQ(result_.out, "schema id kept 1\ndone payload\n");
  EXPECT_EQ(view.Count("named by payload"), 3u);
  for (const ViewedEvent& event : view.events) {
    if (event.name != "named by payload") continue;
    EXPECT_THAT(event.payload.at("mixed"),
                UnorderedElementsAre(Pair("small", "-3"), Pair("medium", "60000"),
                                     Pair("negative", "-70000"), Pair("real", "0.500000"),
                                     Pair("text", "named by payload"), Pair("inplace", "sixchr"),
                                     Pair("wide", "9223372036854775808")));
  }
}

TEST_F(Capture, NameGivenAtTheEnd_IsTheRanges) {
  const SessionView view = After("payload");
  EXPECT_EQ(view.Count("last name"), 2u);
  EXPECT_EQ(view.Count("first name"), 0u);
}

TEST_F(Capture, SchemasOfOneNameAndTwoLayouts_StayApart) {
  const SessionView view = After("payload");
  const ViewedEvent& both = Event(view, "two payloads");
  EXPECT_EQ(both.payload.at("mixed").size(), 7u);
  EXPECT_THAT(both.payload.at("mixed#2"), UnorderedElementsAre(Pair("small", "-3")));
}

TEST_F(Capture, PayloadOfNoSchema_IsCountedAndTheEventKept) {
  const SessionView view = After("payload");
  EXPECT_THAT(view.losses, ElementsAre(Pair("payload_too_large", 1u)));
  EXPECT_EQ(view.events.back().payload.size(), 0u);
  EXPECT_EQ(view.events.size(), 7u);
}

TEST_F(Capture, Counters_AreRecordedInTheirType) {
  const SessionView view = After("counters");
  ASSERT_EQ(view.events.size(), 4u);
  EXPECT_EQ(static_cast<int64_t>(view.events[0].value), -42);
  EXPECT_EQ(view.events[0].flags, 0);
  EXPECT_EQ(view.events[1].value, 0u);
  EXPECT_EQ(view.events[2].name, "single");
  EXPECT_EQ(std::bit_cast<double>(view.events[2].value), 0.25);
  EXPECT_EQ(std::bit_cast<double>(view.events[3].value), 8.0);
  EXPECT_EQ(view.events[3].flags, kRecordFloat);
  EXPECT_EQ(Definitions(view, DefinitionKind::kCounter), 2u);
}

TEST_F(Capture, SameTextAtTwoAddresses_IsOneName) {
  const SessionView view = After("names");
  EXPECT_EQ(view.Count("twice the same text"), 2u);
  size_t strings = 0;
  for (const auto& [id, text] : view.strings) strings += text == "twice the same text" ? 1 : 0;
  EXPECT_EQ(strings, 1u);
}

TEST_F(Capture, RewrittenBuffer_GivesEachTextItsName) {
  const SessionView view = After("names");
  for (const char* digit : {"0", "1", "2"}) {
    EXPECT_EQ(view.Count(std::string("rewritten ") + digit), 2u);
    EXPECT_EQ(view.Count(std::string("rewritten, and longer than thirty-two bytes ") + digit), 2u);
  }
}

TEST_F(Capture, OddNames_AreTakenSafely) {
  const SessionView view = After("names");
  EXPECT_EQ(view.Count("edge"), 1u);
  EXPECT_EQ(view.Count(std::string(kMaxStringBytes, 'x')), 1u);
  EXPECT_EQ(view.Count(""), 2u);
}

TEST_F(Capture, StackDeeperThanTheTable_IsCountedExactly) {
  const SessionView view = After("deep");
  EXPECT_EQ(view.Count("deep"), size_t{kMaxOpenRanges});
  EXPECT_EQ(view.Count("after"), 1u);
  EXPECT_THAT(view.losses, UnorderedElementsAre(Pair("open_table_full", 100 - kMaxOpenRanges),
                                                Pair("unmatched_end", 1u)));
}

TEST_F(Capture, StacksOfTwoDomains_DoNotMix) {
  const SessionView view = After("interleaved");
  EXPECT_EQ(result_.out, "level 1\ndone interleaved\n");
  ASSERT_EQ(view.events.size(), 3u);
  EXPECT_EQ(view.events[0].name, "b");
  EXPECT_EQ(view.events[0].depth, 0u);
  EXPECT_EQ(view.events[1].name, "c");
  EXPECT_EQ(view.events[1].depth, 1u);
  EXPECT_EQ(view.events[2].name, "a");
  EXPECT_THAT(view.losses, ElementsAre());
}

TEST_F(Capture, RangeEndedByAnotherThread_KnowsBoth) {
  const SessionView view = After("across");
  ASSERT_EQ(view.Count("crossing"), 1u);
  const ViewedEvent& range = Event(view, "crossing");
  EXPECT_EQ(range.start_tid, view.pid);
  EXPECT_NE(range.tid, range.start_tid);
  EXPECT_THAT(view.losses, ElementsAre(Pair("unmatched_end", 1u)));
}

TEST_F(Capture, OneHundredThousandNames_EndInTheOverflowName) {
  const JobResult result = jobs_.Run("nvtx_storm", {"--ranges", "100000", "--names", "100000"});
  EXPECT_EQ(result.exit_code, 0);
  const SessionView view = jobs_.OnlySession();
  EXPECT_EQ(view.strings.size(), size_t{kMaxStrings});
  EXPECT_EQ(view.losses.at("too_many_names"), 100'000u - (kMaxStrings - 1));
  EXPECT_GT(view.Count("(too many names)"), 0u);
}

}  // namespace
}  // namespace poolscope::support
