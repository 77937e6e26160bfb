#include "tests/viewer/run_in_store.h"

namespace poolscope {
namespace {

class StatePicture : public RunInStore {
 protected:
  // "busy 0-60 idle 60-100": the states of a worker in the first 100 us.
  std::string States(const std::string& pool) {
    Flush();
    ChunkCache cache(size_t{1} << 20);
    const auto catalog = *ReadCatalog(*store_, kRun, nullptr);
    PictureMaker maker(*store_, cache, *catalog);
    for (const Lane& lane : catalog->lanes) {
      if (lane.kind != LaneKind::kStates || lane.subject != pool) continue;
      const auto picture = *maker.Make(*catalog, lane, {kStart, kStart + 100'000, 100, true, {}});
      std::string text;
      for (const StateColumn& column : picture->states) {
        for (size_t i = 0; i < column.share.size(); ++i) {
          if (column.share[i] != 255) continue;
          text += (text.empty() ? "" : " ") + std::string(StateName(static_cast<State>(i))) + " " +
                  std::to_string((column.begin_ns - kStart) / 1000) + "-" +
                  std::to_string((column.end_ns - kStart) / 1000);
        }
      }
      return text;
    }
    return "no lane";
  }
};

TEST_F(StatePicture, CategoriesOfOtherDomainsAreTheProgramsOwn) {
  Add(8, "model", Category::kWork, "load batch", 0, 60);  // its category 1 is "data"
  Add(8, "poolscope", Category::kInput, "load batch", 0, 60);
  EXPECT_EQ(States("update"), "input 0-60 idle 60-100");
}

TEST_F(StatePicture, StagesOnTheWorkersOwnThreadAreItsStates) {
  AddTransfer(7, Stage::kEncode, 0, 20);
  AddTransfer(7, Stage::kWire, 20, 40);
  AddTransfer(7, Stage::kWire, 40, 100, kEventStartEnd);  // on no thread
  AddTransfer(8, Stage::kDecode, 40, 60);
  AddTransfer(8, Stage::kApply, 60, 80);
  EXPECT_EQ(States("compute"), "blocked_link 0-40 idle 40-100");
  EXPECT_EQ(States("update"), "idle 0-40 wait_link 40-60 busy 60-80 idle 80-100");
}

TEST_F(StatePicture, KernelsAreTheirLaunchersAndHostWorkFeedsTheDevice) {
  Add(7, "poolscope", Category::kWork, "forward", 0, 50);
  AddKernel("_Z4gemmPf", 7, 10, 30);
  AddKernel("_Z9optimizerPf", 8, 60, 70);
  AddKernel("_Z28ncclDevKernel_AllReduce_Sum", 7, 70, 90);
  EXPECT_EQ(States("compute"),
            "host_bound 0-10 busy 10-30 host_bound 30-50 idle 50-70 wait_peer 70-90 idle 90-100");
  EXPECT_EQ(States("update"), "idle 0-60 busy 60-70 idle 70-100");
}

TEST_F(StatePicture, StreamThatAMappingGaveIsItsWorkersWhoeverLaunches) {
  ASSERT_TRUE(
      store_->Put(ProcessFactRow{"5e55", "lane_mapped." + std::to_string(kStream), "yes"}).ok());
  Add(7, "poolscope", Category::kInput, "batch", 0, 10);
  AddKernel("_Z4gemmPf", 7, 10, 30);
  EXPECT_EQ(States("compute"), "input 0-10 idle 10-100");
  EXPECT_EQ(States("update"), "idle 0-10 busy 10-30 idle 30-100");
}

TEST_F(StatePicture, WhatAMappingSaysOfAKernelTakesItsPlace) {
  AddKernel("_Z8evaluatePf", 8, 10, 30);
  AddKernel("_Z4gemmPf", 8, 40, 50);
  const uint64_t cuda = *store_->Intern("cuda");
  const uint64_t name = *store_->Intern("_Z8evaluatePf");
  Add(kStream | kMappedTid, "poolscope", Category::kOtherWork, "_Z8evaluatePf", 10, 30,
      {{"poolscope.mapped", {cuda, name}}});
  EXPECT_EQ(States("update"), "idle 0-10 other_work 10-30 idle 30-40 busy 40-50 idle 50-100");
}

}  // namespace
}  // namespace poolscope
