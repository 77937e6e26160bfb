#include "trace/session_reader.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <random>
#include <sstream>

#include "tests/support/fake_session.h"
#include "tests/support/temp_folder.h"

namespace poolscope {
namespace {

using ::testing::HasSubstr;

// The bytes of the fenced block of that name in docs/session-format.md.
std::vector<std::byte> Example(const std::string& block) {
  std::ifstream file(POOLSCOPE_SOURCE "/docs/session-format.md");
  std::vector<std::byte> bytes;
  std::string line;
  bool inside = false;
  while (std::getline(file, line)) {
    if (line == "```" + block) {
      inside = true;
    } else if (line == "```") {
      inside = false;
    } else if (inside) {
      std::istringstream words(line);
      for (std::string word; words >> word;) {
        bytes.push_back(static_cast<std::byte>(std::stoi(word, nullptr, 16)));
      }
    }
  }
  return bytes;
}

std::vector<uint64_t> Words(std::span<const std::byte> bytes) {
  std::vector<uint64_t> words(bytes.size() / 8);
  std::memcpy(words.data(), bytes.data(), words.size() * 8);
  return words;
}

TEST(SessionReader, ExampleOfTheDocument_DecodesAsItSays) {
  SessionDefinitions known;
  ASSERT_TRUE(DecodeUntrusted(Example("definitions"), known).ok());
  ASSERT_EQ(known.strings.size(), 5u);
  EXPECT_EQ(known.strings[kOverflowString], "(too many names)");
  EXPECT_EQ(known.strings[known.domains.at(1)], "training");

  const auto words = Words(Example("ring"));
  size_t at = 0;
  Record record;
  ASSERT_TRUE(DecodeUntrusted(words, known, at, record));
  EXPECT_EQ(record.kind, RecordKind::kRange);
  EXPECT_EQ(known.strings[record.name], "forward");
  EXPECT_EQ(record.domain, 1);
  EXPECT_EQ(record.category, 7u);
  EXPECT_EQ(record.depth, 0);
  EXPECT_EQ(record.start_ticks, 1000u);
  EXPECT_EQ(record.end_ticks, 3500u);
  EXPECT_EQ(record.id, 0u);
  ASSERT_TRUE(DecodeUntrusted(words, known, at, record));
  EXPECT_EQ(record.kind, RecordKind::kMark);
  EXPECT_EQ(known.strings[record.name], "tick");
  EXPECT_EQ(record.category, 0u);
  EXPECT_EQ(record.start_ticks, 4000u);
  EXPECT_EQ(record.value, 42u);
  EXPECT_EQ(at, words.size());
  EXPECT_FALSE(DecodeUntrusted(words, known, at, record));
}

class Session : public ::testing::Test {
 protected:
  Result<SessionReader> Open(const std::filesystem::path& path) {
    return SessionReader::Open(path, owners_);
  }
  std::string ErrorOf(const std::filesystem::path& path) {
    const auto reader = Open(path);
    return reader.ok() ? "" : reader.error().message;
  }
  TempFolder folder_{true};
  std::vector<uint32_t> owners_{static_cast<uint32_t>(geteuid())};
};

TEST_F(Session, Header_IsReadAsWritten) {
  FakeSession session({.folder = folder_.path(), .pid = 17, .command = "job\nwith a line"});
  const auto reader = Open(session.path());
  ASSERT_TRUE(reader.ok()) << reader.error().message;
  EXPECT_EQ(reader->head().session_id, "000102030405060708090a0b0c0d0e0f");
  EXPECT_EQ(reader->head().run_id, "f0e0d0c0b0a090807060504030201000");
  EXPECT_EQ(reader->head().pid, 17u);
  EXPECT_EQ(reader->head().command, "job?with a line") << "no control characters";
}

TEST_F(Session, WithoutAThreadYet_IsNoCutOne) {
  FakeSession session({.folder = folder_.path()});
  session.Truncate(kDefinitionsAt);  // as its writer makes it: the other parts come as needed
  const auto reader = Open(session.path());
  ASSERT_TRUE(reader.ok());
  EXPECT_TRUE(reader->State().ok());
  session.header().slots_used.store(1);
  const auto cut = reader->State();
  ASSERT_FALSE(cut.ok());
  EXPECT_THAT(cut.error().message, HasSubstr("shorter than it says"));
}

TEST_F(Session, LiveWriter_IsToldFromADeadOne) {
  FakeSession session({.folder = folder_.path()});
  const auto reader = Open(session.path());
  ASSERT_TRUE(reader.ok());
  EXPECT_TRUE(reader->WriterAlive());
  session.KillWriter();
  EXPECT_FALSE(reader->WriterAlive());
}

TEST_F(Session, OverwrittenWhileCopying_TheStartIsWhereWhatIsLeftBegins) {
  FakeSession session({.folder = folder_.path()});
  const uint32_t name = session.Name("n");
  for (int i = 0; i < 10; ++i) session.Mark(7, i, name);
  auto reader = Open(session.path());
  ASSERT_TRUE(reader.ok());
  const auto slot = reader->Slot(0);
  ASSERT_TRUE(slot.ok());
  std::vector<uint64_t> words;
  ASSERT_EQ(*reader->CopyRing(0, *slot, 0, words), 0u);
  EXPECT_EQ(words.size() * 8, slot->write_position);
  // A slot that was looked at before the writer went on: three marks (24 bytes each) are gone.
  session.slot(0).first_position.store(72);
  ASSERT_EQ(*reader->CopyRing(0, *slot, 0, words), 72u);
  EXPECT_EQ(words.size() * 8, slot->write_position - 72);
}

TEST_F(Session, OpenStack_IsReadOutermostFirst) {
  FakeSession session({.folder = folder_.path()});
  session.Push(7, 10, session.Name("outer"));
  session.Push(7, 20, session.Name("inner"));
  auto reader = Open(session.path());
  std::vector<OpenRange> stack;
  ASSERT_TRUE(reader->ReadOpenStack(0, stack).ok());
  ASSERT_EQ(stack.size(), 2u);
  EXPECT_EQ(reader->definitions().strings[stack[1].name], "inner");
  // The writer was killed while it changed the stack: what two looks agree on counts.
  session.slot(0).open_sequence.fetch_add(1);
  ASSERT_TRUE(reader->ReadOpenStack(0, stack).ok());
  EXPECT_EQ(stack.size(), 2u);
}

TEST_F(Session, Malicious_LinkOrForeignModeOrFolder_IsRefused) {
  FakeSession session({.folder = folder_.path()});
  const auto link = folder_.path() / "link.session";
  std::filesystem::create_symlink(session.path(), link);
  EXPECT_THAT(ErrorOf(link), HasSubstr("a link"));
  chmod(session.path().c_str(), 0644);
  EXPECT_THAT(ErrorOf(session.path()), HasSubstr("0600"));
  chmod(session.path().c_str(), 0600);
  owners_ = {static_cast<uint32_t>(geteuid()) + 1};
  EXPECT_THAT(ErrorOf(session.path()), HasSubstr("not served"));
  const auto pipe = folder_.path() / "pipe.session";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(ErrorOf(pipe), HasSubstr("not a plain file"));
  const auto empty = folder_.path() / "empty.session";
  close(open(empty.c_str(), O_CREAT | O_WRONLY, 0600));
  owners_ = {static_cast<uint32_t>(geteuid())};
  EXPECT_THAT(ErrorOf(empty), HasSubstr("too short"));
}

TEST_F(Session, Malicious_OtherFormatVersion_SaysSo) {
  FakeSession session({.folder = folder_.path()});
  session.header().format_version = 99;
  EXPECT_THAT(ErrorOf(session.path()), HasSubstr("format 99"));
}

TEST_F(Session, Malicious_PositionsOfARing_AreErrorsNotCopies) {
  FakeSession session({.folder = folder_.path()});
  session.Mark(7, 1, session.Name("n"));
  auto reader = Open(session.path());
  std::vector<uint64_t> words;
  session.slot(0).write_position.store(uint64_t{1} << 40);
  auto slot = reader->Slot(0);
  ASSERT_TRUE(slot.ok());
  EXPECT_FALSE(reader->CopyRing(0, *slot, 0, words).ok()) << "more than the ring holds";
  session.slot(0).write_position.store(13);
  EXPECT_FALSE(reader->Slot(0).ok());
  session.slot(0).write_position.store(24);
  session.slot(0).ring_bytes = 1000;
  EXPECT_FALSE(reader->Slot(0).ok());
  session.slot(0).ring_bytes = uint64_t{1} << 40;
  EXPECT_FALSE(reader->Slot(0).ok());
  session.slot(0).ring_bytes = kMinRingBytes;
  session.slot(0).ring_offset = uint64_t{1} << 40;
  slot = reader->Slot(0);
  ASSERT_TRUE(slot.ok());
  EXPECT_FALSE(reader->CopyRing(0, *slot, 0, words).ok()) << "past the end of the file";
}

TEST_F(Session, Malicious_DefinitionsOutOfOrder_StayBad) {
  FakeSession session({.folder = folder_.path()});
  auto reader = Open(session.path());
  ASSERT_TRUE(reader->ReadDefinitions().ok());
  session.Define(DefinitionKind::kString, 77, {});
  EXPECT_THAT(reader->ReadDefinitions().error().message, HasSubstr("out of order"));
  session.Name("fine");
  EXPECT_FALSE(reader->ReadDefinitions().ok());
}

// Well-formed UTF-8 by table 3-7 of the Unicode standard.
TEST_F(Session, Malicious_NamesThatAreNoUtf8_BecomeSo) {
  FakeSession session({.folder = folder_.path(), .command = "job \xff"});
  const std::pair<const char*, const char*> cases[] = {
      {"plain \xc3\xa9 \xe4\xb8\xad \xf0\x9f\x98\x80",
       "plain \xc3\xa9 \xe4\xb8\xad \xf0\x9f\x98\x80"},
      {"\xff\xfe\x80", "???"},
      {"cut \xc3", "cut ?"},
      {"cut \xe4\xb8", "cut ??"},
      {"overlong \xc0\xaf \xe0\x80\xaf", "overlong ?? ???"},
      {"surrogate \xed\xa0\x80", "surrogate ???"},
      {"beyond \xf4\x90\x80\x80", "beyond ????"},
      {"\x1b[31m \n \x7f \xc2\x9b", "?[31m ? ? ?"},
  };
  for (const auto& [text, expected] : cases) session.Name(text);
  auto reader = Open(session.path());
  ASSERT_TRUE(reader->ReadDefinitions().ok());
  EXPECT_EQ(reader->head().command, "job ?");
  for (size_t i = 0; i < std::size(cases); ++i) {
    EXPECT_EQ(reader->definitions().strings.at(i + 2), cases[i].second);
  }
}

TEST(DecodeUntrusted, Malicious_RecordsThatDoNotFit_AreRefused) {
  SessionDefinitions known;
  known.strings = {"", "a", "b"};
  const auto decode = [&](std::vector<uint64_t> words) {
    size_t at = 0;
    Record record;
    return DecodeUntrusted(words, known, at, record);
  };
  const auto header = [](RecordKind kind, uint64_t words, uint64_t flags = 0, uint64_t domain = 0) {
    return static_cast<uint64_t>(kind) | flags << 8 | words << 16 | domain << 32;
  };
  EXPECT_TRUE(decode({header(RecordKind::kMark, 3), 1, 5}));
  EXPECT_FALSE(decode({header(RecordKind::kMark, 4), 1, 5})) << "longer than what is left";
  EXPECT_FALSE(decode({header(RecordKind::kMark, 0), 1, 5})) << "no size";
  EXPECT_FALSE(decode({header(RecordKind::kMark, 2), 1, 5})) << "shorter than its kind";
  EXPECT_FALSE(decode({header(RecordKind::kMark, 3), 3, 5})) << "a name that is not defined";
  EXPECT_FALSE(decode({header(RecordKind::kMark, 3, 0, 1), 1, 5})) << "a domain that is not";
  EXPECT_FALSE(decode({header(static_cast<RecordKind>(9), 3), 1, 5})) << "no known kind";
  EXPECT_FALSE(decode({header(RecordKind::kMark, 3, kRecordHasValue), 1, 5})) << "no value";
  EXPECT_FALSE(decode({header(RecordKind::kMark, 5), 1, 5, 2 | uint64_t{9} << 32, 0}))
      << "a payload group that is longer than the record";
  EXPECT_TRUE(decode({header(RecordKind::kMark, 5), 1, 5, 2 | uint64_t{1} << 32, 0}));
  EXPECT_TRUE(decode({header(RecordKind::kRange, 5), 1, 9, 5, 1})) << "end before start: no length";
}

TEST(DecodeUntrusted, Malicious_RandomBytes_NeverCrash) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::byte> bytes(random() % 20000);
    for (std::byte& b : bytes) {
      // Mostly small values, which come further than noise.
      b = static_cast<std::byte>(random() % 4 == 0 ? random() : random() % 8);
    }
    SessionHead head;
    SessionState state;
    SlotView slot;
    SessionDefinitions known;
    std::vector<OpenRange> stack;
    std::vector<OpenProcessRange> ranges;
    (void)DecodeUntrusted(bytes, head);
    (void)DecodeUntrusted(bytes, state);
    (void)DecodeUntrusted(bytes, slot);
    (void)DecodeUntrusted(bytes, known);
    (void)DecodeUntrusted(bytes, known, stack);
    (void)DecodeUntrusted(bytes, known, ranges);
    EXPECT_LE(stack.size(), kMaxOpenRanges);
    EXPECT_LE(state.slots_used, kMaxThreads);
    const auto words = Words(bytes);
    size_t at = 0;
    Record record;
    while (DecodeUntrusted(words, known, at, record)) EXPECT_LE(at, words.size());
  }
}

}  // namespace
}  // namespace poolscope
