// What comes for windows that are closed.
#include <rapidcheck.h>

#include <algorithm>
#include <numeric>

#include "tests/collector/run_of_two.h"

namespace poolscope {
namespace {

TEST_F(Windows, DeviceActivityThatComesLate_IsCountedInItsClosedWindows) {
  builder_.Add(At(Category::kWork, update_, 0, 100));
  builder_.Add(At(Category::kWork, compute_, 0, 100));
  EXPECT_EQ(Close(4000).size(), 4u);
  EXPECT_LE(builder_.LateBefore(compute_), kT0);
  Activity kernel = At(Category::kWork, compute_, 500, 3500);
  kernel.on_device = true;
  builder_.Add(kernel);
  const auto windows = Close(4000);
  ASSERT_EQ(windows.size(), 4u);
  const double busy[] = {0.6, 1, 1, 0.5};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(windows[i].start_ns, kT0 + static_cast<int64_t>(i) * 1000 * kMs);
    ASSERT_EQ(windows[i].workers.size(), 2u);
    ASSERT_EQ(windows[i].pools.size(), 2u);
    EXPECT_DOUBLE_EQ(windows[i].pools[0].busy_ratio, busy[i]) << i;
    EXPECT_EQ(windows[i].pools[0].pool, "compute");
  }
  EXPECT_TRUE(Close(4000).empty());
}

TEST_F(Windows, WaitThatADeviceActivityCoversLate_IsTakenBack) {
  builder_.Add(At(Category::kWork, compute_, 0, 1));
  builder_.Add(At(Category::kWaitLink, update_, 0, 1000, gradients_));
  auto windows = Close(1000);
  ASSERT_EQ(windows[0].worker_links.size(), 1u);
  EXPECT_EQ(windows[0].worker_links[0].wait_ns, 1000 * kMs);
  Activity kernel = At(Category::kWork, update_, 0, 400);
  kernel.on_device = true;
  builder_.Add(kernel);
  windows = Close(1000);
  ASSERT_EQ(windows.size(), 1u);
  ASSERT_EQ(windows[0].worker_links.size(), 1u);
  EXPECT_EQ(windows[0].worker_links[0].wait_ns, 600 * kMs);
  EXPECT_EQ(windows[0].worker_links[0].unattributed_ns, 600 * kMs);
  kernel = At(Category::kWork, update_, 400, 1000);
  kernel.on_device = true;
  builder_.Add(kernel);
  windows = Close(1000);
  ASSERT_EQ(windows[0].worker_links.size(), 1u);  // over what is stored
  EXPECT_EQ(windows[0].worker_links[0].wait_ns, 0);
  EXPECT_EQ(windows[0].worker_links[0].link, "gradients");
  EXPECT_DOUBLE_EQ(windows[0].pools[1].busy_ratio, 1);
}

TEST_F(Windows, WorkerThatADeviceActivityBringsForward_KeepsItsRow) {
  builder_.Add(At(Category::kWork, update_, 0, 1));
  builder_.Add(At(Category::kWork, compute_, 1500, 1600));
  Close(2000);
  Activity kernel = At(Category::kWork, compute_, 700, 1900);
  kernel.on_device = true;
  builder_.Add(kernel);
  const auto windows = Close(2000);
  ASSERT_EQ(windows.size(), 2u);
  const auto compute = [&](const WindowRows& rows) {
    return *std::find_if(rows.workers.begin(), rows.workers.end(),
                         [](const auto& row) { return row.pool == "compute"; });
  };
  EXPECT_EQ(compute(windows[0]).start_ns, kT0 + 700 * kMs);
  EXPECT_EQ(compute(windows[0]).window_ns, 300 * kMs);
  EXPECT_EQ(compute(windows[1]).start_ns, kT0 + 1500 * kMs);  // as it was stored
  EXPECT_EQ(compute(windows[1]).state_ns[static_cast<size_t>(State::kBusy)], 400 * kMs);
}

TEST_F(Windows, WindowsAreClosedForGood_AfterAWhileOrManyActivities) {
  builder_.Add(At(Category::kWork, compute_, 0, 100));
  Close(60'000);
  EXPECT_EQ(builder_.LateBefore(compute_), kT0 + 40'000 * kMs);
  for (int i = 0; i < 10'000; ++i) {
    builder_.Add(At(Category::kWork, compute_, 60'000 + i / 20, 60'001 + i / 20));
  }
  Close(62'000);
  EXPECT_GT(builder_.LateBefore(compute_), kT0 + 60'000 * kMs);
  EXPECT_EQ(builder_.LateBefore(update_), kT0 + 42'000 * kMs);
}

TEST_F(Windows, WhateverComesLateOfDevices_GivesTheWindowsThatItGivesInTime) {
  EXPECT_TRUE(rc::check([this] {
    using States = std::map<std::pair<int64_t, std::string>, std::array<int64_t, 11>>;
    const auto take = [](const std::vector<WindowRows>& windows, States& states) {
      for (const WindowRows& rows : windows) {
        for (const WorkerWindowRow& row : rows.workers) {
          static_assert(sizeof(row.state_ns) <= sizeof(States::mapped_type));
          auto& to = states[{row.start_ns, row.pool}];
          std::copy(row.state_ns.begin(), row.state_ns.end(), to.begin());
          RC_ASSERT(std::accumulate(row.state_ns.begin(), row.state_ns.end(), int64_t{0}) ==
                    row.window_ns);
        }
      }
    };
    WindowBuilder late(model_), in_time(model_);
    States of_late, of_in_time;
    int64_t now = 0;
    for (WindowBuilder* builder : {&late, &in_time}) {
      builder->StartAt(kT0);
      builder->Add(At(Category::kWork, compute_, 0, 1));
      builder->Add(At(Category::kWork, update_, 0, 1));
    }
    const int count = *rc::gen::inRange(1, 40);
    for (int i = 0; i < count; ++i) {
      Activity activity = At(Category::kWork, *rc::gen::inRange(0, 2), 0, 0);
      const bool device = *rc::gen::arbitrary<bool>();
      const int64_t closed = now / 1000 * 1000;
      const int64_t begin = device ? std::max<int64_t>(0, now - *rc::gen::inRange(0, 9000))
                                   : closed + *rc::gen::inRange(0, 900);
      activity.on_device = device;
      activity.category = device && *rc::gen::arbitrary<bool>() ? Category::kWaitPeer
                          : device                              ? Category::kWork
                                                                : Category::kInput;
      activity.begin_ns = kT0 + begin * kMs;
      activity.end_ns = activity.begin_ns + *rc::gen::inRange(1, 4000) * kMs;
      late.Add(activity);
      in_time.Add(activity);
      now += *rc::gen::inRange(0, 1200);
      take(late.Close(kT0 + now * kMs), of_late);
    }
    now += 10'000;
    take(late.Close(kT0 + now * kMs), of_late);
    take(in_time.Close(kT0 + now * kMs), of_in_time);
    RC_ASSERT(of_late == of_in_time);
  }));
}

}  // namespace
}  // namespace poolscope
