#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "advisor/calibration.h"

// Whether operations that compute got their cores, by their CPU time beside their wall time.
namespace poolscope {
namespace {

// Two workers work all of 100 ms, each on a core for `cpu_ms` of it.
CoreShare Share(int workers, int64_t cpu_ms) {
  EventRecords records;
  for (int worker = 0; worker < workers; ++worker) {
    WorkRecord work;
    work.worker = worker;
    work.end_ns = 100'000'000;
    work.cpu_ns = cpu_ms * 1'000'000;
    records.work.push_back(work);
  }
  return MeasureCoreShare(records, {{0, 100'000'000}});
}

RunData OnCpu(const std::string& cores) {
  RunData run;
  run.settings = {{"device", "cpu"}};
  if (!cores.empty()) run.settings["cores"] = cores;
  return run;
}

TEST(CoreShare, IsCpuTimeOverWallTime) {
  EXPECT_DOUBLE_EQ(Share(2, 40).share, 0.4);
  EXPECT_DOUBLE_EQ(Share(2, 40).at_once, 2);
}

TEST(CoreShare, FewWorkersShortOfCores_MeansASharedMachine) {
  EXPECT_EQ(ShortOfCores(OnCpu("2"), Share(2, 60)),
            "; operations got only 60 % of a core; the machine was shared");
}

TEST(CoreShare, MoreWorkersThanCores_AreTheJobsOwnDoing) {
  EXPECT_EQ(ShortOfCores(OnCpu("2"), Share(4, 49)),
            "; operations got only 49 % of a core; 4.0 of them ran at once on 2 cores");
}

TEST(CoreShare, CoresNotTold_BlamesNobody) {
  EXPECT_EQ(ShortOfCores(OnCpu(""), Share(2, 60)), "; operations got only 60 % of a core");
}

TEST(CoreShare, EnoughCores_OrAnotherDevice_SaysNothing) {
  EXPECT_EQ(ShortOfCores(OnCpu("2"), Share(2, 98)), "");
  EXPECT_EQ(ShortOfCores(RunData{}, Share(2, 10)), "");
}

}  // namespace
}  // namespace poolscope
