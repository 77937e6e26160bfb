// The agent over the life of a process: fork, exec, exits, kills, threads, full rings, and places
// where no session can be.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <filesystem>

#include "tests/support/nvtx_job.h"

namespace poolscope::support {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::UnorderedElementsAre;

class Lifetime : public testing::Test {
 protected:
  JobResult Run(const std::vector<std::string>& scenarios) {
    return jobs_.Run("nvtx_probe", scenarios);
  }
  // The job runs as if no agent were there, and the agent says why.
  void ExpectOff(const std::string& why) {
    const JobResult result = Run({"core"});
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_EQ(result.out,
              "level -2\nlevel -2\nlevel -2\nlevel -2\nlevel -2\nlevel -2\ndone core\n");
    EXPECT_THAT(result.err, HasSubstr("poolscope agent: off: "));
    EXPECT_THAT(result.err, HasSubstr(why));
  }

  Jobs jobs_;
};

TEST_F(Lifetime, Exit_IsMarkedAndTheLockReleased) {
  EXPECT_EQ(Run({"marks=3"}).exit_code, 0);
  const SessionView view = jobs_.OnlySession();
  EXPECT_TRUE(view.ended);
  EXPECT_FALSE(view.locked);
  EXPECT_EQ(view.Count("mark"), 3u);
  EXPECT_GE(view.triples, 2u);
  EXPECT_THAT(view.command, HasSubstr("nvtx_probe marks=3"));
}

TEST_F(Lifetime, QuickExit_IsMarked) {
  Run({"marks=1", "quick_exit"});
  EXPECT_TRUE(jobs_.OnlySession().ended);
}

TEST_F(Lifetime, UnderscoreExit_LeavesTheEventsReadable) {
  Run({"marks=5", "_exit"});
  const SessionView view = jobs_.OnlySession();
  EXPECT_FALSE(view.ended);
  EXPECT_FALSE(view.locked);
  EXPECT_EQ(view.Count("mark"), 5u);
}

TEST_F(Lifetime, Exec_StartsAnotherSession) {
  EXPECT_EQ(Run({"exec"}).exit_code, 0);
  const auto sessions = jobs_.Sessions();
  ASSERT_EQ(sessions.size(), 2u);
  EXPECT_EQ(sessions[0].pid, sessions[1].pid);
  EXPECT_EQ(sessions[0].Count("before exec") + sessions[1].Count("before exec"), 1u);
  EXPECT_EQ(sessions[0].Count("mark") + sessions[1].Count("mark"), 1u);
  EXPECT_FALSE(sessions[0].locked || sessions[1].locked);
}

TEST_F(Lifetime, Kill_LeavesOpenRangesReadable) {
  EXPECT_EQ(Run({"killed"}).exit_code, -SIGKILL);
  const SessionView view = jobs_.OnlySession();
  ASSERT_EQ(view.open.size(), 3u);
  EXPECT_EQ(view.open[0].name, "outer");
  EXPECT_EQ(view.open[1].name, "inner");
  EXPECT_EQ(view.open[2].name, "across");
  EXPECT_EQ(view.open[0].tid, view.pid);
  EXPECT_EQ(view.Count("before the end"), 1u);
  EXPECT_FALSE(view.ended);
  EXPECT_FALSE(view.locked);
}

TEST_F(Lifetime, LiveProcess_HoldsTheLock) {
  jobs_.Start("nvtx_probe", {"served"});
  jobs_.Say("1");
  EXPECT_TRUE(jobs_.OnlySession().locked);
  EXPECT_EQ(jobs_.Finish(), 0);
  EXPECT_FALSE(jobs_.OnlySession().locked);
}

TEST_F(Lifetime, JobThatClosesEveryDescriptor_GoesOnBeingRecorded) {
  const JobResult result = Run({"close_all"});
  EXPECT_EQ(result.exit_code, 0);
  const SessionView view = jobs_.OnlySession();
  EXPECT_EQ(view.Count("before"), 1u);
  EXPECT_EQ(view.Count("short-lived"), 1u);
  EXPECT_THAT(view.losses, ElementsAre());
}

TEST_F(Lifetime, Fork_GivesEachProcessASessionWithExactCounts) {
  EXPECT_EQ(Run({"fork"}).exit_code, 0);
  auto sessions = jobs_.Sessions();
  ASSERT_EQ(sessions.size(), 4u);
  const SessionView& parent = sessions[0];
  EXPECT_EQ(parent.Count("open in the parent"), 1u);
  EXPECT_EQ(parent.Count("started in the parent"), 1u);
  EXPECT_EQ(parent.events.size(), 2u);
  EXPECT_THAT(parent.losses, ElementsAre());
  for (size_t child = 1; child <= 3; ++child) {
    const SessionView& view = sessions[child];
    EXPECT_EQ(view.parent_pid, parent.pid);
    EXPECT_EQ(view.run_id, parent.run_id);
    EXPECT_EQ(view.Count("from the parent"), 1000 * child);
    EXPECT_EQ(view.Find("from the parent")->domain, "forked domain");
    EXPECT_EQ(view.Count("new in the child"), 1u);
    EXPECT_EQ(view.events.size(), 1000 * child + 1);
    EXPECT_EQ(view.open.size(), 0u);  // the parent's open ranges are not the child's
    EXPECT_THAT(view.losses, ElementsAre(Pair("unmatched_end", 2u)));
  }
}

TEST_F(Lifetime, RunId_ComesFromTheEnvironment) {
  jobs_.environment = {"POOLSCOPE_RUN_ID=0123456789abcdef0123456789ABCDEF"};
  Run({"marks=1"});
  EXPECT_EQ(jobs_.OnlySession().run_id, "0123456789abcdef0123456789abcdef");
}

TEST_F(Lifetime, MonotonicClock_IsUsedWhereAskedFor) {
  jobs_.environment = {"POOLSCOPE_CLOCK=monotonic"};
  Run({"marks=1"});
  EXPECT_EQ(jobs_.OnlySession().clock, ClockKind::kMonotonic);
}

TEST_F(Lifetime, TenThousandThreads_ShareReusedSlots) {
  EXPECT_EQ(Run({"many_threads"}).exit_code, 0);
  const SessionView view = jobs_.OnlySession();
  EXPECT_LE(view.slots_used, 65u);
  EXPECT_EQ(view.Count("short-lived") + view.losses.at("overwritten"), 10'000u);
}

TEST_F(Lifetime, LibraryWithItsOwnNvtx_SharesDomainsAndStacks) {
  EXPECT_EQ(Run({"two_libraries"}).exit_code, 0);
  const SessionView view = jobs_.OnlySession();
  ASSERT_EQ(view.events.size(), 3u);
  EXPECT_EQ(view.events[0].name, "from the library");
  EXPECT_EQ(view.events[0].domain, "shared domain");
  EXPECT_EQ(view.events[0].depth, 1u);
  EXPECT_EQ(view.events[1].domain, "poolscope");
  EXPECT_EQ(view.events[2].name, "from the program");
  EXPECT_EQ(view.domains.size(), 2u);
}

TEST_F(Lifetime, SignalHandlerUponAThreadInside_IsCountedAndHarmless) {
  jobs_.environment = {"POOLSCOPE_RING_BYTES=67108864"};
  const JobResult result = Run({"signals"});
  ASSERT_EQ(result.exit_code, 0);
  uint64_t made = 0, handled = 0;
  ASSERT_EQ(sscanf(result.out.c_str(), "%lu %lu", &made, &handled), 2);
  const SessionView view = jobs_.OnlySession();
  uint64_t main = 0, handler = 0;
  for (const ViewedEvent& event : view.events) {
    main += event.name.starts_with("main ") ? 1 : 0;
    handler += event.name.starts_with("handler ") ? 1 : 0;
  }
  const auto lost = [&](const char* cause) {
    const auto found = view.losses.find(cause);
    return found == view.losses.end() ? 0 : found->second;
  };
  EXPECT_EQ(main, made);
  EXPECT_EQ(handler + lost("no_ring") + lost("unmatched_end"), handled);
  EXPECT_EQ(view.events.size(), main + handler + 1);
}

TEST_F(Lifetime, KillAtAnyInstant_LeavesWholeRecords) {
  for (int i = 0; i < 20; ++i) {
    Jobs jobs;
    jobs.Start("nvtx_storm", {"--threads", "3", "--ranges", "1000000000"});
    for (int wait = 0; wait < 500 && jobs.Sessions().empty(); ++wait) usleep(1000);
    usleep(static_cast<useconds_t>(1000 + 137 * i));
    kill(jobs.pid(), SIGKILL);
    EXPECT_EQ(jobs.Finish(), -SIGKILL);
    const SessionView view = jobs.OnlySession();
    EXPECT_FALSE(view.ended);
    std::map<uint32_t, uint64_t> last;  // open ids of a thread grow by one
    for (const ViewedEvent& event : view.events) {
      EXPECT_TRUE(event.name.starts_with("storm ")) << event.name;
      const auto before = last.find(event.tid);
      if (before != last.end()) {
        ASSERT_EQ(event.id, before->second + 1);
      }
      last[event.tid] = event.id;
    }
    EXPECT_LE(view.open.size(), 3u);
  }
}

// --- Full rings ---

TEST_F(Lifetime, DropMode_CountsWhatDoesNotFitExactly) {
  jobs_.environment = {"POOLSCOPE_RING_BYTES=65536"};
  jobs_.Start("nvtx_probe", {"served"});
  jobs_.Say("1");
  const std::string path = jobs_.OnlySession().path;
  SetRingMode(path, RingMode::kDropNewest);
  FreeAll(path);
  jobs_.Say("10000");
  SessionView view = jobs_.OnlySession();
  EXPECT_EQ(view.events.size() + view.losses.at("ring_full"), 10'000u);
  EXPECT_EQ(view.events.size(), 65536u / 32);
  for (size_t i = 0; i < view.events.size(); ++i) EXPECT_EQ(view.events[i].value, i);  // the oldest

  // Drained, it records again, and what was lost stays counted.
  FreeAll(path);
  jobs_.Say("100");
  const uint64_t lost = view.losses.at("ring_full");
  view = jobs_.OnlySession();
  EXPECT_EQ(view.events.size(), 100u);
  EXPECT_EQ(view.Lost(), lost);
}

TEST_F(Lifetime, OverwriteMode_KeepsTheNewestAndCountsTheRest) {
  jobs_.environment = {"POOLSCOPE_RING_BYTES=65536"};
  Run({"marks=10000"});
  const SessionView view = jobs_.OnlySession();
  EXPECT_EQ(view.events.size() + view.losses.at("overwritten"), 10'000u);
  EXPECT_GE(view.events.size(), (65536u - 4096 - 64) / 32);
  EXPECT_EQ(view.events.back().value, 9999u);
  EXPECT_EQ(view.events.front().value, 10'000 - view.events.size());
}

TEST_F(Lifetime, CollectorThatLeft_IsNoLossForWhatItTook) {
  jobs_.environment = {"POOLSCOPE_RING_BYTES=65536"};
  jobs_.Start("nvtx_probe", {"served"});
  jobs_.Say("1000");
  const std::string path = jobs_.OnlySession().path;
  SetRingMode(path, RingMode::kDropNewest);
  EXPECT_EQ(FreeAll(path), 1000u);
  SetRingMode(path, RingMode::kOverwriteOldest);
  jobs_.Say("2000");  // fits, once what was taken is overwritten
  const SessionView view = jobs_.OnlySession();
  EXPECT_EQ(view.events.size(), 2000u);
  EXPECT_EQ(view.Lost(), 0u);
}

TEST_F(Lifetime, RecordsOfManySizes_NeverStraddleTheRingsEnd) {
  jobs_.environment = {"POOLSCOPE_RING_BYTES=65536"};
  std::vector<std::string> scenarios;
  for (int i = 0; i < 300; ++i) {
    scenarios.push_back("annotate");
    scenarios.push_back("marks=3");
  }
  EXPECT_EQ(Run(scenarios).exit_code, 0);
  const SessionView view = jobs_.OnlySession();  // decoding it would fail
  EXPECT_GT(view.Count("gradients"), 10u);
  EXPECT_EQ(view.events.size() + view.losses.at("overwritten"), 300u * (7 + 3));
}

// --- Where no session can be ---

TEST_F(Lifetime, RunFolderThatIsALink_SwitchesTheAgentOff) {
  const std::string link = jobs_.run_directory + "-link";
  fs::create_directory_symlink(jobs_.run_directory, link);
  const std::string target = std::exchange(jobs_.run_directory, link);
  ExpectOff("not a link");
  jobs_.run_directory = target;
  fs::remove(link);
  EXPECT_TRUE(jobs_.Sessions().empty());
}

TEST_F(Lifetime, RunFolderOnDisk_SwitchesTheAgentOff) {
  char name[] = "/var/tmp/poolscope-test-XXXXXX";
  const std::string target = std::exchange(jobs_.run_directory, mkdtemp(name));
  struct statvfs unused;
  if (statvfs(name, &unused) == 0) ExpectOff("not in tmpfs");
  fs::remove_all(name);
  jobs_.run_directory = target;
}

TEST_F(Lifetime, RunFolderOpenToOthers_SwitchesTheAgentOff) {
  chmod(jobs_.run_directory.c_str(), 0755);
  ExpectOff("chmod 700");
}

TEST_F(Lifetime, RunFolderOfSomeoneElse_SwitchesTheAgentOff) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to give a folder away";
  ASSERT_EQ(chown(jobs_.run_directory.c_str(), 12345, 12345), 0);
  ExpectOff("belongs to user 12345");
}

TEST_F(Lifetime, SmallFileSizeLimit_SwitchesTheAgentOffInsteadOfKillingTheJob) {
  jobs_.before_exec = [] {
    const rlimit limit = {1 << 20, 1 << 20};
    setrlimit(RLIMIT_FSIZE, &limit);
  };
  ExpectOff("ulimit -f");
}

TEST_F(Lifetime, TightFileSizeLimit_GivesFewerRingsInsteadOfKillingTheJob) {
  jobs_.before_exec = [] {
    const rlimit limit = {kRingsAt + (3 << 20), kRingsAt + (3 << 20)};
    setrlimit(RLIMIT_FSIZE, &limit);
  };
  const JobResult result = jobs_.Run("nvtx_storm", {"--threads", "8", "--ranges", "8000"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, "made 8000\n");
  const SessionView view = jobs_.OnlySession();
  EXPECT_EQ(view.events.size() + view.Lost(), 8000u);
}

TEST_F(Lifetime, SmallAddressSpace_LeavesTheJobAlone) {
  if (POOLSCOPE_SANITIZED) GTEST_SKIP() << "sanitizers need all of the address space";
  jobs_.before_exec = [] {
    const rlimit limit = {200 << 20, 200 << 20};
    setrlimit(RLIMIT_AS, &limit);
  };
  const JobResult result = Run({"marks=10"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, "done marks=10\n");
}

// A tmpfs of the test's own.
class SmallTmpfs : public Lifetime {
 protected:
  void SetUp() override {
    mount_ = jobs_.run_directory + "-tmpfs";
    fs::create_directory(mount_);
    mounted_ = mount("tmpfs", mount_.c_str(), "tmpfs", 0, "size=64m,mode=0755") == 0;
    if (!mounted_) {
      fs::remove(mount_);
      GTEST_SKIP() << "needs the right to mount a tmpfs";
    }
    fs::remove_all(jobs_.run_directory);
    jobs_.run_directory = mount_ + "/run";
    fs::create_directory(jobs_.run_directory);
    chmod(jobs_.run_directory.c_str(), 0700);
  }
  void TearDown() override {
    if (!mounted_) return;
    umount2(mount_.c_str(), MNT_DETACH);
    fs::remove(mount_);
  }
  uint64_t Used() const {
    struct statvfs system;
    statvfs(mount_.c_str(), &system);
    return (system.f_blocks - system.f_bfree) * system.f_frsize;
  }

  std::string mount_;
  bool mounted_ = false;
};

TEST_F(SmallTmpfs, ManyThreads_TakeAQuarterAtMost) {
  const JobResult result = jobs_.Run("nvtx_storm", {"--threads", "100", "--ranges", "1000000"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, "made 1000000\n");
  EXPECT_LE(Used(), uint64_t{16} << 20);
  EXPECT_GT(Used(), uint64_t{8} << 20);
  const SessionView view = jobs_.OnlySession();
  EXPECT_EQ(view.events.size() + view.Lost(), 1'000'000u);
}

TEST_F(SmallTmpfs, ManyProcesses_NeverFillIt) {
  for (int i = 0; i < 20; ++i) {
    const JobResult result = jobs_.Run("nvtx_storm", {"--threads", "64", "--ranges", "6400"});
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_EQ(result.out, "made 6400\n");
  }
  EXPECT_LT(Used(), uint64_t{64} << 20);
}

TEST_F(SmallTmpfs, FullBeforehand_SwitchesTheAgentOff) {
  const int file = open((mount_ + "/ballast").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  ASSERT_EQ(posix_fallocate(file, 0, off_t{63} << 20), 0);
  close(file);
  ExpectOff("a quarter of the");
}

// --- Sweeping ---

TEST_F(Lifetime, SweepRemovesOldDrainedSessionsAlone) {
  Run({"marks=1"});
  const std::string drained = jobs_.OnlySession().path;
  SetRingMode(drained, RingMode::kDropNewest);
  FreeAll(drained);
  const auto backdate = [](const std::string& path, int seconds) {
    const timespec when = {time(nullptr) - seconds, 0};
    const timespec times[2] = {when, when};
    utimensat(AT_FDCWD, path.c_str(), times, 0);
  };
  Run({"marks=1"});  // a drained one that is minutes old may still be needed
  EXPECT_EQ(jobs_.Sessions().size(), 2u);
  std::string undrained;
  for (const auto& view : jobs_.Sessions()) {
    if (view.path != drained) undrained = view.path;
  }
  backdate(drained, 3600);
  backdate(undrained, 3600);
  Run({"marks=1"});
  EXPECT_FALSE(fs::exists(drained));
  EXPECT_TRUE(fs::exists(undrained));
  backdate(undrained, 2 * 86400);
  Run({"marks=1"});
  EXPECT_FALSE(fs::exists(undrained));
}

}  // namespace
}  // namespace poolscope::support
