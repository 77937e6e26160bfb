#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "store/store.h"

#define ASSERT_OK(expression)                             \
  do {                                                    \
    const auto outcome = (expression);                    \
    ASSERT_TRUE(outcome.ok()) << outcome.error().message; \
  } while (false)

// The vocabulary of the store's tests.
namespace poolscope::testing {

// A folder of the test's own, removed with all in it.
class Scratch {
 public:
  Scratch() {
    std::string pattern = (std::filesystem::temp_directory_path() / "store-test-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path operator/(const std::string& name) const { return folder_ / name; }

 private:
  std::filesystem::path folder_;
};

// The store, or the end of the test program with the reason.
inline Store Opened(const std::filesystem::path& path, Store::Mode mode) {
  auto store = Store::Open(path, mode);
  if (!store.ok()) {
    ADD_FAILURE() << store.error().message;
    std::abort();
  }
  return std::move(*store);
}

// `count` ranges of one name, one every 1000 ns from `first_ns`, 600 ns long.
inline EventBatch Ranges(size_t count, int64_t first_ns, uint32_t name = 1) {
  EventBatch batch;
  for (size_t i = 0; i < count; ++i) {
    Event event;
    event.start_ns = first_ns + static_cast<int64_t>(i) * 1000;
    event.duration_ns = 600;
    event.name = name;
    batch.events.push_back(event);
  }
  return batch;
}

// A track of run "run", process "session", thread 7, of a kind; the rows are put if they are new.
inline int64_t MakeTrack(Store& store, uint32_t kind = 1) {
  EXPECT_TRUE(store.Put(RunRow{"run", "host", "train", 1, 2, false}).ok());
  EXPECT_TRUE(store.Put(ProcessRow{"session", "run", "host", "train", 42, 1, 1, 0, ""}).ok());
  const auto thread = store.PutThread({0, "session", 7, "worker 3", "compute", 3});
  EXPECT_TRUE(thread.ok());
  const auto track = store.TrackId({0, "run", thread.value(), kind, 0});
  EXPECT_TRUE(track.ok());
  return track.value();
}

inline std::vector<Event> AllEvents(const Store& store) {
  std::vector<Event> events;
  const Status status = store.ReadEvents("run", {}, [&](const TrackRow&, const EventBatch& part) {
    events.insert(events.end(), part.events.begin(), part.events.end());
    return true;
  });
  EXPECT_TRUE(status.ok()) << status.error().message;
  return events;
}

}  // namespace poolscope::testing
