#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "store/store.h"
#include "store/tables.h"
#include "tests/store/scratch.h"
#include "trace/limits.h"

namespace poolscope {
namespace {

using ::poolscope::testing::Opened;
using ::poolscope::testing::Scratch;
using ::testing::ElementsAre;

constexpr auto kRead = Store::Mode::kRead;
constexpr auto kWrite = Store::Mode::kWrite;

// Gives every column of a row a value of its own.
class Filler {
 public:
  void Key(std::string_view name, auto& value, std::string_view) { Fill(name, value); }
  void operator()(std::string_view name, auto& value, std::string_view) { Fill(name, value); }

 private:
  void Fill(std::string_view name, std::string& value) {
    value = std::string(name) == "run_id" ? "run" : std::string(name) + "'\"\xc3\xa9";
  }
  void Fill(std::string_view, bool& value) { value = true; }
  void Fill(std::string_view, double& value) { value = 0.1 + ++next_; }
  void Fill(std::string_view, uint32_t& value) { value = UINT32_MAX - ++next_; }
  void Fill(std::string_view name, int64_t& value) {
    value = (name == "window_ns" ? 0 : 1'760'000'000'000'000'000) + ++next_;  // windows are short
  }
  template <typename T>
  void Fill(std::string_view name, std::optional<T>& value) {
    Fill(name, value.emplace());
  }
  uint32_t next_ = 0;
};

class Lister {
 public:
  void Key(std::string_view name, const auto& value, std::string_view) { Add(name, value); }
  void operator()(std::string_view name, const auto& value, std::string_view) { Add(name, value); }
  std::vector<std::string> cells;

 private:
  void Add(std::string_view name, const std::string& value) { Push(name, value); }
  void Add(std::string_view name, const auto& value) { Push(name, std::to_string(value)); }
  template <typename T>
  void Add(std::string_view name, const std::optional<T>& value) {
    value ? Add(name, *value) : Push(name, "none");
  }
  void Push(std::string_view name, const std::string& value) {
    cells.push_back(std::string(name) + "=" + value);
  }
};

template <typename Row>
std::vector<std::string> Cells(const Row& row) {
  Lister lister;
  Table<Row>::Describe(lister, row);
  return lister.cells;
}

template <typename Row, typename Read>
void ComesBack(Store& store, Read read) {
  Row row;
  Filler filler;
  Table<Row>::Describe(filler, row);
  ASSERT_OK(store.Put(row));
  ASSERT_OK(store.Put(row));  // replaced, not repeated
  const auto rows = read(row);
  ASSERT_OK(rows);
  ASSERT_EQ(rows->size(), 1u) << Table<Row>::kName;
  EXPECT_EQ(Cells(rows->front()), Cells(row)) << Table<Row>::kName;
}

TEST(Store, EveryColumnOfEveryRow_ComesBackAsItWas) {
  Scratch scratch;
  Store store = Opened(scratch / "run.db", kWrite);
  ComesBack<RunRow>(store, [&](const auto&) { return store.Runs(); });
  ComesBack<ProcessRow>(store, [&](const auto& row) { return store.Processes(row.run_id); });
  ComesBack<PoolRow>(store, [&](const auto& row) { return store.Pools(row.run_id); });
  ComesBack<WorkerRow>(store, [&](const auto& row) { return store.Workers(row.run_id); });
  ComesBack<LinkRow>(store, [&](const auto& row) { return store.Links(row.run_id); });
  ComesBack<SettingRow>(store, [&](const auto& row) { return store.Settings(row.run_id); });
  ComesBack<StepRow>(store, [&](const auto& row) { return store.Steps(row.run_id); });
  ComesBack<WorkerWindowRow>(store,
                             [&](const auto& row) { return store.WorkerWindows(row.run_id, {}); });
  ComesBack<WorkerLinkWindowRow>(
      store, [&](const auto& row) { return store.WorkerLinkWindows(row.run_id, {}); });
  ComesBack<PoolWindowRow>(store,
                           [&](const auto& row) { return store.PoolWindows(row.run_id, {}); });
  ComesBack<LinkWindowRow>(store,
                           [&](const auto& row) { return store.LinkWindows(row.run_id, {}); });
  ComesBack<VersionWindowRow>(
      store, [&](const auto& row) { return store.VersionWindows(row.run_id, {}); });
  ComesBack<EventLossRow>(store, [&](const auto& row) { return store.EventLosses(row.run_id); });
  ComesBack<OpenRangeRow>(store, [&](const auto& row) { return store.OpenRanges(row.run_id); });
  ComesBack<FindingRow>(store, [&](const auto& row) { return store.Findings(row.run_id); });
  ComesBack<CursorRow>(store, [&](const auto& row) { return store.Cursors(row.session_id); });
}

TEST(Store, MissingAndNotANumber_ComeBackAsTheyWere) {
  Scratch scratch;
  Store store = Opened(scratch / "run.db", kWrite);
  ASSERT_OK(store.Put(EventLossRow{"r", "s", "unknown_count", "session", std::nullopt, 1, 2}));
  ASSERT_OK(store.Put(StepRow{"r", 0, 5, 1, 8, 2, std::nullopt}));
  ASSERT_OK(store.Put(PoolWindowRow{"r", "compute", 0, 10, 2, std::nan("")}));
  EXPECT_FALSE(store.EventLosses("r")->front().events.has_value());
  EXPECT_FALSE(store.Steps("r")->front().loss.has_value());
  EXPECT_TRUE(std::isnan(store.PoolWindows("r", {})->front().busy_ratio));
}

TEST(Store, NarrowSpan_FindsTheWindowsOverItsEdges) {
  Scratch scratch;
  Store store = Opened(scratch / "run.db", kWrite);
  constexpr int64_t kSecond = 1'000'000'000;
  for (int64_t i = 0; i < 300; ++i) {
    ASSERT_OK(store.Put(PoolWindowRow{"r", "p", i * kSecond, kSecond}));
  }
  // As long as windows may be, and over the others.
  ASSERT_OK(store.Put(PoolWindowRow{"r", "q", 200 * kSecond, kMaxWindowNs}));
  const auto starts = [&](Store::Span span) {
    std::vector<int64_t> found;
    const auto windows = store.PoolWindows("r", span);
    for (const auto& window : windows.value()) found.push_back(window.start_ns / kSecond);
    return found;
  };
  EXPECT_THAT(starts({100 * kSecond + 5, 100 * kSecond + 6}), ElementsAre(100));
  EXPECT_THAT(starts({101 * kSecond - 1, 101 * kSecond + 1}), ElementsAre(100, 101));
  EXPECT_THAT(starts({200 * kSecond + kMaxWindowNs - 1, 200 * kSecond + kMaxWindowNs}),
              ElementsAre(200, 199 + kMaxWindowNs / kSecond));
  EXPECT_EQ(starts({}).size(), 301u);
  EXPECT_FALSE(store.Put(PoolWindowRow{"r", "p", 0, kMaxWindowNs + 1}).ok());
}

TEST(Store, WindowSpan_IsHalfOpen) {
  Scratch scratch;
  Store store = Opened(scratch / "run.db", kWrite);
  for (int64_t start : {0, 10, 20, 30}) ASSERT_OK(store.Put(PoolWindowRow{"r", "p", start, 10}));
  std::vector<int64_t> starts;
  const auto windows = store.PoolWindows("r", {10, 30});
  for (const auto& window : windows.value()) starts.push_back(window.start_ns);
  EXPECT_THAT(starts, ElementsAre(10, 20));
}

TEST(Store, RunPrefix_FindsOneNoneOrSeveral) {
  Scratch scratch;
  Store store = Opened(scratch / "run.db", kWrite);
  EXPECT_THAT(store.FindRun("").error().message, ::testing::HasSubstr("holds no run"));
  ASSERT_OK(store.Put(RunRow{"ab01", "h", "first", 5}));
  ASSERT_OK(store.Put(RunRow{"ab02", "h", "latest", 9}));
  ASSERT_OK(store.Put(RunRow{"cd03", "h", "earliest", 1}));
  EXPECT_EQ(store.FindRun("")->command, "latest");
  EXPECT_EQ(store.FindRun("cd")->command, "earliest");
  EXPECT_THAT(store.FindRun("ab").error().message, ::testing::HasSubstr("2 runs"));
  EXPECT_THAT(store.FindRun("ef").error().message, ::testing::HasSubstr("no run ef"));
}

TEST(Store, StringsAndSchemas_AreKeptOnce) {
  Scratch scratch;
  const std::string odd("nul\0 and \xff", 10);
  uint32_t id = 0;
  {
    Store store = Opened(scratch / "run.db", kWrite);
    id = *store.Intern("forward");
    EXPECT_GT(id, 0u);
    EXPECT_EQ(*store.Intern("forward"), id);
    EXPECT_NE(*store.Intern(odd), id);
    EXPECT_NE(*store.Intern(""), 0u);
    ASSERT_OK(store.PutSchema(id, {{"old", 'u'}, {"older", 'u'}, {"oldest", 'u'}}));
    ASSERT_OK(store.PutSchema(id, {{"bytes", 'u'}, {"loss", 'd'}}));
  }
  Store store = Opened(scratch / "run.db", kRead);
  EXPECT_EQ(*store.FindString("forward"), id);
  EXPECT_EQ(*store.String(*store.FindString(odd)), odd);
  EXPECT_EQ(*store.FindString("never"), 0u);
  EXPECT_EQ(*store.String(0), "");
  EXPECT_FALSE(store.String(12345).ok());
  const auto fields = store.Schema(id);
  ASSERT_EQ(fields->size(), 2u);
  EXPECT_EQ((*fields)[1].name, "loss");
  EXPECT_EQ((*fields)[1].type, 'd');
  EXPECT_TRUE(store.Schema(999)->empty());
}

}  // namespace
}  // namespace poolscope
