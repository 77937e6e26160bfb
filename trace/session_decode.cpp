#include <algorithm>
#include <cstring>
#include <string_view>

#include "trace/session_reader.h"

namespace poolscope {
namespace {

template <typename T>
T At(std::span<const std::byte> bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

std::string Hex(std::span<const std::byte> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::byte b : bytes) {
    text += kDigits[std::to_integer<int>(b) >> 4];
    text += kDigits[std::to_integer<int>(b) & 15];
  }
  return text;
}

// Bytes of the well-formed UTF-8 sequence (Unicode 15, table 3-7) that `text` begins with; 0: none.
size_t Utf8Length(std::string_view text) {
  const auto byte = [&](size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const auto follows = [&](size_t i) { return (byte(i) & 0xc0) == 0x80; };
  const unsigned first = byte(0);
  const unsigned second = byte(1);
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4 || !follows(1)) return 0;
  if (first < 0xe0) return 2;
  if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f)) return 0;
  if (first < 0xf0) return follows(2) ? 3 : 0;
  if ((first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f)) return 0;
  return follows(2) && follows(3) ? 4 : 0;
}

std::string Text(std::span<const std::byte> bytes) {
  return PlainText({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

// Whether `words` is a row of payload groups that end exactly at its end.
bool ValidPayload(std::span<const uint64_t> words, size_t strings) {
  size_t at = 0;
  while (at < words.size()) {
    const uint32_t schema = static_cast<uint32_t>(words[at]);
    const uint64_t count = words[at] >> 32;
    if (schema >= strings || count > words.size() - at - 1) return false;
    at += 1 + count;
  }
  return true;
}

}  // namespace

std::string PlainText(std::string_view untrusted) {
  std::string_view rest = untrusted.substr(0, untrusted.find('\0'));
  std::string text;
  while (!rest.empty()) {
    const size_t length = Utf8Length(rest);
    const auto c = static_cast<unsigned char>(rest[0]);
    const bool control = c < 0x20 || c == 0x7f ||
                         (length == 2 && c == 0xc2 && static_cast<unsigned char>(rest[1]) < 0xa0);
    if (length == 0 || control) {
      text += '?';
    } else {
      text += rest.substr(0, length);
    }
    rest.remove_prefix(std::max<size_t>(length, 1));
  }
  return text;
}

Status DecodeUntrusted(std::span<const std::byte> bytes, SessionHead& out) {
  if (bytes.size() < sizeof(SessionHeader)) return Error{"shorter than a session's header"};
  if (At<uint64_t>(bytes, offsetof(SessionHeader, magic)) != kSessionMagic) {
    return Error{"no session, or one whose header is not written yet"};
  }
  const auto version = At<uint32_t>(bytes, offsetof(SessionHeader, format_version));
  if (version != kSessionFormatVersion) {
    return Error{"session format " + std::to_string(version) + " is not the " +
                 std::to_string(kSessionFormatVersion) +
                 " that this program reads: use the agent and the collector of one release"};
  }
  if (At<uint32_t>(bytes, offsetof(SessionHeader, header_bytes)) != sizeof(SessionHeader)) {
    return Error{"the header has a wrong size"};
  }
  const auto clock = At<uint32_t>(bytes, offsetof(SessionHeader, clock));
  if (clock != static_cast<uint32_t>(ClockKind::kTsc) &&
      clock != static_cast<uint32_t>(ClockKind::kMonotonic)) {
    return Error{"the header names an unknown clock"};
  }
  out.session_id = Hex(bytes.subspan(offsetof(SessionHeader, session_id), 16));
  out.run_id = Hex(bytes.subspan(offsetof(SessionHeader, run_id), 16));
  out.pid = At<uint32_t>(bytes, offsetof(SessionHeader, pid));
  out.parent_pid = At<uint32_t>(bytes, offsetof(SessionHeader, parent_pid));
  out.process_start = At<uint64_t>(bytes, offsetof(SessionHeader, process_start));
  out.clock = static_cast<ClockKind>(clock);
  out.agent_version = At<uint32_t>(bytes, offsetof(SessionHeader, agent_version));
  out.host = Text(bytes.subspan(offsetof(SessionHeader, host), sizeof(SessionHeader::host)));
  out.command =
      Text(bytes.subspan(offsetof(SessionHeader, command), sizeof(SessionHeader::command)));
  return {};
}

Status DecodeUntrusted(std::span<const std::byte> bytes, SessionState& out) {
  if (bytes.size() < sizeof(SessionHeader)) return Error{"shorter than a session's header"};
  out.ring_mode = At<uint32_t>(bytes, offsetof(SessionHeader, ring_mode)) ==
                          static_cast<uint32_t>(RingMode::kDropNewest)
                      ? RingMode::kDropNewest
                      : RingMode::kOverwriteOldest;
  out.ended = At<uint32_t>(bytes, offsetof(SessionHeader, ended)) != 0;
  out.agent_off = At<AgentOff>(bytes, offsetof(SessionHeader, agent_off));
  out.definition_bytes = std::min<uint64_t>(
      At<uint64_t>(bytes, offsetof(SessionHeader, definition_bytes)), kDefinitionBytes);
  out.slots_used = std::min(At<uint32_t>(bytes, offsetof(SessionHeader, slots_used)), kMaxThreads);
  const auto written = At<uint64_t>(bytes, offsetof(SessionHeader, triples_written));
  out.triples.clear();
  // The slot that the next triple goes to may be half written: it is left out when all are in use.
  const uint64_t usable = std::min<uint64_t>(written, kClockTriples - 1);
  for (uint64_t i = written - usable; i != written; ++i) {
    const auto triple = At<ClockTriple>(
        bytes, offsetof(SessionHeader, triples) + (i % kClockTriples) * sizeof(ClockTriple));
    if (triple.ticks != 0 && triple.monotonic_ns >= 0) out.triples.push_back(triple);
  }
  for (size_t cause = 0; cause < kLossCauses; ++cause) {
    const size_t at = offsetof(SessionHeader, losses) + cause * sizeof(LossCounter);
    // A count that is no count must not turn negative where it is stored.
    out.losses[cause] = {
        std::min(At<uint64_t>(bytes, at + offsetof(LossCounter, events)), uint64_t{1} << 62),
        At<uint64_t>(bytes, at + offsetof(LossCounter, first_ticks)),
        At<uint64_t>(bytes, at + offsetof(LossCounter, last_ticks))};
  }
  return {};
}

Status DecodeUntrusted(std::span<const std::byte> bytes, SlotView& out) {
  if (bytes.size() < offsetof(ThreadSlot, open)) return Error{"shorter than a thread slot"};
  const auto state = At<uint32_t>(bytes, offsetof(ThreadSlot, state));
  if (state > static_cast<uint32_t>(SlotState::kThreadExited)) {
    return Error{"a thread slot is in no known state"};
  }
  out.state = static_cast<SlotState>(state);
  out.tid = At<uint32_t>(bytes, offsetof(ThreadSlot, tid));
  out.incarnation = At<uint32_t>(bytes, offsetof(ThreadSlot, incarnation));
  out.overwriting = At<uint32_t>(bytes, offsetof(ThreadSlot, overwriting)) != 0;
  out.ring_offset = At<uint64_t>(bytes, offsetof(ThreadSlot, ring_offset));
  out.ring_bytes = At<uint64_t>(bytes, offsetof(ThreadSlot, ring_bytes));
  out.start_ticks = At<uint64_t>(bytes, offsetof(ThreadSlot, start_ticks));
  out.name = Text(bytes.subspan(offsetof(ThreadSlot, name), sizeof(ThreadSlot::name)));
  out.write_position = At<uint64_t>(bytes, offsetof(ThreadSlot, write_position));
  out.first_position = At<uint64_t>(bytes, offsetof(ThreadSlot, first_position));
  out.read_position = At<uint64_t>(bytes, offsetof(ThreadSlot, read_position));
  out.open_sequence = At<uint64_t>(bytes, offsetof(ThreadSlot, open_sequence));
  out.open_depth = std::min(At<uint32_t>(bytes, offsetof(ThreadSlot, open_depth)), kMaxOpenRanges);
  out.open_overflow = At<uint32_t>(bytes, offsetof(ThreadSlot, open_overflow));
  if (out.ring_offset == 0) return {};
  if (out.ring_offset % 8 != 0 || out.ring_offset < kRingsAt ||
      out.ring_offset > (uint64_t{1} << 48) || out.ring_bytes < 64 ||
      out.ring_bytes > kMaxRingBytes || (out.ring_bytes & (out.ring_bytes - 1)) != 0) {
    return Error{"a thread slot names an impossible ring"};
  }
  if (out.write_position % 8 != 0 || out.first_position % 8 != 0 ||
      out.first_position > out.write_position || out.write_position > (uint64_t{1} << 62)) {
    return Error{"a ring's positions are impossible"};
  }
  return {};
}

Status DecodeUntrusted(std::span<const std::byte> bytes, SessionDefinitions& out) {
  size_t at = 0;
  while (at < bytes.size()) {
    if (bytes.size() - at < sizeof(DefinitionHeader)) return Error{"a definition is cut short"};
    const auto header = At<DefinitionHeader>(bytes, at);
    at += sizeof(DefinitionHeader);
    const size_t padded = (size_t{header.bytes} + 7) & ~size_t{7};
    if (padded > bytes.size() - at) return Error{"a definition is longer than the log"};
    const auto payload = bytes.subspan(at, header.bytes);
    at += padded;
    const auto word = [&](size_t offset) {
      return payload.size() >= offset + 4 ? At<uint32_t>(payload, offset) : 0;
    };
    const auto is_string = [&](uint64_t id) { return id < out.strings.size(); };
    switch (static_cast<DefinitionKind>(header.kind)) {
      case DefinitionKind::kString:
        if (header.id != out.strings.size() || header.id > kMaxStrings ||
            payload.size() > kMaxStringBytes) {
          return Error{"a string is out of order or too long"};
        }
        out.strings.push_back(Text(payload));
        break;
      case DefinitionKind::kDomain:
        if (header.id == 0 || header.id >= kMaxDomains || payload.size() < 4 ||
            !is_string(word(0))) {
          return Error{"a domain is out of bounds"};
        }
        if (out.domains.size() <= header.id) out.domains.resize(header.id + 1, 0);
        out.domains[header.id] = word(0);
        break;
      case DefinitionKind::kSchema: {
        if (!is_string(header.id) || payload.size() % sizeof(SchemaFieldDef) != 0 ||
            payload.size() / sizeof(SchemaFieldDef) > kMaxSchemaFields) {
          return Error{"a payload schema is out of bounds"};
        }
        std::vector<SchemaFieldDef> fields;
        for (size_t i = 0; i < payload.size(); i += sizeof(SchemaFieldDef)) {
          fields.push_back(At<SchemaFieldDef>(payload, i));
          if (!is_string(fields.back().name) || fields.back().type < 1 ||
              fields.back().type > static_cast<uint16_t>(FieldType::kString)) {
            return Error{"a field of a payload schema is invalid"};
          }
        }
        out.schemas[static_cast<uint32_t>(header.id)] = std::move(fields);
        break;
      }
      case DefinitionKind::kCounter:
        if (!is_string(header.id) || payload.size() < 8) return Error{"a counter is invalid"};
        out.counters[static_cast<uint32_t>(header.id)] = {word(0), word(4) != 0};
        break;
      case DefinitionKind::kCategory:
        if (payload.size() < 8 || !is_string(word(4))) return Error{"a category is invalid"};
        out.categories[{word(0), static_cast<uint32_t>(header.id)}] = word(4);
        break;
      case DefinitionKind::kThreadName:
        if (payload.size() < 4 || !is_string(word(0))) return Error{"a thread name is invalid"};
        out.thread_names.emplace_back(header.id, word(0));
        break;
      case DefinitionKind::kResource:
        if (payload.size() < 16 || !is_string(word(12))) return Error{"a resource is invalid"};
        out.resources.push_back(
            {static_cast<uint32_t>(header.id), At<uint64_t>(payload, 0), word(8), word(12)});
        break;
      case DefinitionKind::kLane: {
        if (payload.size() < sizeof(LaneDef) || header.id >= kMaxLanes) {
          return Error{"a lane is invalid"};
        }
        const auto lane = At<LaneDef>(payload, 0);
        if (!is_string(lane.name)) return Error{"a lane is invalid"};
        out.lanes[header.id] = lane;
        break;
      }
      default:
        return Error{"a definition is of no known kind"};
    }
  }
  return {};
}

Status DecodeUntrusted(std::span<const std::byte> bytes, const SessionDefinitions& known,
                       std::vector<OpenRange>& out) {
  out.clear();
  if (bytes.size() < sizeof(ThreadSlot)) return Error{"shorter than a thread slot"};
  const uint32_t depth =
      std::min(At<uint32_t>(bytes, offsetof(ThreadSlot, open_depth)), kMaxOpenRanges);
  for (uint32_t i = 0; i < depth; ++i) {
    auto range = At<OpenRange>(bytes, offsetof(ThreadSlot, open) + i * sizeof(OpenRange));
    if (range.name >= known.strings.size() || range.domain >= known.domains.size() ||
        range.start_ticks == 0) {
      return Error{"an open range is invalid"};
    }
    out.push_back(range);
  }
  return {};
}

Status DecodeUntrusted(std::span<const std::byte> bytes, const SessionDefinitions& known,
                       std::vector<OpenProcessRange>& out) {
  out.clear();
  for (size_t at = 0; at + sizeof(ProcessRange) <= bytes.size(); at += sizeof(ProcessRange)) {
    const auto entry = bytes.subspan(at, sizeof(ProcessRange));
    OpenProcessRange range;
    range.id = At<uint64_t>(entry, offsetof(ProcessRange, id));
    if (range.id == 0) continue;
    range.start_ticks = At<uint64_t>(entry, offsetof(ProcessRange, start_ticks));
    range.start_tid = At<uint32_t>(entry, offsetof(ProcessRange, start_tid));
    range.name = At<uint32_t>(entry, offsetof(ProcessRange, name));
    range.category = At<uint32_t>(entry, offsetof(ProcessRange, category));
    range.domain = At<uint32_t>(entry, offsetof(ProcessRange, domain));
    const auto words =
        std::min(At<uint32_t>(entry, offsetof(ProcessRange, payload_words)), kMaxProcessRangeWords);
    const auto flags = At<uint32_t>(entry, offsetof(ProcessRange, flags));
    if (range.name >= known.strings.size() || range.domain >= known.domains.size() ||
        range.start_ticks == 0) {
      continue;
    }
    for (uint32_t i = 0; i < words; ++i) {
      const auto word = At<uint64_t>(entry, offsetof(ProcessRange, payload) + i * 8);
      if (i == 0 && (flags & kRecordHasValue) != 0) {
        range.value = word;
      } else {
        range.payload.push_back(word);
      }
    }
    if (!ValidPayload(range.payload, known.strings.size())) range.payload.clear();
    out.push_back(std::move(range));
  }
  return {};
}

bool DecodeUntrusted(std::span<const uint64_t> words, const SessionDefinitions& known, size_t& at,
                     Record& out) {
  if (at >= words.size()) return false;
  RecordHeader header;
  std::memcpy(&header, &words[at], sizeof(header));
  if (header.words == 0 || header.words > words.size() - at) return false;
  out.kind = static_cast<RecordKind>(header.kind);
  if (out.kind == RecordKind::kPad) {
    at += header.words;
    return true;
  }
  size_t own;  // words before value and payload
  switch (out.kind) {
    case RecordKind::kRange:
      own = 5;
      break;
    case RecordKind::kMark:
      own = 3;
      break;
    case RecordKind::kCounter:
      own = 4;
      break;
    case RecordKind::kProcessRange:
      own = 6;
      break;
    case RecordKind::kActivity:
      own = 5;
      break;
    default:
      return false;
  }
  const bool has_value = (header.flags & kRecordHasValue) != 0;
  if (header.words < own + has_value || header.words > kMaxRecordWords) return false;
  const uint64_t* word = &words[at];
  out.flags = header.flags;
  out.domain = header.domain;
  out.depth = header.depth;
  out.name = static_cast<uint32_t>(word[1]);
  out.category = static_cast<uint32_t>(word[1] >> 32);
  if (out.name >= known.strings.size() || out.domain >= known.domains.size()) return false;
  out.start_ticks = out.end_ticks = word[2];
  out.value = 0;
  out.id = 0;
  out.start_tid = 0;
  out.lane = 0;
  switch (out.kind) {
    case RecordKind::kRange:
      out.end_ticks = std::max(word[3], word[2]);
      out.id = word[4];
      break;
    case RecordKind::kProcessRange:
      out.end_ticks = std::max(word[3], word[2]);
      out.id = word[4];
      out.start_tid = static_cast<uint32_t>(word[5]);
      break;
    case RecordKind::kActivity:
      out.end_ticks = std::max(word[3], word[2]);
      if (known.lanes.find(word[4]) == known.lanes.end()) return false;
      out.lane = static_cast<uint32_t>(word[4]);
      break;
    case RecordKind::kCounter:
      out.value = word[3];
      break;
    default:
      break;
  }
  if (has_value) out.value = word[own++];
  out.payload = {word + own, header.words - own};
  if (!out.payload.empty() && !ValidPayload(out.payload, known.strings.size())) return false;
  at += header.words;
  return true;
}

}  // namespace poolscope
