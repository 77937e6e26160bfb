#pragma once

#include <gtest/gtest.h>

#include "collector/windows.h"

namespace poolscope {

inline constexpr int64_t kMs = 1'000'000;
inline constexpr int64_t kSecond = 1000 * kMs;
inline constexpr int64_t kT0 = 100 * kSecond;

// A compute and an update worker with a link each way, whose windows begin at kT0; times are ms
// after it.
class Windows : public ::testing::Test {
 protected:
  Windows() {
    compute_ = model_.AddWorker("compute", 0, "compute", "s");
    update_ = model_.AddWorker("update", 0, "update", "s");
    gradients_ = model_.DescribeLink("gradients", "compute", "update", 4, 1);
    weights_ = model_.DescribeLink("weights", "update", "compute", 2, 1);
    builder_.StartAt(kT0);
  }
  static Activity At(Category category, int worker, int64_t begin_ms, int64_t end_ms,
                     int link = -1) {
    Activity activity;
    activity.category = category;
    activity.worker = worker;
    activity.link = link;
    activity.begin_ns = kT0 + begin_ms * kMs;
    activity.end_ns = kT0 + end_ms * kMs;
    return activity;
  }
  static Activity Transfer(Stage stage, int link, int64_t begin_ms, int64_t end_ms, uint64_t source,
                           uint64_t sequence) {
    Activity activity = At(Category::kTransfer, -1, begin_ms, end_ms, link);
    activity.stage = stage;
    activity.on_thread = false;
    activity.source = source;
    activity.sequence = sequence;
    return activity;
  }
  std::vector<WindowRows> Close(int64_t ms, bool last = false) {
    return builder_.Close(kT0 + ms * kMs, last);
  }

  RunModel model_{"run"};
  WindowBuilder builder_{model_};
  int compute_, update_, gradients_, weights_;
};

}  // namespace poolscope
