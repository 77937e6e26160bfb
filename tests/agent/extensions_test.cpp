// NVTX's extensions and its less used modules: objects, locks, colours, events and counters of the
// past. The jobs are tests/support/nvtx_extensions.c and nvtx_client.c.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <sstream>

#include "tests/support/nvtx_job.h"

namespace poolscope::support {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

class Extensions : public testing::Test {
 protected:
  SessionView After(const std::string& program, const std::string& scenario) {
    jobs_.environment = {"POOLSCOPE_CLOCK=monotonic"};  // times are read as they are
    result_ = jobs_.Run(program, {scenario});
    EXPECT_EQ(result_.exit_code, 0);
    EXPECT_EQ(result_.err, "");
    return jobs_.OnlySession();
  }
  // The numbers that the job printed, one a line.
  std::vector<int64_t> Printed() const {
    std::istringstream lines(result_.out);
    std::vector<int64_t> numbers;
    for (int64_t number; lines >> number;) numbers.push_back(number);
    return numbers;
  }

  Jobs jobs_;
  JobResult result_;
};

TEST_F(Extensions, EverySlotOfEveryModule_IsFilled) {
  // The memory extension says what a sanitizer of device memory wants to know.
  EXPECT_EQ(jobs_.Run("nvtx_client", {"slots"}).out,
            "init 1\npayload init 1\ncounters init 1\nmemory init 0\n");
}

TEST_F(Extensions, NamedObjects_AreMarksWithTheirIds) {
  const SessionView view = After("nvtx_client", "objects");
  std::vector<std::string> seen;
  for (const ViewedEvent& event : view.events) {
    EXPECT_EQ(event.kind, RecordKind::kMark);
    EXPECT_EQ(event.domain, "nvtx.object");
    const auto& object = event.payload.at("nvtx.object");
    seen.push_back(event.name + ": " + object.at("what") + " " + object.at("kind") + " " +
                   object.at("id"));
  }
  EXPECT_THAT(
      seen,
      ElementsAre("the third: named cuda device 3", "main context: named cuda context 256",
                  "copies \xc3\xa9: named cuda stream 512", "done: named cuda event 768",
                  "update device: named cuda runtime device 1", "compute: named cuda stream 1024",
                  "step: named cuda event 1280", "queue: named opencl command queue 1536"));
}

TEST_F(Extensions, LockOfTheJobsOwn_IsARangeOfWaitingAndAMarkOfRelease) {
  const SessionView view = After("nvtx_extensions", "sync");
  ASSERT_EQ(view.events.size(), 4u);
  const auto said = [&](size_t i) { return view.events[i].payload.at("nvtx.sync"); };
  EXPECT_EQ(view.events[0].kind, RecordKind::kRange);
  EXPECT_EQ(view.events[0].name, "queue lock");
  EXPECT_THAT(said(0), UnorderedElementsAre(Pair("what", "failed"), Pair("object", "1"),
                                            Pair("domain", "locks")));
  EXPECT_THAT(said(1), UnorderedElementsAre(Pair("what", "acquired"), Pair("object", "2"),
                                            Pair("domain", "locks")));
  EXPECT_EQ(view.events[2].kind, RecordKind::kMark);
  EXPECT_EQ(said(2).at("what"), "releasing");
  EXPECT_EQ(view.events[3].name, "around");
  EXPECT_THAT(view.losses, ElementsAre(Pair("unmatched_end", 1u)));
}

TEST_F(Extensions, Colours_AreKeptBesideTheEventsOwnPayload) {
  const SessionView view = After("nvtx_extensions", "colors");
  ASSERT_EQ(view.events.size(), 3u);
  EXPECT_THAT(view.events[0].payload, IsEmpty());
  EXPECT_EQ(view.events[1].payload.at("nvtx.color").at("color"), std::to_string(0xff00ff80));
  EXPECT_EQ(view.events[2].payload.at("nvtx.color").at("color"), std::to_string(0xffff0000));
  EXPECT_EQ(view.events[2].value, 7u);
}

TEST_F(Extensions, EventsOfThePast_ComeOutAtTheirTimesWhateverTheClock) {
  const SessionView view = After("nvtx_extensions", "deferred");
  const std::vector<int64_t> expected = Printed();
  ASSERT_EQ(view.events.size(), 6u);
  ASSERT_EQ(expected.size(), 6u);
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto start = static_cast<int64_t>(view.events[i].start);
    EXPECT_EQ(view.events[i].kind, RecordKind::kProcessRange);
    // Each by a clock of which the other reading is a moment later.
    EXPECT_LT(std::abs(start - expected[i]), 1'000'000) << view.events[i].name;
  }
  for (const size_t exact : {0, 2, 3, 4}) {
    EXPECT_EQ(static_cast<int64_t>(view.events[exact].start), expected[exact]);
  }
  const ViewedEvent& first = view.events[0];
  EXPECT_EQ(first.name, "by the monotonic clock");
  EXPECT_EQ(first.category, 9u);
  EXPECT_EQ(first.end - first.start, 1'000'000u);
  EXPECT_EQ(first.flags & kRecordMonotonic, kRecordMonotonic);
  EXPECT_EQ(first.payload.at("monotonic").at("bytes"), "77");
  EXPECT_EQ(view.events[2].end - view.events[2].start, 100'000u);    // 100 ticks of 1 MHz
  EXPECT_EQ(view.events[5].flags & kRecordMonotonic, 0);             // the session's own ticks
  EXPECT_THAT(view.losses, ElementsAre(Pair("unknown_clock", 1u)));  // a GPU's
}

TEST_F(Extensions, BatchOfEvents_KeepsOrderAndScope) {
  const SessionView view = After("nvtx_extensions", "event_batch");
  ASSERT_EQ(view.events.size(), 3u);
  EXPECT_EQ(static_cast<int64_t>(view.events[0].start), Printed().at(0));
  EXPECT_EQ(view.events[2].name, "third");
  for (const ViewedEvent& event : view.events) {
    EXPECT_EQ(event.end - event.start, 100u);
    EXPECT_EQ(event.payload.at("nvtx.scope").at("scope"), "GPU[CUDAID:1]");
  }
}

TEST_F(Extensions, BatchOfSamples_HasTheTimesThatItGives) {
  const SessionView view = After("nvtx_extensions", "counter_batch");
  const int64_t now = Printed().at(0);
  std::vector<int64_t> before;  // ns before `now`
  std::vector<uint64_t> values;
  for (const ViewedEvent& event : view.events) {
    if (event.name != "node/GPU[CUDAID:0]/clock") continue;
    before.push_back(now - static_cast<int64_t>(event.start));
    values.push_back(event.value);
  }
  ASSERT_EQ(before.size(), 12u);
  EXPECT_THAT(std::vector<int64_t>(before.begin(), before.begin() + 9),
              ElementsAre(3000, 2000, 1000, 900, 800, 700, 200, 100, 0));
  EXPECT_LT(before[9], 0);  // submitted without a time, after `now`
  EXPECT_THAT(values, ElementsAre(10, 20, 30, 10, 20, 30, 10, 20, 30, 10, 20, 30));
  std::vector<std::string> members;
  for (const ViewedEvent& event : view.events) {
    if (!event.name.starts_with("engine/")) continue;
    const double value = (event.flags & kRecordFloat) != 0 ? std::bit_cast<double>(event.value)
                                                           : static_cast<double>(event.value);
    std::ostringstream text;
    text << event.name << " " << value << " at " << static_cast<int64_t>(event.start) - now;
    members.push_back(text.str());
  }
  EXPECT_THAT(members, ElementsAre("engine/load 0.5 at -50", "engine/queue 4 at -50",
                                   "engine/load 0.75 at -25", "engine/queue 5 at -25"));
  EXPECT_THAT(view.losses, IsEmpty());
}

}  // namespace
}  // namespace poolscope::support
