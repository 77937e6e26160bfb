#include <fmt/format.h>
#include <zstd.h>

#include <bit>
#include <cstring>

#include "store/chunk_codec.h"
#include "store/varint.h"

namespace poolscope {
namespace {

struct Group {
  uint32_t schema = 0;
  uint32_t fields = 0;
  std::vector<size_t> occurrences;  // where in the batch's words the values of each go
};

struct Form {
  Event event;  // times, value and payload offset not set
  bool has_value = false;
  uint32_t shape = 0;
};

Error Damaged(const char* what) { return Error{fmt::format("damaged chunk: {}", what)}; }

// Every group, shape and form costs at least this many bytes, so a count that promises more than
// the rest of the body can hold is refused before anything is allocated for it.
bool Plausible(const ByteReader& reader, uint64_t count, size_t least_bytes) {
  return reader.ok() && count <= reader.left() / least_bytes;
}

bool ReadFieldColumn(ByteReader& body, const Group& group, uint32_t field, EventBatch& batch) {
  ByteReader column(body.Bytes(body.Varint()));
  const uint8_t mode = column.Byte();
  if (mode == kColumnDelta) {
    uint64_t value = 0;
    for (size_t at : group.occurrences) {
      value += UnZigZag(column.Varint());
      batch.words[at + field] = value;
    }
  } else if (mode == kColumnRaw) {
    const auto bytes = column.Bytes(8 * group.occurrences.size());
    if (!column.ok()) return false;
    for (size_t i = 0; i < group.occurrences.size(); ++i) {
      uint64_t value;
      std::memcpy(&value, bytes.data() + 8 * i, 8);
      batch.words[group.occurrences[i] + field] = value;
    }
  } else {
    return false;
  }
  return column.ok() && column.done();
}

}  // namespace

static_assert(std::endian::native == std::endian::little, "raw columns are little-endian");

Status DecodeChunkBody(std::span<const uint8_t> bytes, EventBatch& batch) {
  batch.events.clear();
  batch.words.clear();
  ByteReader body(bytes);

  const uint64_t events = body.Varint(kMaxEventsPerChunk);
  const uint64_t group_count = body.Varint();
  if (!Plausible(body, group_count, 2)) return Damaged("payload groups");
  std::vector<Group> groups(group_count);
  uint64_t all_fields = 0;
  for (Group& group : groups) {
    group.schema = static_cast<uint32_t>(body.Varint(UINT32_MAX));
    group.fields = static_cast<uint32_t>(body.Varint(UINT16_MAX));
    all_fields += group.fields;
  }
  if (!Plausible(body, all_fields, 1)) return Damaged("payload groups");

  const uint64_t shape_count = body.Varint();
  if (!Plausible(body, shape_count, 1)) return Damaged("payload shapes");
  struct Shape {
    std::vector<uint32_t> groups;
    uint64_t words = 0;
  };
  std::vector<Shape> shapes(1 + shape_count);
  for (uint64_t i = 1; i <= shape_count; ++i) {
    const uint64_t length = body.Varint();
    if (!Plausible(body, length, 1)) return Damaged("payload shapes");
    for (uint64_t k = 0; k < length; ++k) {
      const uint64_t group = body.Varint();
      if (group >= group_count) return Damaged("payload shapes");
      shapes[i].groups.push_back(static_cast<uint32_t>(group));
      shapes[i].words += 1 + groups[group].fields;
    }
    if (shapes[i].words > UINT16_MAX) return Damaged("payload shapes");
  }

  const uint64_t form_count = body.Varint();
  if (!Plausible(body, form_count, 8)) return Damaged("forms");
  std::vector<Form> forms(form_count);
  for (Form& form : forms) {
    form.event.name = static_cast<uint32_t>(body.Varint(UINT32_MAX));
    form.event.domain = static_cast<uint32_t>(body.Varint(UINT32_MAX));
    form.event.category = static_cast<uint32_t>(body.Varint(UINT32_MAX));
    form.event.depth = static_cast<uint16_t>(body.Varint(UINT16_MAX));
    form.event.kind = static_cast<EventKind>(body.Varint(UINT8_MAX));
    form.event.flags = static_cast<uint8_t>(body.Varint(UINT8_MAX));
    form.has_value = body.Varint(1) != 0;
    form.shape = static_cast<uint32_t>(body.Varint(shape_count));
    form.event.payload_words = static_cast<uint16_t>(shapes[form.shape].words);
  }

  ByteReader form_column(body.Bytes(body.Varint()));
  ByteReader end_column(body.Bytes(body.Varint()));
  ByteReader duration_column(body.Bytes(body.Varint()));
  ByteReader value_column(body.Bytes(body.Varint()));
  if (!body.ok()) return Damaged("truncated");
  if (events > form_column.left()) return Damaged("events");

  batch.events.resize(events);
  uint64_t end = 0, integer = 0, real = 0;
  size_t words = 0;
  for (Event& event : batch.events) {
    const uint64_t index = form_column.Varint();
    if (index >= form_count) return Damaged("forms");
    const Form& form = forms[index];
    event = form.event;
    end += UnZigZag(end_column.Varint());
    const uint64_t duration = duration_column.Varint();
    event.duration_ns = static_cast<int64_t>(duration);
    event.start_ns = static_cast<int64_t>(end - duration);
    if (form.has_value) {
      if (event.flags & kEventFloat) {
        real ^= __builtin_bswap64(value_column.Varint());
        event.value = real;
      } else {
        integer += UnZigZag(value_column.Varint());
        event.value = integer;
      }
    }
    if (form.shape != 0) {
      event.payload_offset = static_cast<uint32_t>(words);
      if (words + event.payload_words > kMaxWordsPerChunk) return Damaged("payload words");
      for (uint32_t group : shapes[form.shape].groups) {
        groups[group].occurrences.push_back(words + 1);
        words += 1 + groups[group].fields;
      }
    }
  }
  for (const ByteReader* column : {&form_column, &end_column, &duration_column, &value_column}) {
    if (!column->ok() || !column->done()) return Damaged("column length");
  }

  batch.words.resize(words);
  for (const Group& group : groups) {
    for (size_t at : group.occurrences) {
      batch.words[at - 1] = group.schema | static_cast<uint64_t>(group.fields) << 32;
    }
    for (uint32_t field = 0; field < group.fields; ++field) {
      if (!ReadFieldColumn(body, group, field, batch)) return Damaged("payload column");
    }
  }
  if (!body.ok() || !body.done()) return Damaged("length");
  return {};
}

Status DecodeChunk(std::span<const uint8_t> bytes, EventBatch& batch) {
  batch.events.clear();
  batch.words.clear();
  if (bytes.empty()) return Damaged("empty");
  if (bytes[0] != kChunkFormat) {
    return Error{fmt::format("chunk format {} is not known, this program reads format {}", bytes[0],
                             kChunkFormat)};
  }
  const std::span<const uint8_t> frame = bytes.subspan(1);
  const unsigned long long size = ZSTD_getFrameContentSize(frame.data(), frame.size());
  if (size == ZSTD_CONTENTSIZE_UNKNOWN || size == ZSTD_CONTENTSIZE_ERROR) {
    return Damaged("no Zstandard frame");
  }
  // A block of at most 128 KiB costs three bytes, so a few bytes cannot ask for much memory.
  if (size > kMaxChunkBytes || size / 131072 > frame.size() / 3) return Damaged("size");
  std::vector<uint8_t> body(size);
  const size_t got = ZSTD_decompress(body.data(), body.size(), frame.data(), frame.size());
  if (ZSTD_isError(got)) return Damaged(ZSTD_getErrorName(got));
  if (got != size) return Damaged("size");
  Status status = DecodeChunkBody(body, batch);
  if (!status.ok()) {
    batch.events.clear();
    batch.words.clear();
  }
  return status;
}

}  // namespace poolscope
