// The writer against readers that look while it works, in one process.

#include "trace/session_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <memory>
#include <thread>
#include <vector>

#include "tests/support/nvtx_session_view.h"
#include "trace/session_reader.h"

namespace poolscope {
namespace {

using support::FreeAll;
using support::SetRingMode;
using support::ViewSessions;

class Writer : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/dev/shm/poolscope-test-XXXXXX";
    directory_ = mkdtemp(name);
    setenv("POOLSCOPE_RUN_DIR", directory_.c_str(), 1);
    setenv("POOLSCOPE_RING_BYTES", "65536", 1);
    ASSERT_TRUE(session_.Init());
    Reason why;
    ASSERT_TRUE(session_.Start(&why)) << why.text;
    path_ = ViewSessions(directory_).at(0).path;
  }
  void TearDown() override {
    session_.ForgetInChild();  // lets go of the file
    std::filesystem::remove_all(directory_);
  }

  std::string directory_, path_;
  const std::unique_ptr<SessionWriter> owned_ = std::make_unique<SessionWriter>();
  SessionWriter& session_ = *owned_;
};

TEST_F(Writer, FourThreadsAgainstADrainer_LoseNothingUncounted) {
  constexpr uint64_t kEach = 300'000;
  SetRingMode(path_, RingMode::kDropNewest);
  const uint32_t name = session_.Intern("work");
  std::atomic<int> running{4};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      ThreadWriter* writer = session_.Attach();
      for (uint64_t i = 0; i < kEach; ++i) {
        writer->Push(0, name, 0, {});
        writer->Pop(0, {});
      }
      session_.Detach(writer);
      --running;
    });
  }
  uint64_t drained = 0;
  while (running > 0) drained += FreeAll(path_);
  for (std::thread& thread : threads) thread.join();
  drained += FreeAll(path_);
  const auto view = support::ViewSession(path_);
  EXPECT_EQ(drained + view.Lost(), 4 * kEach);
  EXPECT_GT(drained, 0u);
}

TEST_F(Writer, ReadersThatComeAndLeave_KeepTheCountsExact) {
  constexpr uint64_t kEach = 500'000;
  const uint32_t name = session_.Intern("work");
  std::atomic<int> running{8};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      ThreadWriter* writer = session_.Attach();
      for (uint64_t i = 0; i < kEach; ++i) {
        writer->Push(0, name, 0, {});
        writer->Pop(0, {});
      }
      --running;
    });
  }
  uint64_t drained = 0;
  while (running > 0) {
    SetRingMode(path_, RingMode::kDropNewest);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    drained += FreeAll(path_);
    SetRingMode(path_, RingMode::kOverwriteOldest);
    std::this_thread::yield();
  }
  for (std::thread& thread : threads) thread.join();
  SetRingMode(path_, RingMode::kDropNewest);
  drained += FreeAll(path_);
  EXPECT_EQ(drained + support::ViewSession(path_).Lost(), 8 * kEach);
}

TEST_F(Writer, OpenStackUnderItsSequence_IsNeverTorn) {
  ThreadWriter* writer = session_.Attach();
  std::vector<uint32_t> names;
  for (int i = 0; i < 8; ++i) names.push_back(session_.Intern("name " + std::to_string(i)));
  std::atomic<bool> enough{false};
  // Names and categories go together; an entry with a pair that never was is torn.
  std::thread job([&] {
    for (uint32_t round = 0; !enough; ++round) {
      const uint32_t depth = 1 + round % 7;
      for (uint32_t i = 0; i < depth; ++i) {
        const uint32_t which = (round + i) % 8;
        writer->Push(i % 2, names[which], which, {});
      }
      for (uint32_t i = 0; i < depth; ++i) writer->Pop(i % 2 == 0 && depth > 1 ? 1 : 0, {});
      while (writer->Pop(0, {}) != ThreadWriter::kNoRange) {
      }
      while (writer->Pop(1, {}) != ThreadWriter::kNoRange) {
      }
    }
  });
  const int file = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  uint64_t seen = 0;
  while (seen < 2000) {
    alignas(ThreadSlot) std::byte before[sizeof(ThreadSlot)];
    uint64_t sequence_after = 0;
    EXPECT_EQ(pread(file, before, sizeof(before), kSlotsAt), ssize_t{sizeof(before)});
    const auto* slot = reinterpret_cast<const ThreadSlot*>(before);
    EXPECT_EQ(pread(file, &sequence_after, 8, kSlotsAt + offsetof(ThreadSlot, open_sequence)), 8);
    uint64_t sequence_before = slot->open_sequence.load();
    if (sequence_before % 2 != 0 || sequence_before != sequence_after) continue;
    for (uint32_t i = 0; i < slot->open_depth.load(); ++i) {
      const OpenRange& open = slot->open[i];
      EXPECT_LT(open.category, 8u);
      EXPECT_EQ(open.name, names[open.category % 8]);
      ++seen;
    }
  }
  enough = true;
  job.join();
  close(file);
}

TEST_F(Writer, Slot_HasTheSystemsNameOfItsThread) {
  for (const char* name : {"first", "fifteen letters"}) {
    std::thread([&] {
      prctl(PR_SET_NAME, name);
      ThreadWriter* writer = session_.Attach();
      writer->Mark(0, session_.Intern("mark"), 0, {});
      const uint32_t owners[] = {geteuid()};
      Result<SessionReader> reader = SessionReader::Open(path_, owners);
      ASSERT_TRUE(reader.ok());
      const uint32_t last = reader->State()->slots_used - 1;
      EXPECT_EQ(reader->Slot(last)->name, name);
      session_.Detach(writer);
    }).join();
  }
}

TEST_F(Writer, ReusedSlot_BelongsToItsNewThreadAlone) {
  SetRingMode(path_, RingMode::kDropNewest);
  ThreadWriter* first = nullptr;
  ThreadWriter* second = nullptr;
  std::thread([&] {
    first = session_.Attach();
    first->Push(0, session_.Intern("left open"), 0, {});
    first->Mark(0, session_.Intern("mark"), 0, {});
    session_.Detach(first);
  }).join();
  std::thread([&] { second = session_.Attach(); }).join();
  EXPECT_NE(first, second) << "what it holds is not drained yet";
  FreeAll(path_);
  std::thread([&] { second = session_.Attach(); }).join();
  EXPECT_EQ(first, second);
  const auto view = support::ViewSession(path_);
  EXPECT_TRUE(view.open.empty());
  EXPECT_TRUE(view.events.empty());
}

TEST_F(Writer, ThreadThatExits_EndsWhatItLeftOpen) {
  SetRingMode(path_, RingMode::kDropNewest);
  const uint32_t name = session_.Intern("left open");
  std::thread([&] {
    ThreadWriter* writer = session_.Attach();
    for (uint32_t i = 0; i < kMaxOpenRanges + 3; ++i) writer->Push(0, name, 0, {});
    session_.Detach(writer);
  }).join();
  auto view = support::ViewSession(path_);
  EXPECT_EQ(view.Count("left open"), size_t{kMaxOpenRanges});
  for (const auto& event : view.events) EXPECT_EQ(event.flags, kRecordOpenAtExit);
  EXPECT_TRUE(view.open.empty());
  EXPECT_EQ(view.losses.at("open_table_full"), 3u);
}

TEST_F(Writer, ThreadsBeyondTheSlots_GetNone) {
  SetRingMode(path_, RingMode::kDropNewest);
  for (uint32_t i = 0; i < kMaxThreads; ++i) ASSERT_NE(session_.Attach(), nullptr) << i;
  EXPECT_EQ(session_.Attach(), nullptr);
}

TEST_F(Writer, ProcessRangesBeyondTheTable_AreCounted) {
  ThreadWriter* writer = session_.Attach();
  const uint32_t name = session_.Intern("range");
  std::vector<uint64_t> ids;
  for (uint32_t i = 0; i < kMaxOpenProcessRanges + 10; ++i) {
    ids.push_back(session_.StartProcessRange(writer, 0, name, 0, {}));
  }
  EXPECT_EQ(std::count(ids.begin(), ids.end(), 0u), 10);
  auto view = support::ViewSession(path_);
  EXPECT_EQ(view.open.size(), size_t{kMaxOpenProcessRanges});
  EXPECT_EQ(view.losses.at("open_table_full"), 10u);
  std::sort(ids.begin(), ids.end());
  EXPECT_EQ(std::unique(ids.begin() + 10, ids.end()), ids.end());
  for (const uint64_t id : ids) session_.EndProcessRange(writer, id, {});
  view = support::ViewSession(path_);
  EXPECT_TRUE(view.open.empty());
  EXPECT_EQ(view.losses.count("unmatched_end"), 0u);
}

// Without a collector the oldest records are overwritten, one by one, by their lengths.
TEST_F(Writer, RingThatSomeoneElseWroteIn_StopsItsThreadAndSaysWhy) {
  ThreadWriter* writer = session_.Attach();
  const uint32_t name = session_.Intern("work");
  const auto record = [&] {
    for (int i = 0; i < 10'000; ++i) {
      writer->Push(0, name, 0, {});
      writer->Pop(0, {});
    }
  };
  record();
  const uint32_t owners[] = {geteuid()};
  auto reader = SessionReader::Open(path_, owners);
  ASSERT_TRUE(reader.ok());
  EXPECT_EQ(reader->State()->agent_off, AgentOff::kNo);
  const auto slot = reader->Slot(0);
  const std::vector<char> nothing(slot->ring_bytes);
  const int file = open(path_.c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_EQ(pwrite(file, nothing.data(), nothing.size(), static_cast<off_t>(slot->ring_offset)),
            static_cast<ssize_t>(nothing.size()));
  close(file);
  record();
  EXPECT_EQ(reader->State()->agent_off, AgentOff::kForeignRecord);
}

TEST_F(Writer, RepeatedDefinitions_AreWrittenOnce) {
  const auto defined = [&] { return support::ViewSession(path_).definitions.size(); };
  const uint32_t a = session_.Intern("a"), b = session_.Intern("b");
  for (int i = 0; i < 1000; ++i) session_.Define(DefinitionKind::kThreadName, 7, &a, 4, 0);
  EXPECT_EQ(defined(), 1u);
  session_.Define(DefinitionKind::kThreadName, 7, &b, 4, 0);
  session_.Define(DefinitionKind::kThreadName, 7, &a, 4, 0);  // renamed, and renamed back
  EXPECT_EQ(defined(), 3u);
}

TEST_F(Writer, LongNames_AreCutBetweenCharacters) {
  std::string text(kMaxStringBytes - 1, 'x');
  text += "\xc3\xa9 and more";
  EXPECT_EQ(session_.Text(session_.Intern(text)), std::string(kMaxStringBytes - 1, 'x'));
}

TEST_F(Writer, ActivityOfALane_IsOneRecordWithItsOwnTimes) {
  SetRingMode(path_, RingMode::kDropNewest);
  const LaneDef lane = {session_.Intern("GPU 0 stream 7"), LaneKind::kDeviceStream, 0, 1, 7};
  ASSERT_TRUE(session_.Define(DefinitionKind::kLane, 5, &lane, sizeof(lane), 0));
  ThreadWriter* writer = session_.Attach();
  EventPayload payload;
  payload.flags = kRecordHasValue;
  payload.value = 77;
  writer->Activity(5, 0, session_.Intern("gemm"), 2, 1000, 3000, true, payload);

  const uint32_t owner[] = {getuid()};
  auto reader = SessionReader::Open(path_, owner);
  ASSERT_TRUE(reader.ok()) << reader.error().message;
  ASSERT_TRUE(reader->ReadDefinitions().ok());
  const auto slot = reader->Slot(0);
  ASSERT_TRUE(slot.ok());
  std::vector<uint64_t> words;
  ASSERT_TRUE(reader->CopyRing(0, *slot, 0, words).ok());
  size_t at = 0;
  Record record;
  ASSERT_TRUE(DecodeUntrusted(words, reader->definitions(), at, record));
  EXPECT_EQ(record.kind, RecordKind::kActivity);
  EXPECT_EQ(record.lane, 5u);
  EXPECT_EQ(reader->definitions().lanes.at(5).number, 7u);
  EXPECT_EQ(record.start_ticks, 1000u);
  EXPECT_EQ(record.end_ticks, 3000u);
  EXPECT_NE(record.flags & kRecordMonotonic, 0);
  EXPECT_EQ(record.value, 77u);
  EXPECT_EQ(at, words.size());
  session_.Detach(writer);
}

}  // namespace
}  // namespace poolscope
