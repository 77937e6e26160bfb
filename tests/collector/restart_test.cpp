// The collector killed at random instants, under a writer that goes on.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <numeric>
#include <random>
#include <set>

#include "collector/collector.h"
#include "tests/collector/stored_events.h"
#include "tests/support/fake_session.h"
#include "tests/support/temp_folder.h"
#include "trace/clock.h"

namespace poolscope {
namespace {

std::atomic<bool> stop{false};

pid_t StartCollector(const CollectorOptions& options) {
  int ready[2];
  EXPECT_EQ(pipe(ready), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    signal(SIGTERM, [](int) { stop.store(true); });
    CollectorCalls calls;
    calls.ready = [&](const std::string&) { (void)!write(ready[1], "r", 1); };
    _exit(RunCollector(options, stop, calls).ok() ? 0 : 1);
  }
  close(ready[1]);
  char byte;
  EXPECT_EQ(read(ready[0], &byte, 1), 1);
  close(ready[0]);
  return pid;
}

TEST(Restart, CollectorKilledTenTimes_NothingTwiceNothingLost) {
  TempFolder folder(true);
  TempFolder files;
  CollectorOptions options;
  options.store = files.path() / "run.db";
  options.run_folders = {folder.path()};
  options.owners = {static_cast<uint32_t>(geteuid())};
  options.drain_interval_ms = 10;
  auto session = std::make_unique<FakeSession>(
      FakeSession::Options{.folder = folder.path(), .ring_bytes = size_t{4} << 20});
  const uint32_t domain = session->Domain("poolscope");
  session->Resource(domain, 7, "worker compute 0 compute");
  const uint32_t names[] = {session->Name("forward"), session->Name("backward")};
  session->Triple(MonotonicNs(), 1'700'000'000'000'000'000);

  std::mt19937 random(11);
  int64_t made = 0;
  int64_t last = 0;
  const auto work = [&](int64_t for_ns) {
    const int64_t until = MonotonicNs() + for_ns;
    for (int64_t now = MonotonicNs(); now < until; now = MonotonicNs()) {
      if (now < last + 20'000) continue;  // the ring holds two seconds of it
      last = now;                         // distinct starts: a range stored twice shows
      session->Push(7, now, names[made % 2], 1, domain);
      session->Pop(7, now + 4000);
      ++made;
    }
  };
  for (int kill_number = 0; kill_number < 10; ++kill_number) {
    const pid_t collector = StartCollector(options);
    work(static_cast<int64_t>(random() % 180 + 20) * 1'000'000);
    kill(collector, SIGKILL);
    waitpid(collector, nullptr, 0);
    work(3'000'000);
  }
  const pid_t collector = StartCollector(options);
  work(300'000'000);
  session->Push(7, last + 5000, names[0], 1, domain);  // open at death
  session->KillWriter();
  for (int i = 0; i < 1000 && std::filesystem::exists(session->path()); ++i) usleep(10'000);
  kill(collector, SIGTERM);
  int status = 0;
  waitpid(collector, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(std::filesystem::exists(session->path()));

  auto store = Store::Open(options.store, Store::Mode::kRead);
  ASSERT_TRUE(store.ok());
  const std::string run = store->FindRun("")->run_id;
  int64_t lost = 0;
  const auto losses = store->EventLosses(run);
  for (const EventLossRow& row : *losses) lost += row.events.value_or(0);
  EXPECT_EQ(lost, 0) << "the ring holds all that was made without a collector";
  const auto stored = ReadAll(options.store);
  EXPECT_EQ(static_cast<int64_t>(stored.size()), made - lost + 1);
  std::set<int64_t> starts;
  for (const StoredEvent& event : stored) starts.insert(event.event.start_ns);
  EXPECT_EQ(starts.size(), stored.size());
  EXPECT_EQ(store->OpenRanges(run)->size(), 1u);

  // The windows are those of one collector: whole, in a row, and as busy as the events say.
  const auto windows = store->WorkerWindows(run, {});
  ASSERT_GE(windows->size(), 2u);
  int64_t busy = 0;
  int64_t at = windows->front().start_ns;
  for (const WorkerWindowRow& row : *windows) {
    EXPECT_EQ(row.start_ns, at);
    at += row.window_ns;
    EXPECT_EQ(std::accumulate(row.state_ns.begin(), row.state_ns.end(), int64_t{0}), row.window_ns);
    busy += row.state_ns[static_cast<size_t>(State::kBusy)];
  }
  int64_t worked = 0;
  for (const StoredEvent& event : stored) worked += event.event.duration_ns;
  EXPECT_NEAR(static_cast<double>(busy), static_cast<double>(worked),
              static_cast<double>(worked) * 0.001);
}

}  // namespace
}  // namespace poolscope
