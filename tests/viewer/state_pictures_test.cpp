#include <gtest/gtest.h>

#include "tests/support/temp_folder.h"
#include "viewer/picture.h"

namespace poolscope {
namespace {

constexpr int64_t kStart = 1'760'000'000'000'000'000;
constexpr const char* kRun = "0123456789abcdef0123456789abcdef";
constexpr int64_t kStream = kFirstLaneThread + 1;

// Workers compute 0 (thread 7, a device's) and update 0 (thread 8), a link between them, and a
// stream that is the worker's of thread 8. Times in us from the run's start.
class StatePicture : public ::testing::Test {
 protected:
  void SetUp() override {
    Result<Store> store = Store::Open(folder_.path() / "run.db", Store::Mode::kWrite);
    ASSERT_TRUE(store.ok()) << store.error().message;
    store_.emplace(std::move(*store));
    ASSERT_TRUE(store_->Begin().ok());
    ASSERT_TRUE(store_->Put(RunRow{kRun, "host", "job", kStart, kStart + 1'000'000, true}).ok());
    ASSERT_TRUE(store_->Put(ProcessRow{"5e55", kRun, "host", "job", 1, 0, kStart}).ok());
    for (const char* pool : {"compute", "update"}) {
      ASSERT_TRUE(store_->Put(PoolRow{kRun, pool, pool, 1}).ok());
    }
    ASSERT_TRUE(store_->Put(WorkerRow{kRun, "compute", 0, "5e55", "cuda:0"}).ok());
    ASSERT_TRUE(store_->Put(WorkerRow{kRun, "update", 0, "5e55", "cpu"}).ok());
    ASSERT_TRUE(store_->Put(LinkRow{kRun, "gradients", "compute", "update", 4, 1}).ok());
    threads_[7] = *store_->PutThread({0, "5e55", 7, "host", "compute", 0});
    threads_[8] = *store_->PutThread({0, "5e55", 8, "update", "update", 0});
    threads_[kStream] = *store_->PutThread({0, "5e55", kStream, "device 0 stream 7", "update", 0});
    threads_[kStream | kMappedTid] = *store_->PutThread(
        {0, "5e55", kStream | kMappedTid, "device 0 stream 7 (as mapped)", "update", 0});
  }

  struct Groups {
    const char* schema = nullptr;
    std::vector<uint64_t> fields;
  };
  void Add(int64_t tid, const char* domain, Category category, const char* name, int64_t begin_us,
           int64_t end_us, const std::vector<Groups>& groups = {}, uint8_t flags = 0) {
    EventBatch& batch = batches_[tid];
    Event event;
    event.start_ns = kStart + begin_us * 1000;
    event.duration_ns = (end_us - begin_us) * 1000;
    event.name = *store_->Intern(name);
    event.domain = *store_->Intern(domain);
    event.category = static_cast<uint32_t>(category);
    event.flags = flags;
    event.payload_offset = static_cast<uint32_t>(batch.words.size());
    for (const Groups& group : groups) {
      batch.words.push_back(*store_->Intern(group.schema) | uint64_t{group.fields.size()} << 32);
      batch.words.insert(batch.words.end(), group.fields.begin(), group.fields.end());
    }
    event.payload_words = static_cast<uint16_t>(batch.words.size() - event.payload_offset);
    batch.events.push_back(event);
  }
  void AddKernel(const char* name, uint64_t launch_tid, int64_t begin_us, int64_t end_us) {
    Add(kStream, "cuda", Category::kNone, name, begin_us, end_us,
        {{"cuda.kernel", {1, launch_tid, 0, 0, 64, 256}}});
  }
  void AddTransfer(int64_t tid, Stage stage, int64_t begin_us, int64_t end_us, uint8_t flags = 0) {
    std::vector<uint64_t> fields(kTransferFields, kNoValue);
    fields[kTransferStage] = static_cast<uint64_t>(stage);
    Add(tid, "poolscope", Category::kTransfer, "gradients", begin_us, end_us,
        {{"poolscope.transfer", fields}}, flags);
  }

  // "busy 0-60 idle 60-100": the states of a worker in the first 100 us.
  std::string States(const std::string& pool) {
    if (!batches_.empty()) {
      for (const auto& [tid, batch] : batches_) {
        const int64_t track = *store_->TrackId({0, kRun, threads_.at(tid), 1, 0});
        EXPECT_TRUE(store_->Append(track, batch).ok());
      }
      EXPECT_TRUE(store_->Commit().ok());
      batches_.clear();
    }
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

  TempFolder folder_;
  std::optional<Store> store_;
  std::map<int64_t, int64_t> threads_;  // the store's id by tid
  std::map<int64_t, EventBatch> batches_;
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
