// Rings to committed store: what one core takes per second, and the bytes that an event costs.
#include <fcntl.h>
#include <sqlite3.h>
#include <time.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>

#include "collector/collector.h"
#include "tests/support/fake_session.h"
#include "tests/support/temp_folder.h"

namespace poolscope {
namespace {

constexpr uint32_t kThreads = 8;
constexpr int64_t kEvents = 6'000'000;

double CpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// The plain alternative: a row per event, prepared statement, one transaction.
double RowsPerSecond(const std::filesystem::path& path) {
  sqlite3* database = nullptr;
  sqlite3_open(path.c_str(), &database);
  sqlite3_exec(database,
               "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; CREATE TABLE event(track INT, "
               "start_ns INT, duration_ns INT, name INT, domain INT, category INT, depth INT)",
               nullptr, nullptr, nullptr);
  sqlite3_stmt* insert = nullptr;
  sqlite3_prepare_v2(database, "INSERT INTO event VALUES(?,?,?,?,?,?,?)", -1, &insert, nullptr);
  constexpr int kRows = 300'000;
  const double began = CpuSeconds();
  sqlite3_exec(database, "BEGIN", nullptr, nullptr, nullptr);
  for (int i = 0; i < kRows; ++i) {
    sqlite3_bind_int64(insert, 1, i % 8);
    sqlite3_bind_int64(insert, 2, 1'700'000'000'000'000'000 + i * 1000);
    sqlite3_bind_int64(insert, 3, 500);
    sqlite3_bind_int64(insert, 4, i % 20);
    for (int column = 5; column <= 7; ++column) sqlite3_bind_int64(insert, column, 1);
    sqlite3_step(insert);
    sqlite3_reset(insert);
  }
  sqlite3_exec(database, "COMMIT", nullptr, nullptr, nullptr);
  const double seconds = CpuSeconds() - began;
  sqlite3_finalize(insert);
  sqlite3_close(database);
  return kRows / seconds;
}

int Main() {
  TempFolder folder(true);
  TempFolder files;
  CollectorOptions options;
  options.store = files.path() / "bench.db";
  options.run_folders = {folder.path()};
  options.owners = {static_cast<uint32_t>(geteuid())};
  FakeSession session({.folder = folder.path(), .ring_bytes = kRingBytes});
  const uint32_t domain = session.Domain("bench");
  std::vector<uint32_t> names;
  for (int i = 0; i < 20; ++i) names.push_back(session.Name("operation " + std::to_string(i)));

  auto opened = Collector::Open(options);
  if (!opened.ok()) {
    std::fprintf(stderr, "%s\n", opened.error().message.c_str());
    return 1;
  }
  auto collector = std::move(*opened);
  if (!collector->Drain().ok()) return 1;
  // Ranges of three levels with durations as uneven as real ones, rings 7/8 full at each round.
  int64_t made = 0;
  int64_t at = MonotonicNs() - 100'000'000'000;
  uint64_t noise = 1;
  const auto next = [&] {
    noise = noise * 6364136223846793005 + 1442695040888963407;
    return static_cast<int64_t>(noise >> 55) + 20;  // 20 to 531 ns
  };
  double seconds = 0;
  while (made < kEvents) {
    for (uint32_t thread = 0; thread < kThreads; ++thread) {
      int64_t now = at;
      for (int i = 0; i < 7600; ++i) {
        session.Push(100 + thread, now += next(), names[static_cast<size_t>(i) % 3], 0, domain);
        session.Push(100 + thread, now += next(), names[3 + static_cast<size_t>(noise) % 5], 0,
                     domain);
        session.Push(100 + thread, now += next(), names[8 + static_cast<size_t>(noise) % 12], 0,
                     domain);
        for (int k = 0; k < 3; ++k) made += session.Pop(100 + thread, now += next());
      }
    }
    at += 20'000'000;
    const double began = CpuSeconds();
    if (!collector->Drain().ok()) return 1;
    seconds += CpuSeconds() - began;
  }
  const uint64_t stored = collector->events();
  const uint64_t lost = collector->lost();
  collector.reset();  // closes the store: the write-ahead log is folded in
  const auto bytes = std::filesystem::file_size(options.store);
  const double rows = RowsPerSecond(files.path() / "rows.db");
  std::printf("rings to committed store\t%.2f\tmillion events/s\t>= 5\trow per event %.2f\n",
              static_cast<double>(stored) / seconds * 1e-6, rows * 1e-6);
  std::printf("events lost on the way\t%" PRIu64 "\tevents\t<= 0\t%" PRId64 " made\n",
              lost + (static_cast<uint64_t>(made) - stored), made);
  std::printf("store size\t%.2f\tbytes/event\t<= 8\tring record 40\n",
              static_cast<double>(bytes) / static_cast<double>(stored));
  return 0;
}

}  // namespace
}  // namespace poolscope

int main() { return poolscope::Main(); }
