// Every shape of NVTX payload, by tests/support/nvtx_payloads.c.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/nvtx_job.h"

namespace poolscope::support {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

class Payloads : public testing::Test {
 protected:
  void SetUp() override {
    result_ = jobs_.Run("nvtx_payloads", {});
    ASSERT_EQ(result_.exit_code, 0);
    view_ = jobs_.OnlySession();
  }
  // All fields of the event, the groups put together.
  std::map<std::string, std::string> Of(const std::string& name) {
    std::map<std::string, std::string> fields;
    const ViewedEvent* event = view_.Find(name);
    EXPECT_NE(event, nullptr) << name;
    if (event == nullptr) return fields;
    for (const auto& [schema, group] : event->payload) fields.insert(group.begin(), group.end());
    return fields;
  }

  Jobs jobs_;
  JobResult result_;
  SessionView view_;
};

TEST_F(Payloads, Arrays_AreFixedCountedOrTerminated) {
  EXPECT_THAT(Of("arrays"),
              UnorderedElementsAre(Pair("length", "2"), Pair("fixed", "-1 2 -3"),
                                   Pair("values", "0.500000 -1.500000"), Pair("shape", "7 8 9"),
                                   Pair("dimensions", "4 5")));
  EXPECT_THAT(Of("matrix"),
              UnorderedElementsAre(Pair("dimensions", "2 3"), Pair("cells", "1 2 3 4 5 6")));
}

TEST_F(Payloads, ArraysOfStructures_GiveAnArrayForEachField) {
  EXPECT_THAT(Of("structures"),
              UnorderedElementsAre(Pair("points.x", "1.000000 3.000000"), Pair("points.y", "2 4"),
                                   Pair("middle.x", "2.000000"), Pair("middle.y", "3")));
}

TEST_F(Payloads, DynamicLayouts_AreFollowed) {
  EXPECT_THAT(Of("dynamic"),
              UnorderedElementsAre(Pair("length", "2"), Pair("values", "1.250000 2.500000"),
                                   Pair("text", "hello"), Pair("after", "77")));
}

TEST_F(Payloads, OfAUnion_TheMemberThatIsChosenIsRecorded) {
  EXPECT_THAT(Of("union of a whole number"),
              UnorderedElementsAre(Pair("kind", "0"), Pair("value.whole", "-9")));
  EXPECT_THAT(Of("union of a real number"),
              UnorderedElementsAre(Pair("kind", "1"), Pair("value.real", "0.750000")));
  EXPECT_THAT(Of("union with a tag"),
              UnorderedElementsAre(Pair("tag", "2"), Pair("share", "0.250000")));
}

TEST_F(Payloads, SeveralOfOneEvent_MayPointIntoEachOther) {
  EXPECT_THAT(Of("plain numbers"), ElementsAre(Pair("values", "5 -6 7")));
  EXPECT_THAT(Of("into another payload"),
              UnorderedElementsAre(Pair("inside", "-6 7"), Pair("values", "2")));
}

TEST_F(Payloads, ChosenIdsAndEnumerations_AreFoundAsNcclMakesThem) {
  EXPECT_THAT(Of("all-reduce"),
              UnorderedElementsAre(Pair("communicator", "2748"), Pair("bytes", "4096"),
                                   Pair("operation", "2"), Pair("operation.name", "Max")));
}

TEST_F(Payloads, NamesOfEnumerations_StandBesideTheirValues) {
  EXPECT_THAT(Of("a mode"),
              UnorderedElementsAre(Pair("narrow", "-1"), Pair("narrow.name", "unknown"),
                                   Pair("flags", "5"), Pair("flags.name", "read|execute"),
                                   Pair("other", "7"), Pair("other.name", "")));
  EXPECT_THAT(Of("a mode within"),
              ::testing::IsSupersetOf({Pair("mode.narrow", "3"), Pair("mode.narrow.name", "third"),
                                       Pair("mode.flags.name", "write")}));
}

TEST_F(Payloads, WideTexts_BecomeUtf8) {
  EXPECT_THAT(Of("wide texts"), UnorderedElementsAre(Pair("sixteen", "k\xc3\xa9\xf0\x9f\x98\x80"),
                                                     Pair("thirty_two", "w\xe4\xb8\xad")));
}

TEST_F(Payloads, WhatDoesNotFitOrIsNotThere_IsCountedAndTheRestKept) {
  const std::string many = Of("too many").at("many");
  EXPECT_TRUE(many.starts_with("0 1 2 3 ")) << many;
  EXPECT_TRUE(many.ends_with(" 30")) << many;  // 32 words, one of them the group's
  EXPECT_THAT(Of("dynamic that lies"), ElementsAre(Pair("length", "60000")));
  EXPECT_THAT(Of("an address of nothing"), ElementsAre(Pair("values", "2")));
  EXPECT_THAT(Of("an odd enumeration"), IsEmpty());
  EXPECT_THAT(view_.losses, ElementsAre(Pair("payload_too_large", 4u)));
}

}  // namespace
}  // namespace poolscope::support
