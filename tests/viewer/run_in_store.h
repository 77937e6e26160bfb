#pragma once

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/temp_folder.h"
#include "viewer/picture.h"

namespace poolscope {

inline constexpr int64_t kStart = 1'760'000'000'000'000'000;
inline constexpr const char* kRun = "0123456789abcdef0123456789abcdef";
inline constexpr int64_t kStream = kFirstLaneThread + 1;

// Workers compute 0 (thread 7, a device's) and update 0 (thread 8), a link between them, and a
// stream that is the worker's of thread 8. Times in us from the run's start.
class RunInStore : public ::testing::Test {
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

  // A group of payload.
  struct Group {
    const char* schema = nullptr;
    std::vector<uint64_t> fields;
  };
  void Add(int64_t tid, const char* domain, Category category, const char* name, int64_t begin_us,
           int64_t end_us, const std::vector<Group>& groups = {}, uint8_t flags = 0) {
    EventBatch& batch = batches_[tid];
    Event event;
    event.start_ns = kStart + begin_us * 1000;
    event.duration_ns = (end_us - begin_us) * 1000;
    event.name = *store_->Intern(name);
    event.domain = *store_->Intern(domain);
    event.category = static_cast<uint32_t>(category);
    event.flags = flags;
    event.payload_offset = static_cast<uint32_t>(batch.words.size());
    for (const Group& group : groups) {
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

  // Makes what was added visible to readers.
  void Flush() {
    if (batches_.empty()) return;
    for (const auto& [tid, batch] : batches_) {
      const int64_t track = *store_->TrackId({0, kRun, threads_.at(tid), 1, 0});
      EXPECT_TRUE(store_->Append(track, batch).ok());
    }
    EXPECT_TRUE(store_->Commit().ok());
    batches_.clear();
  }

  TempFolder folder_;
  std::optional<Store> store_;
  std::map<int64_t, int64_t> threads_;  // the store's id by tid
  std::map<int64_t, EventBatch> batches_;
};

}  // namespace poolscope
