#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/mount.h>

#include <algorithm>
#include <fstream>

#include "store/schema.h"
#include "store/store.h"
#include "tests/store/scratch.h"

// What Store::Open makes of the files it meets.
namespace poolscope {
namespace {

using ::poolscope::testing::AllEvents;
using ::poolscope::testing::MakeTrack;
using ::poolscope::testing::Opened;
using ::poolscope::testing::Ranges;
using ::poolscope::testing::Scratch;
using ::testing::HasSubstr;

constexpr auto kRead = Store::Mode::kRead;
constexpr auto kWrite = Store::Mode::kWrite;

void MakeStore(const std::filesystem::path& path, size_t events = 10) {
  Store store = Opened(path, kWrite);
  const int64_t track = MakeTrack(store);
  ASSERT_TRUE(store.Begin().ok());
  ASSERT_TRUE(store.Append(track, Ranges(events, 0)).ok());
  ASSERT_TRUE(store.Commit().ok());
}

void Sql(const std::filesystem::path& path, const char* sql) {
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
  char* message = nullptr;
  EXPECT_EQ(sqlite3_exec(db, sql, nullptr, nullptr, &message), SQLITE_OK) << message;
  sqlite3_close(db);
}

// The one line with which the file is refused; it names the file.
std::string Refusal(const std::filesystem::path& path, Store::Mode mode) {
  const auto store = Store::Open(path, mode);
  EXPECT_FALSE(store.ok()) << path;
  if (store.ok()) return "";
  const std::string& message = store.error().message;
  EXPECT_THAT(message, HasSubstr(path.string()));
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  return message;
}

std::string Bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> Listing(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST(StoreFile, Missing_IsNotMadeByReading) {
  Scratch scratch;
  EXPECT_THAT(Refusal(scratch / "none.db", kRead), HasSubstr("no store"));
  EXPECT_TRUE(Listing(scratch.folder()).empty());
}

TEST(StoreFile, InAFolderThatIsNotThere_IsRefused) {
  Scratch scratch;
  Refusal(scratch / "no/such/run.db", kRead);
  EXPECT_THAT(Refusal(scratch / "no/such/run.db", kWrite), HasSubstr("folder"));
}

TEST(StoreFile, Folder_IsRefused) {
  Scratch scratch;
  EXPECT_THAT(Refusal(scratch.folder(), kRead), HasSubstr("is a folder"));
  EXPECT_THAT(Refusal(scratch.folder(), kWrite), HasSubstr("is a folder"));
}

TEST(StoreFile, Device_IsRefused) {
  EXPECT_THAT(Refusal("/dev/null", kRead), HasSubstr("not a regular file"));
  EXPECT_THAT(Refusal("/dev/null", kWrite), HasSubstr("not a regular file"));
}

TEST(StoreFile, Empty_CanBeWrittenButNotRead) {
  Scratch scratch;
  std::ofstream(scratch / "run.db").close();
  EXPECT_THAT(Refusal(scratch / "run.db", kRead), HasSubstr("is empty"));
  MakeStore(scratch / "run.db");
  EXPECT_EQ(AllEvents(Opened(scratch / "run.db", kRead)).size(), 10u);
}

TEST(Malicious_StoreFile, Garbage_IsRefusedAndLeftAlone) {
  Scratch scratch;
  const std::string garbage(5000, 'x');
  std::ofstream(scratch / "run.db") << garbage;
  EXPECT_THAT(Refusal(scratch / "run.db", kRead), HasSubstr("not a Poolscope store"));
  EXPECT_THAT(Refusal(scratch / "run.db", kWrite), HasSubstr("not a Poolscope store"));
  EXPECT_EQ(Bytes(scratch / "run.db"), garbage);
}

TEST(Malicious_StoreFile, OtherDatabase_IsRefusedAndLeftAlone) {
  Scratch scratch;
  Sql(scratch / "run.db", "CREATE TABLE meta (key, value); INSERT INTO meta VALUES ('format', 1)");
  const std::string before = Bytes(scratch / "run.db");
  EXPECT_THAT(Refusal(scratch / "run.db", kRead), HasSubstr("not a Poolscope store"));
  EXPECT_THAT(Refusal(scratch / "run.db", kWrite), HasSubstr("not a Poolscope store"));
  EXPECT_EQ(Bytes(scratch / "run.db"), before);
}

TEST(Malicious_StoreFile, TruncatedAnywhere_GivesErrorsNotHarm) {
  Scratch scratch;
  MakeStore(scratch / "whole.db", 50000);
  const std::string bytes = Bytes(scratch / "whole.db");
  for (size_t length : {1u, 50u, 100u, 4096u, 8192u, 40000u, 100000u}) {
    ASSERT_LT(length, bytes.size());
    std::ofstream(scratch / "cut.db", std::ios::binary) << bytes.substr(0, length);
    Refusal(scratch / "cut.db", kRead);
    Refusal(scratch / "cut.db", kWrite);
  }
}

TEST(Malicious_StoreFile, OverwrittenPages_GiveErrorsNotHarm) {
  Scratch scratch;
  MakeStore(scratch / "whole.db", 50000);
  const std::string bytes = Bytes(scratch / "whole.db");
  for (size_t page = 1; page * 4096 < bytes.size(); ++page) {
    std::string broken = bytes;
    std::fill_n(broken.begin() + static_cast<long>(page * 4096), 4096, '\x5a');
    std::ofstream(scratch / "broken.db", std::ios::binary) << broken;
    const auto store = Store::Open(scratch / "broken.db", kRead);
    if (!store.ok()) continue;
    size_t events = 0;
    const Status status = store->ReadEvents("run", {}, [&](const auto&, const EventBatch& batch) {
      events += batch.events.size();
      return true;
    });
    EXPECT_TRUE(!status.ok() || events == 50000 || events == 0) << "page " << page;
  }
}

TEST(StoreFile, NewerFormat_IsRefusedPolitely) {
  Scratch scratch;
  MakeStore(scratch / "run.db");
  Sql(scratch / "run.db", "UPDATE meta SET value = '99' WHERE key = 'format'");
  for (const auto mode : {kRead, kWrite}) {
    const std::string message = Refusal(scratch / "run.db", mode);
    EXPECT_THAT(message, HasSubstr("99"));
    EXPECT_THAT(message, HasSubstr(std::to_string(kStoreFormat)));
  }
}

// A store as format 1 had it.
void MakeFormat1(const std::filesystem::path& path) {
  MakeStore(path, 9000);
  Sql(path,
      "ALTER TABLE chunk DROP COLUMN min_value; ALTER TABLE chunk DROP COLUMN max_value;"
      "ALTER TABLE link_window DROP COLUMN retries; ALTER TABLE link_window DROP COLUMN corrupt;"
      "ALTER TABLE link_window DROP COLUMN duplicates; ALTER TABLE link_window DROP COLUMN lost;"
      "INSERT INTO link_window VALUES ('run', 1, 'l', 9, 3, 5, 5, 1, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0);"
      "DROP TABLE collective_window;"
      "DROP TABLE process_fact;"
      "DROP TABLE device_window;"
      "DROP TABLE symbol;"
      "UPDATE meta SET value = '1' WHERE key = 'format'");
}

TEST(StoreFile, OlderFormat_IsReadWithoutChangingIt) {
  Scratch scratch;
  MakeFormat1(scratch / "run.db");
  const std::string before = Bytes(scratch / "run.db");
  {
    const Store store = Opened(scratch / "run.db", kRead);
    EXPECT_EQ(AllEvents(store), Ranges(9000, 0).events);
    EXPECT_FALSE(store.Chunks(1, {})->front().min_value.has_value());
    const auto windows = store.LinkWindows("run", {});
    ASSERT_TRUE(windows.ok());
    EXPECT_EQ(windows->front().transfers, 3);
    EXPECT_EQ(windows->front().faults[0], 0);
    EXPECT_TRUE(store.CollectiveWindows("run", {})->empty());
    EXPECT_TRUE(store.ProcessFacts("session")->empty());
    EXPECT_TRUE(store.Symbols()->empty());
    EXPECT_TRUE(store.DeviceWindows("run", {})->empty());
  }
  EXPECT_EQ(Bytes(scratch / "run.db"), before);
}

TEST(StoreFile, OlderFormat_IsMigratedByWriting) {
  Scratch scratch;
  MakeFormat1(scratch / "run.db");
  {
    Store store = Opened(scratch / "run.db", kWrite);
    ASSERT_TRUE(store.Begin().ok());
    ASSERT_TRUE(store.Append(1, Ranges(1000, 9'000'000)).ok());
    ASSERT_TRUE(store.Put(ProcessFactRow{"session", "env.RANK", "3"}).ok());
    ASSERT_TRUE(store.Put(SymbolRow{5, "_Z4gemmPf"}).ok());
    ASSERT_TRUE(store.Commit().ok());
  }
  {
    Store store = Opened(scratch / "run.db", kWrite);  // once is enough
    ASSERT_TRUE(store.Put(CollectiveWindowRow{"run", 5, "0a", "AllReduce", 10}).ok());
    ASSERT_TRUE(store.Put(DeviceWindowRow{"run", 5, "h", 3, "nvml", 10}).ok());
  }
  const Store store = Opened(scratch / "run.db", kRead);
  EXPECT_EQ(AllEvents(store), Ranges(10000, 0).events);
  EXPECT_EQ(store.LinkWindows("run", {})->front().faults[3], 0);
  EXPECT_EQ(store.CollectiveWindows("run", {})->front().communicator, "0a");
  EXPECT_EQ(store.ProcessFacts("session")->at(0).value, "3");
  EXPECT_EQ(store.Symbols()->at(0).mangled, "_Z4gemmPf");
  EXPECT_EQ(store.DeviceWindows("run", {})->front().device, 3);
  EXPECT_FALSE(store.DeviceWindows("run", {})->front().sm_ratio.has_value());
  sqlite3_stmt* statement = nullptr;
  sqlite3_prepare_v2(static_cast<sqlite3*>(store.sqlite()), "SELECT value FROM meta", -1,
                     &statement, nullptr);
  ASSERT_EQ(sqlite3_step(statement), SQLITE_ROW);
  EXPECT_EQ(sqlite3_column_int(statement, 0), kStoreFormat);
  sqlite3_finalize(statement);
}

TEST(StoreFile, DeviceWindowsOfFormat6_HaveNoTensorRatio) {
  Scratch scratch;
  MakeStore(scratch / "run.db");
  Sql(scratch / "run.db",
      "ALTER TABLE device_window DROP COLUMN tensor_ratio; DROP TABLE symbol;"
      "INSERT INTO device_window (run_id, start_ns, host, device, source, window_ns, uuid, name, "
      "sm_ratio) VALUES ('run', 5, 'h', 3, 'nvml', 10, 'GPU-3', 'n', 0.5);"
      "UPDATE meta SET value = '6' WHERE key = 'format'");
  for (const auto mode : {kRead, kWrite}) {
    const auto rows = Opened(scratch / "run.db", mode).DeviceWindows("run", {});
    ASSERT_TRUE(rows.ok());
    ASSERT_EQ(rows->size(), 1u);
    EXPECT_EQ(rows->front().sm_ratio, 0.5);
    EXPECT_FALSE(rows->front().tensor_ratio.has_value());
  }
}

TEST(StoreFile, Reading_CreatesAndChangesNothing) {
  Scratch scratch;
  MakeStore(scratch / "run.db");
  const std::string before = Bytes(scratch / "run.db");
  {
    Store store = Opened(scratch / "run.db", kRead);
    EXPECT_EQ(AllEvents(store).size(), 10u);
    EXPECT_FALSE(store.Begin().ok());
    EXPECT_FALSE(store.Put(SettingRow{"run", "a", "b"}).ok());
    EXPECT_FALSE(store.Intern("new").ok());
    EXPECT_EQ(Listing(scratch.folder()), std::vector<std::string>{"run.db"});
  }
  EXPECT_EQ(Listing(scratch.folder()), std::vector<std::string>{"run.db"});
  EXPECT_EQ(Bytes(scratch / "run.db"), before);
}

TEST(StoreFile, OddCharactersInThePath_AreJustCharacters) {
  Scratch scratch;
  for (const char* name : {"a?immutable=1", "b#c", "d%20e", "f g", "file:h", "\xc3\xa9"}) {
    MakeStore(scratch / name);
    EXPECT_EQ(AllEvents(Opened(scratch / name, kRead)).size(), 10u) << name;
    EXPECT_TRUE(std::filesystem::exists(scratch / name)) << name;
  }
}

// A file system of the test's own; needs root.
class Mounted {
 public:
  Mounted(const std::filesystem::path& folder, const char* options) : folder_(folder) {
    std::filesystem::create_directory(folder);
    ok_ = mount("none", folder.c_str(), "tmpfs", 0, options) == 0;
  }
  ~Mounted() {
    if (ok_) umount2(folder_.c_str(), MNT_DETACH);
  }
  bool ok() const { return ok_; }
  bool MakeReadOnly() const {
    return mount("none", folder_.c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, "") == 0;
  }

 private:
  std::filesystem::path folder_;
  bool ok_;
};

TEST(StoreFile, ReadOnlyMedia_CanBeRead) {
  Scratch scratch;
  const Mounted mounted(scratch / "media", "size=8m");
  if (!mounted.ok()) GTEST_SKIP() << "cannot mount here";
  MakeStore(scratch / "media/run.db");
  ASSERT_TRUE(mounted.MakeReadOnly());
  EXPECT_EQ(AllEvents(Opened(scratch / "media/run.db", kRead)).size(), 10u);
  EXPECT_THAT(Refusal(scratch / "media/run.db", kWrite), HasSubstr("permissions"));
  EXPECT_THAT(Refusal(scratch / "media/new.db", kWrite), HasSubstr("permissions"));
}

TEST(StoreFile, ReadOnlyMediaWithALog_ShowWhatTheFileItselfHolds) {
  Scratch scratch;
  const Mounted mounted(scratch / "media", "size=8m");
  if (!mounted.ok()) GTEST_SKIP() << "cannot mount here";
  MakeStore(scratch / "run.db");
  Store writer = Opened(scratch / "run.db", kWrite);
  ASSERT_TRUE(writer.Begin().ok());
  ASSERT_TRUE(writer.Append(1, Ranges(5, 10'000)).ok());
  ASSERT_TRUE(writer.Commit().ok());
  for (const char* name : {"run.db", "run.db-wal"}) {
    std::filesystem::copy_file(scratch / name, scratch / (std::string("media/") + name));
  }
  ASSERT_TRUE(mounted.MakeReadOnly());
  const Store store = Opened(scratch / "media/run.db", kRead);
  EXPECT_EQ(AllEvents(store).size(), 10u);
  EXPECT_EQ(store.DataVersion(), store.DataVersion());
}

TEST(StoreFile, FullDisk_LosesNothingCommittedAndGoesOnWhenThereIsRoom) {
  Scratch scratch;
  const Mounted mounted(scratch / "small", "size=3m");
  if (!mounted.ok()) GTEST_SKIP() << "cannot mount here";
  std::ofstream(scratch / "small/filler") << std::string(1 << 20, 'f');
  Store store = Opened(scratch / "small/run.db", kWrite);
  const int64_t track = MakeTrack(store);
  const auto commit = [&](int64_t index) {
    if (Status status = store.Begin(); !status.ok()) return status;
    if (Status status = store.Append(track, Ranges(1000, index * 1'000'000)); !status.ok()) {
      store.Rollback();
      return status;
    }
    // Incompressible, so that the disk is full soon.
    std::string text(20000, '\0');
    for (char& c : text) c = static_cast<char>('a' + std::rand() % 26);
    if (Status status = store.Put(SettingRow{"run", std::to_string(index), text}); !status.ok()) {
      store.Rollback();
      return status;
    }
    return store.Commit();
  };
  int64_t committed = 0;
  Status status;
  while (committed < 1000 && (status = commit(committed)).ok()) ++committed;
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message, HasSubstr("disk is full"));
  EXPECT_THAT(status.error().message, HasSubstr("run.db"));
  EXPECT_GT(committed, 5);
  EXPECT_EQ(AllEvents(store), Ranges(static_cast<size_t>(committed) * 1000, 0).events);

  std::filesystem::remove(scratch / "small/filler");
  for (int i = 0; i < 3; ++i) {
    status = commit(committed);
    ASSERT_TRUE(status.ok()) << status.error().message;
    ++committed;
  }
  EXPECT_EQ(store.Settings("run")->size(), static_cast<size_t>(committed));
  EXPECT_EQ(AllEvents(Opened(scratch / "small/run.db", kRead)),
            Ranges(static_cast<size_t>(committed) * 1000, 0).events);
}

}  // namespace
}  // namespace poolscope
