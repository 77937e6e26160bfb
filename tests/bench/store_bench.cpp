#include <fmt/format.h>
#include <sqlite3.h>
#include <stdlib.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "store/chunk_codec.h"
#include "tests/bench/synthetic_run.h"

// What storing and reading events costs: plain nested ranges as any NVTX job has them, and the
// reference trainer's own events with their payloads.
namespace {

using namespace poolscope;
using Clock = std::chrono::steady_clock;

constexpr int64_t kEvents = 8'000'000;
constexpr int64_t kRowEvents = 1'000'000;
constexpr int kTracks = 4;

[[noreturn]] void Die(const std::string& message) {
  std::fprintf(stderr, "store_bench: %s\n", message.c_str());
  std::exit(1);
}
void Must(const Status& status) {
  if (!status.ok()) Die(status.error().message);
}
template <typename T>
T Must(Result<T> result) {
  if (!result.ok()) Die(result.error().message);
  return std::move(*result);
}

double Seconds(Clock::time_point since) {
  return std::chrono::duration<double>(Clock::now() - since).count();
}

void Figure(const char* name, double value, const char* unit, const char* bar,
            const std::string& reference) {
  std::printf("%s\t%.2f\t%s\t%s\t%s\n", name, value, unit, bar, reference.c_str());
}

// A folder on the disk, removed at the end.
class Folder {
 public:
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "store-bench-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) Die("cannot make a folder in the temporary folder");
    path_ = pattern;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::filesystem::path operator/(const char* name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

// One second's worth of an NVTX job: an outer range with layers that hold operations, durations
// that vary by 20 %, gaps of some hundred nanoseconds.
std::vector<EventBatch> MakeRanges(int64_t count) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> spread(1.0, 0.2);
  std::vector<EventBatch> batches;
  int64_t now = 1'760'000'000'000'000'000;
  const auto add = [&](int64_t start, int64_t end, uint32_t name, uint16_t depth) {
    if (batches.empty() || batches.back().events.size() == kEventsPerChunk) batches.emplace_back();
    Event event;
    event.start_ns = start;
    event.duration_ns = end - start;
    event.name = name;
    event.domain = 1;
    event.depth = depth;
    batches.back().events.push_back(event);
  };
  for (int64_t made = 0; made < count;) {
    const int64_t outer = now;
    for (uint32_t layer = 0; layer < 4; ++layer) {
      const int64_t start = now += 200;
      for (uint32_t op = 0; op < 5; ++op) {
        const int64_t begin = now += 100 + static_cast<int64_t>(random() % 500);
        now += static_cast<int64_t>(15000 * (op + 1) * std::abs(spread(random)));
        add(begin, now, 10 + op, 2);
      }
      add(start, now += 150, 4 + layer, 1);
    }
    add(outer, now += 150, 3, 0);
    made += 25;
  }
  return batches;
}

double CommitRanges(const std::filesystem::path& path, const std::vector<EventBatch>& batches) {
  Store store = Must(Store::Open(path, Store::Mode::kWrite));
  Must(store.Put(RunRow{"run", "host", "bench", 1, 2, true}));
  Must(store.Put(ProcessRow{"session", "run", "host", "bench", 42, 1, 1, 0, ""}));
  int64_t tracks[kTracks];
  for (int i = 0; i < kTracks; ++i) {
    const int64_t thread = Must(store.PutThread({0, "session", 100 + i, "", "", -1}));
    tracks[i] = Must(store.TrackId({0, "run", thread, 1, 0}));
  }
  int64_t events = 0;
  const auto begin = Clock::now();
  for (size_t i = 0; events < kEvents; ++i) {
    const EventBatch& batch = batches[i % batches.size()];
    Must(store.Begin());
    Must(store.Append(tracks[i % kTracks], batch));
    Must(store.Put(CursorRow{"session", 0, 1, static_cast<int64_t>(i)}));
    Must(store.Commit());
    events += static_cast<int64_t>(batch.events.size());
  }
  return static_cast<double>(events) / Seconds(begin);
}

// The plain alternative: a row per event, prepared, in the same transactions.
double InsertRows(const std::filesystem::path& path, const std::vector<EventBatch>& batches) {
  sqlite3* db = nullptr;
  sqlite3_stmt* insert = nullptr;
  if (sqlite3_open(path.c_str(), &db) != SQLITE_OK) Die("cannot make " + path.string());
  const auto run = [&](const char* sql) { sqlite3_exec(db, sql, nullptr, nullptr, nullptr); };
  run("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
      "CREATE TABLE event (track INTEGER, start_ns INTEGER, duration_ns INTEGER, name INTEGER, "
      "domain INTEGER, category INTEGER, depth INTEGER, value INTEGER)");
  sqlite3_prepare_v2(db, "INSERT INTO event VALUES (?, ?, ?, ?, ?, ?, ?, ?)", -1, &insert, nullptr);
  int64_t events = 0;
  const auto begin = Clock::now();
  for (size_t i = 0; events < kRowEvents; ++i) {
    run("BEGIN");
    for (const Event& event : batches[i % batches.size()].events) {
      int at = 0;
      for (const int64_t value :
           {static_cast<int64_t>(i % kTracks), event.start_ns, event.duration_ns,
            int64_t{event.name}, int64_t{event.domain}, int64_t{event.category},
            int64_t{event.depth}, static_cast<int64_t>(event.value)}) {
        sqlite3_bind_int64(insert, ++at, value);
      }
      sqlite3_step(insert);
      sqlite3_reset(insert);
      ++events;
    }
    run("COMMIT");
  }
  const double rate = static_cast<double>(events) / Seconds(begin);
  sqlite3_finalize(insert);
  sqlite3_close(db);
  return rate;
}

double BytesPerEvent(const std::filesystem::path& path, int64_t events) {
  return static_cast<double>(std::filesystem::file_size(path)) / static_cast<double>(events);
}

int64_t Count(const Store& store) {
  int64_t events = 0;
  Must(store.ReadEvents(Must(store.FindRun("")).run_id, {},
                        [&](const TrackRow&, const EventBatch& batch) {
                          events += static_cast<int64_t>(batch.events.size());
                          return true;
                        }));
  return events;
}

void BenchCodec(const std::vector<EventBatch>& batches) {
  ChunkEncoder encoder;
  std::vector<std::vector<uint8_t>> chunks;
  int64_t events = 0;
  double bytes = 0;
  double encode_seconds = 0;
  for (int round = 0; round < 4; ++round) {
    for (const EventBatch& batch : batches) {
      const auto begin = Clock::now();
      const auto chunk = Must(encoder.Encode(batch));
      encode_seconds += Seconds(begin);
      events += static_cast<int64_t>(batch.events.size());
      bytes += static_cast<double>(chunk.size());
      if (round == 0) chunks.emplace_back(chunk.begin(), chunk.end());
    }
  }
  Figure("chunk encode", static_cast<double>(events) / encode_seconds / 1e6, "million events/s",
         ">= 20", fmt::format("{:.2f} bytes/event", bytes / static_cast<double>(events)));
  EventBatch decoded;
  int64_t back = 0;
  const auto begin = Clock::now();
  for (int round = 0; round < 4; ++round) {
    for (const auto& chunk : chunks) {
      Must(DecodeChunk(chunk, decoded));
      back += static_cast<int64_t>(decoded.events.size());
    }
  }
  if (back != events) Die("decoded another number of events than was encoded");
  Figure("chunk decode", static_cast<double>(back) / Seconds(begin) / 1e6, "million events/s", "-",
         "-");
}

// The events of the synthetic run with all that a collector stores beside them.
void BenchTrainer(const std::filesystem::path& path, double rows) {
  int64_t made = 0;
  {
    Store store = Must(Store::Open(path, Store::Mode::kWrite));
    bench::SyntheticRun run(store, {}, "5eed");
    Must(store.Begin());
    Must(run.PutRun());
    Must(store.Commit());
    double seconds = 0;
    while (made < kEvents / 4) {
      run.Make(100'000);
      const auto begin = Clock::now();
      Must(store.Begin());
      made += Must(run.Append());
      Must(store.Commit());
      seconds += Seconds(begin);
    }
    Figure("trainer's events and windows committed", static_cast<double>(made) / seconds / 1e6,
           "million events/s", "-", fmt::format("row per event {:.2f}", rows / 1e6));
    Must(store.Begin());
    Must(run.Finish());
    Must(store.Commit());
  }
  Figure("store size, trainer's events and windows", BytesPerEvent(path, made), "bytes/event",
         "<= 8", "-");
}

}  // namespace

int main() {
  const Folder folder;
  const std::vector<EventBatch> batches = MakeRanges(800'000);
  BenchCodec(batches);

  const double rows = InsertRows(folder / "rows.db", batches);
  const double chunks = CommitRanges(folder / "ranges.db", batches);
  Figure("events committed to the store", chunks / 1e6, "million events/s", ">= 5",
         fmt::format("row per event {:.2f}", rows / 1e6));
  const Store ranges = Must(Store::Open(folder / "ranges.db", Store::Mode::kRead));
  const auto begin = Clock::now();
  const int64_t count = Count(ranges);
  const double read_rate = static_cast<double>(count) / Seconds(begin);
  if (count < kEvents) Die("the store holds fewer events than were committed");
  Figure("store size, ranges", BytesPerEvent(folder / "ranges.db", count), "bytes/event", "<= 8",
         fmt::format("row per event {:.1f}", BytesPerEvent(folder / "rows.db", kRowEvents)));
  Figure("events read from the store", read_rate / 1e6, "million events/s", "-", "-");

  BenchTrainer(folder / "trainer.db", rows);
  return 0;
}
