#include "store/chunk_codec.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <xxhash.h>

#include <bit>
#include <fstream>
#include <random>
#include <sstream>

namespace poolscope {
namespace {

std::vector<uint8_t> Encoded(const EventBatch& batch) {
  ChunkEncoder encoder;
  const auto bytes = encoder.Encode(batch);
  if (!bytes.ok()) {
    ADD_FAILURE() << bytes.error().message;
    return {};
  }
  return {bytes->begin(), bytes->end()};
}

uint64_t Header(uint32_t schema, uint32_t fields) {
  return schema | static_cast<uint64_t>(fields) << 32;
}

// The hex digits at the beginning of the worked example's lines in the header that documents it.
std::vector<uint8_t> WorkedExample() {
  std::ifstream header(POOLSCOPE_SOURCE_DIR "/store/chunk_codec.h");
  std::string line;
  while (std::getline(header, line) && line.find("Worked example") == std::string::npos) {
  }
  std::vector<uint8_t> bytes;
  while (std::getline(header, line) && line.starts_with("//")) {
    if (!line.starts_with("//   ")) continue;
    std::istringstream words(line.substr(5, line.find("  ", 5) - 5));
    for (std::string word;
         words >> word && word.size() == 2 && isxdigit(word[0]) && isxdigit(word[1]);) {
      bytes.push_back(static_cast<uint8_t>(std::stoi(word, nullptr, 16)));
    }
  }
  return bytes;
}

EventBatch WorkedEvent() {
  EventBatch batch;
  Event event;
  event.kind = EventKind::kRange;
  event.name = 5;
  event.domain = 2;
  event.category = 2;
  event.depth = 1;
  event.start_ns = 1000;
  event.duration_ns = 300;
  event.payload_words = 3;
  batch.events.push_back(event);
  batch.words = {Header(7, 2), 2, 0};
  return batch;
}

TEST(ChunkCodec, WorkedExample_IsWhatTheHeaderSays) {
  const std::vector<uint8_t> bytes = WorkedExample();
  ASSERT_GT(bytes.size(), 20u);
  EventBatch batch;
  const Status status = DecodeChunk(bytes, batch);
  ASSERT_TRUE(status.ok()) << status.error().message;
  EXPECT_EQ(batch.events, WorkedEvent().events);
  EXPECT_EQ(batch.words, WorkedEvent().words);
  EXPECT_EQ(Encoded(WorkedEvent()), bytes);
  // The checksum by another library: behind 1 format byte, 6 of frame and 3 of block header.
  const size_t body = bytes.size() - 10 - 4;
  const auto sum = static_cast<uint32_t>(XXH64(bytes.data() + 10, body, 0));
  uint32_t stored;
  memcpy(&stored, bytes.data() + 10 + body, 4);
  EXPECT_EQ(stored, sum);
}

// An event of any content, with a payload of whole groups.
EventBatch AnyBatch(const std::vector<std::tuple<int64_t, int64_t, uint64_t, uint32_t, uint32_t,
                                                 std::vector<std::vector<uint64_t>>>>& parts) {
  EventBatch batch;
  for (const auto& [start, duration, value, name, mixed, groups] : parts) {
    Event event;
    event.start_ns = start;
    event.duration_ns = duration;
    event.value = value;
    event.name = name;
    event.domain = mixed % 5;
    event.category = mixed;
    event.depth = static_cast<uint16_t>(mixed >> 7);
    event.kind = static_cast<EventKind>(mixed >> 3);
    event.flags = static_cast<uint8_t>(mixed >> 11);
    const size_t at = batch.words.size();
    for (const auto& group : groups) {
      batch.words.push_back(
          Header(static_cast<uint32_t>(group.size() * 7 + mixed % 2), group.size()));
      batch.words.insert(batch.words.end(), group.begin(), group.end());
    }
    event.payload_words = static_cast<uint16_t>(batch.words.size() - at);
    if (event.payload_words != 0) event.payload_offset = static_cast<uint32_t>(at);
    batch.events.push_back(event);
  }
  return batch;
}

TEST(ChunkCodec, AnyEvents_ComeBackAsTheyWere) {
  EXPECT_TRUE(
      rc::check([](const std::vector<std::tuple<int64_t, int64_t, uint64_t, uint32_t, uint32_t,
                                                std::vector<std::vector<uint64_t>>>>& parts) {
        const EventBatch batch = AnyBatch(parts);
        EventBatch back;
        RC_ASSERT(DecodeChunk(Encoded(batch), back).ok());
        RC_ASSERT(back.events == batch.events);
        RC_ASSERT(back.words == batch.words);
      }));
}

TEST(ChunkCodec, ExtremeValues_ComeBackAsTheyWere) {
  EventBatch batch;
  for (int64_t start : {INT64_MIN, int64_t{-1}, int64_t{0}, INT64_MAX}) {
    for (int64_t duration : {INT64_MIN, int64_t{-1}, int64_t{0}, INT64_MAX}) {
      for (uint64_t value : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}, uint64_t{1} << 63}) {
        for (uint8_t flags : {0, int{kEventFloat}, 255}) {
          Event event;
          event.start_ns = start;
          event.duration_ns = duration;
          event.value = value;
          event.flags = flags;
          event.name = event.domain = event.category = UINT32_MAX;
          event.depth = UINT16_MAX;
          batch.events.push_back(event);
        }
      }
    }
  }
  EventBatch back;
  ASSERT_TRUE(DecodeChunk(Encoded(batch), back).ok());
  EXPECT_EQ(back.events, batch.events);
}

TEST(ChunkCodec, OneEncoder_GivesTheSameBytesAgain) {
  ChunkEncoder encoder;
  const auto first = encoder.Encode(WorkedEvent());
  const std::vector<uint8_t> bytes(first->begin(), first->end());
  EventBatch other = WorkedEvent();
  for (int i = 0; i < 1000; ++i) {
    Event event = other.events[0];
    event.name = static_cast<uint32_t>(100 + i);
    other.events.push_back(event);
  }
  ASSERT_TRUE(encoder.Encode(other).ok());
  const auto again = encoder.Encode(WorkedEvent());
  EXPECT_EQ(std::vector<uint8_t>(again->begin(), again->end()), bytes);
}

TEST(ChunkCodec, PayloadThatIsNotWholeGroups_IsRefused) {
  ChunkEncoder encoder;
  EventBatch batch = WorkedEvent();
  batch.words[0] = Header(7, 3);
  EXPECT_FALSE(encoder.Encode(batch).ok());
  batch = WorkedEvent();
  batch.events[0].payload_offset = 1;
  EXPECT_FALSE(encoder.Encode(batch).ok());
  batch = WorkedEvent();
  batch.events[0].payload_offset = UINT32_MAX;
  EXPECT_FALSE(encoder.Encode(batch).ok());
  EXPECT_TRUE(encoder.Encode(WorkedEvent()).ok());
}

TEST(ChunkCodec, TooManyEvents_AreRefused) {
  EventBatch batch;
  batch.events.resize(kMaxEventsPerChunk + 1);
  ChunkEncoder encoder;
  EXPECT_FALSE(encoder.Encode(batch).ok());
  batch.events.resize(kMaxEventsPerChunk);
  EXPECT_TRUE(encoder.Encode(batch).ok());
}

TEST(ChunkCodec, RangesWithRealisticTimes_TakeAtMostEightBytes) {
  // Three nesting levels, durations that vary by 20 %, gaps of a microsecond or so.
  std::mt19937 random(3);
  std::normal_distribution<double> spread(1.0, 0.2);
  EventBatch batch;
  int64_t now = 1'760'000'000'000'000'000;
  while (batch.events.size() < kEventsPerChunk) {
    const int64_t outer = now;
    for (uint32_t i = 0; i < 6; ++i) {
      now += 300 + static_cast<int64_t>(random() % 900);
      Event event;
      event.start_ns = now;
      event.duration_ns = static_cast<int64_t>(40000 * std::abs(spread(random)));
      event.name = 10 + i;
      event.depth = 1;
      now = event.end_ns();
      batch.events.push_back(event);
    }
    now += 500;
    Event event;
    event.start_ns = outer;
    event.duration_ns = now - outer;
    event.name = 3;
    batch.events.push_back(event);
  }
  const size_t bytes = Encoded(batch).size();
  EXPECT_LE(static_cast<double>(bytes) / static_cast<double>(batch.events.size()), 8.0);
}

// --- Hostile bytes ---

EventBatch MixedBatch() {
  std::vector<std::tuple<int64_t, int64_t, uint64_t, uint32_t, uint32_t,
                         std::vector<std::vector<uint64_t>>>>
      parts;
  for (uint32_t i = 0; i < 50; ++i) {
    parts.push_back({1000 + i * 37, i * 11, i % 3, i % 4, i % 2, {{i, kNoValue}, {1, 2, 3}}});
  }
  return AnyBatch(parts);
}

TEST(Malicious_Chunk, TruncatedAnywhere_IsAnError) {
  const std::vector<uint8_t> bytes = Encoded(MixedBatch());
  for (size_t length = 0; length < bytes.size(); ++length) {
    EventBatch batch;
    EXPECT_FALSE(DecodeChunk(std::span(bytes).first(length), batch).ok()) << length;
    EXPECT_TRUE(batch.events.empty());
  }
}

TEST(Malicious_Chunk, AnyFlippedBit_IsAnErrorOrChangesNothing) {
  const EventBatch truth = MixedBatch();
  const std::vector<uint8_t> bytes = Encoded(truth);
  size_t refused = 0;
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::vector<uint8_t> flipped = bytes;
    flipped[bit / 8] ^= static_cast<uint8_t>(1 << (bit % 8));
    EventBatch batch;
    if (!DecodeChunk(flipped, batch).ok()) {
      ++refused;
      continue;
    }
    EXPECT_EQ(batch.events, truth.events) << "bit " << bit;
    EXPECT_EQ(batch.words, truth.words) << "bit " << bit;
  }
  EXPECT_GT(refused, bytes.size() * 8 * 98 / 100);  // some bits of a frame mean nothing
}

TEST(Malicious_Chunk, BytesAfterTheEnd_AreAnError) {
  std::vector<uint8_t> bytes = Encoded(WorkedEvent());
  bytes.push_back(0);
  EventBatch batch;
  EXPECT_FALSE(DecodeChunk(bytes, batch).ok());
}

TEST(Malicious_Chunk, LaterFormat_IsNamed) {
  std::vector<uint8_t> bytes = Encoded(WorkedEvent());
  bytes[0] = 9;
  EventBatch batch;
  const Status status = DecodeChunk(bytes, batch);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("format 9"), std::string::npos);
}

TEST(Malicious_Chunk, AbsurdCounts_AreErrorsWithoutAllocation) {
  const std::vector<std::vector<uint8_t>> bodies = {
      {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01},  // events
      {0x80, 0x80, 0x04, 0, 0, 0, 0, 0, 0, 0},                       // 65536 events in no bytes
      {1, 0xff, 0xff, 0xff, 0xff, 0x0f, 1, 1},                       // groups
      {1, 1, 7, 0xff, 0xff, 0x03, 0, 0},                             // fields
      {1, 0, 0xff, 0xff, 0xff, 0x7f, 1},                             // shapes
      {1, 0, 1, 0xff, 0xff, 0xff, 0x7f, 0},                          // groups of a shape
      {1, 0, 1, 1, 5, 0},                                            // a group that is not there
      {1, 0, 0, 0xff, 0xff, 0xff, 0x7f, 0},                          // forms
      {1, 0, 0, 0, 1, 0, 1, 0, 1, 0, 0},                             // a form that is not there
      {0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x7f},                    // bytes of a column
      {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80},
  };
  for (size_t i = 0; i < bodies.size(); ++i) {
    EventBatch batch;
    EXPECT_FALSE(DecodeChunkBody(bodies[i], batch).ok()) << i;
  }
  EventBatch none;
  EXPECT_TRUE(DecodeChunkBody(std::vector<uint8_t>{0, 0, 0, 0, 0, 0, 0, 0}, none).ok());
}

TEST(Malicious_Chunk, RandomBodies_NeverHarm) {
  std::mt19937 random(11);
  const std::vector<uint8_t> bytes = Encoded(MixedBatch());
  for (int round = 0; round < 20000; ++round) {
    std::vector<uint8_t> body(random() % 200);
    for (auto& byte : body) byte = static_cast<uint8_t>(random() % (round % 2 ? 4 : 256));
    EventBatch batch;
    if (!DecodeChunkBody(body, batch).ok()) continue;
    EXPECT_LE(batch.events.size(), body.size());
  }
}

}  // namespace
}  // namespace poolscope
