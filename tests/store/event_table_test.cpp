#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <array>
#include <bit>
#include <cstdio>
#include <fstream>
#include <random>

#include "store/schema.h"
#include "store/store.h"
#include "tests/bench/synthetic_run.h"
#include "tests/store/scratch.h"

namespace poolscope {
namespace {

using ::poolscope::testing::MakeTrack;
using ::poolscope::testing::Opened;
using ::poolscope::testing::Ranges;
using ::poolscope::testing::Scratch;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Rows = std::vector<std::vector<std::string>>;

// The rows of a statement, NULL as "NULL"; an error as the one row {"error", message}.
Rows Ask(const Store& store, const std::string& sql) {
  auto* db = static_cast<sqlite3*>(store.sqlite());
  sqlite3_stmt* statement = nullptr;
  Rows rows;
  if (sqlite3_prepare_v2(db, sql.c_str(), -1, &statement, nullptr) != SQLITE_OK) {
    return {{"error", sqlite3_errmsg(db)}};
  }
  int code;
  while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
    auto& row = rows.emplace_back();
    for (int i = 0; i < sqlite3_column_count(statement); ++i) {
      const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement, i));
      row.emplace_back(text ? text : "NULL");
    }
  }
  if (code != SQLITE_DONE) rows = {{"error", sqlite3_errmsg(db)}};
  sqlite3_finalize(statement);
  return rows;
}

std::string AskOne(const Store& store, const std::string& sql) {
  const Rows rows = Ask(store, sql);
  return rows.size() == 1 ? rows[0].back() : std::to_string(rows.size()) + " rows";
}

// A transfer's decode stage with two payload groups, a mark and two counter samples.
void MakeEvents(Store& store) {
  const int64_t ranges = MakeTrack(store, 1), marks = MakeTrack(store, 2);
  const int64_t counter = MakeTrack(store, 3);
  ASSERT_TRUE(store.Begin().ok());
  const uint32_t domain = *store.Intern("poolscope"), schema = *store.Intern("poolscope.transfer");
  const uint32_t codec = *store.Intern("b\"f\\16\n"), other = *store.Intern("other");
  ASSERT_TRUE(
      store.PutSchema(schema, {{"stage", 'u'}, {"step", 'u'}, {"codec", 's'}, {"lag", 'i'}}).ok());
  ASSERT_TRUE(store.PutSchema(other, {{"stage", 'd'}}).ok());
  EventBatch batch;
  Event event;
  event.start_ns = 1'760'000'000'000'000'001;
  event.duration_ns = 250;
  event.name = *store.Intern("gradients");
  event.domain = domain;
  event.category = 2;
  event.depth = 1;
  event.payload_words = 5 + 2 + 3;
  batch.words = {schema | uint64_t{4} << 32,
                 3,
                 kNoValue,
                 codec,
                 static_cast<uint64_t>(-7),
                 other | uint64_t{1} << 32,
                 std::bit_cast<uint64_t>(0.5),
                 uint64_t{99} | uint64_t{2} << 32,
                 11,
                 ~uint64_t{0} - 1};
  batch.events = {event};
  ASSERT_TRUE(store.Append(ranges, batch).ok());
  EventBatch mark;
  mark.events.resize(1);
  mark.events[0] = {.start_ns = 5, .value = 17, .name = event.name, .kind = EventKind::kMark};
  ASSERT_TRUE(store.Append(marks, mark).ok());
  EventBatch samples;
  samples.events.resize(2);
  samples.events[0] = {.start_ns = 6,
                       .value = std::bit_cast<uint64_t>(2.5),
                       .name = event.name,
                       .kind = EventKind::kCounter,
                       .flags = kEventFloat};
  samples.events[1] = {.start_ns = 7,
                       .value = static_cast<uint64_t>(-3),
                       .name = event.name,
                       .kind = EventKind::kCounter};
  ASSERT_TRUE(store.Append(counter, samples).ok());
  ASSERT_TRUE(store.Commit().ok());
}

TEST(EventTable, Columns_AreWhatWasRecorded) {
  Scratch scratch;
  Store store = Opened(scratch / "run.db", Store::Mode::kWrite);
  MakeEvents(store);
  EXPECT_THAT(
      Ask(store, "SELECT * FROM event WHERE kind = 'range'"),
      ElementsAre(ElementsAre("run", "host", "42", "7", "worker 3", "compute", "3", "1", "range",
                              "poolscope", "gradients", "2", "transfer", "1760000000000000001",
                              "1760000000000000251", "250", "1", "0", "0",
                              R"({"stage":3,"step":null,"codec":"b\"f\\16\u000a","lag":-7,)"
                              R"("other.stage":0.5,"0":11,"1":18446744073709551614})")));
  EXPECT_THAT(Ask(store,
                  "SELECT kind, start_ns, value, domain, category_name, payload FROM event "
                  "WHERE kind <> 'range' ORDER BY start_ns"),
              ElementsAre(ElementsAre("mark", "5", "17", "NULL", "NULL", "NULL"),
                          ElementsAre("counter", "6", "2.5", "NULL", "NULL", "NULL"),
                          ElementsAre("counter", "7", "-3", "NULL", "NULL", "NULL")));
}

TEST(EventTable, Payload_IsJsonThatSqliteReads) {
  Scratch scratch;
  Store store = Opened(scratch / "run.db", Store::Mode::kWrite);
  MakeEvents(store);
  EXPECT_EQ(AskOne(store, "SELECT json_valid(payload) FROM event WHERE payload IS NOT NULL"), "1");
  EXPECT_EQ(AskOne(store, "SELECT json_extract(payload, '$.codec') FROM event WHERE category = 2"),
            "b\"f\\16\n");
}

TEST(EventTable, Names_OfAnyBytesGiveValidJson) {
  Scratch scratch;
  Store store = Opened(scratch / "run.db", Store::Mode::kWrite);
  const int64_t track = MakeTrack(store);
  std::mt19937 random(5);
  ASSERT_TRUE(store.Begin().ok());
  const uint32_t schema = *store.Intern("s");
  ASSERT_TRUE(store.PutSchema(schema, {{"text", 's'}}).ok());
  EventBatch batch = Ranges(500, 0);
  for (Event& event : batch.events) {
    std::string text(random() % 8, ' ');
    for (char& c : text) c = static_cast<char>(1 + random() % 255);
    event.payload_offset = static_cast<uint32_t>(batch.words.size());
    event.payload_words = 2;
    batch.words.insert(batch.words.end(), {schema | uint64_t{1} << 32, *store.Intern(text)});
  }
  ASSERT_TRUE(store.Append(track, batch).ok());
  ASSERT_TRUE(store.Commit().ok());
  EXPECT_EQ(AskOne(store, "SELECT count(*) FROM event WHERE json_valid(payload)"), "500");
}

// --- On a synthetic run: what is pushed down must not change the answer ---

class EventTableOfRun : public ::testing::Test {
 protected:
  void SetUp() override {
    Store store = Opened(scratch_ / "run.db", Store::Mode::kWrite);
    for (const char* id : {"aa01", "bb02"}) {
      bench::SyntheticRun run(store, {}, id);
      ASSERT_TRUE(store.Begin().ok());
      ASSERT_TRUE(run.PutRun().ok());
      run.Make(30000);
      ASSERT_TRUE(run.Append().ok());
      ASSERT_TRUE(run.Finish().ok());
      ASSERT_TRUE(store.Commit().ok());
    }
  }

  Scratch scratch_;
};

TEST_F(EventTableOfRun, Conditions_GiveTheSameRowsPushedDownOrNot) {
  const Store store = Opened(scratch_ / "run.db", Store::Mode::kRead);
  const std::string middle = AskOne(store, "SELECT (min(start_ns) + max(start_ns)) / 2 FROM event");
  Ask(store, "CREATE TEMP TABLE copy AS SELECT * FROM event");  // where SQLite does it all
  const std::string conditions[] = {"start_ns < M",
                                    "start_ns <= M",
                                    "start_ns > M",
                                    "start_ns >= M",
                                    "start_ns = M",
                                    "start_ns BETWEEN M - 50000000 AND M",
                                    "start_ns > M + 0.5",
                                    "start_ns < 1e30",
                                    "start_ns > '5'",
                                    "start_ns > NULL",
                                    "end_ns > M",
                                    "end_ns >= M AND start_ns <= M",
                                    "run_id = 'aa01'",
                                    "run_id = 'none'",
                                    "track_id = 3",
                                    "track_id = '3'",
                                    "tid = 5000",
                                    "pool = 'update'",
                                    "pool = ''",
                                    "kind = 'counter'",
                                    "kind = 'mark'",
                                    "kind = 2",
                                    "name = 'forward'",
                                    "name = 'FORWARD'",
                                    "name = 'FORWARD' COLLATE NOCASE",
                                    "name IN ('forward', 'loss')",
                                    "name = 'absent'",
                                    "category = 2",
                                    "category = 2.0",
                                    "category = 3 AND pool = 'compute' AND start_ns > M",
                                    "name = domain",
                                    "track_id = 1 OR track_id = 2"};
  for (const std::string& condition : conditions) {
    std::string where = " WHERE " + condition;
    for (size_t at = 0; (at = where.find(" M", at)) != std::string::npos; ++at) {
      where.replace(at + 1, 1, middle);
    }
    const std::string sum = "SELECT count(*), coalesce(sum(start_ns % 1000003), 0) FROM ";
    EXPECT_EQ(Ask(store, sum + "event" + where), Ask(store, sum + "copy" + where)) << condition;
  }
}

TEST_F(EventTableOfRun, TimeRange_ReadsOnlyItsChunks) {
  Store store = Opened(scratch_ / "run.db", Store::Mode::kWrite);
  // Damage every chunk but the first of one track: a query that keeps out of them works.
  Ask(store, "UPDATE chunk_data SET data = x'01' WHERE chunk_key <> (1 << 32)");
  const std::string last =
      AskOne(store, "SELECT last_ns FROM chunk WHERE track_id = 1 AND chunk_index = 0");
  EXPECT_EQ(AskOne(store, "SELECT count(*) FROM event WHERE track_id = 1 AND start_ns <= " + last),
            AskOne(store, "SELECT events FROM chunk WHERE track_id = 1 AND chunk_index = 0"));
  EXPECT_EQ(AskOne(store, "SELECT count(*) FROM event WHERE name = 'no such name'"), "0");
  const Rows all = Ask(store, "SELECT count(*) FROM event");
  ASSERT_EQ(all.size(), 1u);
  EXPECT_THAT(all[0].back(), HasSubstr("damaged chunk"));
}

TEST_F(EventTableOfRun, SameTable_TwiceInOneStatement) {
  const Store store = Opened(scratch_ / "run.db", Store::Mode::kRead);
  EXPECT_EQ(AskOne(store,
                   "SELECT count(*) FROM event a JOIN event b ON a.start_ns = b.start_ns "
                   "WHERE a.name = 'step' AND b.name = 'step' AND a.run_id = b.run_id"),
            AskOne(store, "SELECT count(*) FROM step"));
}

std::string OutputOf(const std::string& command) {
  std::string output;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  std::array<char, 4096> buffer;
  while (const size_t bytes = fread(buffer.data(), 1, buffer.size(), pipe)) {
    output.append(buffer.data(), bytes);
  }
  pclose(pipe);
  return output;
}

TEST_F(EventTableOfRun, Extension_GivesTheShellTheSameEvents) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitized library needs a sanitized shell";
#endif
  if (std::system("command -v sqlite3 >/dev/null") != 0) GTEST_SKIP() << "no sqlite3 shell";
  const Store store = Opened(scratch_ / "run.db", Store::Mode::kRead);
  const std::string sql = "SELECT count(*), sum(duration_ns) FROM event WHERE category = 1";
  const Rows rows = Ask(store, sql);
  EXPECT_EQ(OutputOf("sqlite3 -cmd '.load " POOLSCOPE_EXTENSION "' " +
                     (scratch_ / "run.db").string() + " '" + sql + "'"),
            rows[0][0] + "|" + rows[0][1] + "\n");
  EXPECT_THAT(OutputOf("sqlite3 -cmd '.load " POOLSCOPE_EXTENSION "' :memory: "
                       "'SELECT * FROM event'"),
              HasSubstr("not a Poolscope store"));
}

// --- docs/store.md ---

std::string Documentation() {
  std::ifstream file(POOLSCOPE_SOURCE_DIR "/docs/store.md");
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_F(EventTableOfRun, QueriesInTheDocumentation_GiveRows) {
  const Store store = Opened(scratch_ / "run.db", Store::Mode::kRead);
  const std::string text = Documentation();
  int queries = 0;
  for (size_t at = 0; (at = text.find("```sql\n", at)) != std::string::npos;) {
    at += 7;
    const std::string sql = text.substr(at, text.find("```", at) - at);
    const Rows rows = Ask(store, sql);
    ASSERT_FALSE(rows.empty()) << sql;
    EXPECT_NE(rows[0][0], "error") << sql << rows[0].back();
    ++queries;
  }
  EXPECT_GE(queries, 5);
}

TEST(Documentation, Tables_AreThoseOfTheSchema) {
  const std::string tables = SchemaAsMarkdown();
  const std::string text = Documentation();
  for (size_t at = 0; at < tables.size();) {
    const size_t end = std::min(tables.find("### ", at + 1), tables.size());
    const std::string section = tables.substr(at, tables.find_last_not_of('\n', end - 1) + 1 - at);
    EXPECT_NE(text.find(section), std::string::npos) << "docs/store.md lacks\n" << section;
    at = end;
  }
}

}  // namespace
}  // namespace poolscope
