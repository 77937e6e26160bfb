#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/nvtx_job.h"

namespace poolscope::support {

// Jobs under the agent whose devices the stand-in libcupti plays; lines as cuda_job.cpp says.
class CuptiJob : public testing::Test {
 protected:
  CuptiJob() { Prepare(jobs_); }

  // Runs a job that does them; the session that it leaves.
  SessionView Play(const std::string& lines) { return Play(jobs_, lines); }
  SessionView Play(Jobs& jobs, const std::string& lines, size_t sessions = 1) {
    if (&jobs != &jobs_) Prepare(jobs);
    result_ = jobs.Run("cuda_job", {lines});
    EXPECT_EQ(result_.exit_code, 0) << result_.err;
    const auto found = jobs.Sessions();
    EXPECT_EQ(found.size(), sessions);
    return found.empty() ? SessionView() : found[0];
  }

  static std::vector<ViewedEvent> Activities(const SessionView& view) {
    std::vector<ViewedEvent> activities;
    for (const ViewedEvent& event : view.events) {
      if (event.kind == RecordKind::kActivity) activities.push_back(event);
    }
    return activities;
  }
  static std::vector<std::string> Names(const SessionView& view) {
    std::vector<std::string> names;
    for (const ViewedEvent& event : Activities(view)) names.push_back(event.name);
    return names;
  }

  Jobs jobs_;
  JobResult result_;

 private:
  static void Prepare(Jobs& jobs) {
    jobs.environment.insert(jobs.environment.begin(),
                            {std::string("CUDA_INJECTION64_PATH=") + POOLSCOPE_TEST_AGENT,
                             std::string("POOLSCOPE_CUPTI=") + POOLSCOPE_TEST_CUPTI});
  }
};

}  // namespace poolscope::support
