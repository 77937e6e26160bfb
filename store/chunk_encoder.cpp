#include <fmt/format.h>
#include <zstd.h>

#include <map>
#include <unordered_map>
#include <utility>

#include "store/chunk_codec.h"
#include "store/varint.h"

namespace poolscope {
namespace {

// What many events have in common, packed so that comparing is three comparisons.
struct Form {
  uint64_t name_domain;     // name | domain << 32
  uint64_t category_depth;  // category | depth << 32 | kind << 48 | flags << 56
  uint64_t shape_value;     // shape << 1 | has value
  bool operator==(const Form&) const = default;

  uint64_t Hash() const {
    uint64_t hash = name_domain * 0x9e3779b97f4a7c15u;
    hash = (hash ^ (hash >> 29) ^ category_depth) * 0xbf58476d1ce4e5b9u;
    hash = (hash ^ (hash >> 32) ^ shape_value) * 0x94d049bb133111ebu;
    return hash ^ (hash >> 31);
  }
};

// Numbers forms in the order of their first use. Open addressing, at most half full.
class FormTable {
 public:
  void Clear() {
    forms.clear();
    slots_.assign(256, 0);
  }

  uint32_t Find(const Form& form) {
    for (uint64_t at = form.Hash();; ++at) {
      uint32_t& slot = slots_[at & (slots_.size() - 1)];
      if (slot == 0) {
        forms.push_back(form);
        slot = static_cast<uint32_t>(forms.size());
        if (forms.size() * 2 > slots_.size()) Grow();
        return static_cast<uint32_t>(forms.size() - 1);
      }
      if (forms[slot - 1] == form) return slot - 1;
    }
  }

  std::vector<Form> forms;

 private:
  void Grow() {
    slots_.assign(slots_.size() * 4, 0);
    for (uint32_t i = 0; i < forms.size(); ++i) {
      uint64_t at = forms[i].Hash();
      while (slots_[at & (slots_.size() - 1)] != 0) ++at;
      slots_[at & (slots_.size() - 1)] = i + 1;
    }
  }

  std::vector<uint32_t> slots_;  // form index + 1; 0 is free
};

// A payload schema with its values, one row after the other.
struct Group {
  uint32_t schema;
  uint32_t fields;
  std::vector<uint64_t> values;
};

// A column being written into memory with room for its longest coding.
class Column {
 public:
  void Start(size_t most_bytes) {
    if (bytes_.size() < most_bytes) bytes_.resize(most_bytes);
    at_ = bytes_.data();
  }
  void Add(uint64_t value) { at_ = PutVarint(at_, value); }
  void AddByte(uint8_t byte) { *at_++ = byte; }
  std::span<const uint8_t> bytes() const { return {bytes_.data(), at_}; }

 private:
  std::vector<uint8_t> bytes_;
  uint8_t* at_ = nullptr;
};

}  // namespace

struct ChunkEncoder::Work {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  FormTable forms;
  std::vector<Group> groups;
  std::unordered_map<uint64_t, uint32_t> group_of_header;
  std::map<std::vector<uint32_t>, uint32_t> shapes;  // group indices -> shape number, from 1
  std::vector<std::vector<uint32_t>> shape_list;
  std::vector<uint32_t> shape, last_shape;
  uint32_t last_shape_number = 0;
  Column form, end, duration, value, field;
  std::vector<uint8_t> body, chunk;

  Work() {
    if (context == nullptr) return;
    ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, 1);
    ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  }
  ~Work() { ZSTD_freeCCtx(context); }

  // Takes the payload of an event into its groups' values; false: not made of whole groups.
  bool TakePayload(const EventBatch& batch, const Event& event, uint32_t& shape_number) {
    const size_t words = batch.words.size();
    size_t at = event.payload_offset;
    const size_t stop = at + event.payload_words;
    if (stop > words) return false;
    shape.clear();
    while (at < stop) {
      const uint64_t header = batch.words[at++];
      const uint32_t fields = static_cast<uint32_t>(header >> 32);
      if (fields > stop - at) return false;
      uint32_t index;
      if (!groups.empty() && groups.back().schema == static_cast<uint32_t>(header) &&
          groups.back().fields == fields) {
        index = static_cast<uint32_t>(groups.size() - 1);
      } else {
        const auto [found, fresh] =
            group_of_header.try_emplace(header, static_cast<uint32_t>(groups.size()));
        if (fresh) groups.push_back({static_cast<uint32_t>(header), fields, {}});
        index = found->second;
      }
      auto& values = groups[index].values;
      values.insert(values.end(), batch.words.begin() + at, batch.words.begin() + at + fields);
      shape.push_back(index);
      at += fields;
    }
    if (shape != last_shape) {
      const auto [found, fresh] =
          shapes.try_emplace(shape, static_cast<uint32_t>(shapes.size() + 1));
      if (fresh) shape_list.push_back(shape);
      last_shape = shape;
      last_shape_number = found->second;
    }
    shape_number = last_shape_number;
    return true;
  }

  void AddVarint(uint64_t number) {
    uint8_t bytes[kMaxVarintBytes];
    body.insert(body.end(), bytes, PutVarint(bytes, number));
  }
  void AddColumn(const Column& column) {
    AddVarint(column.bytes().size());
    body.insert(body.end(), column.bytes().begin(), column.bytes().end());
  }

  void AddFieldColumn(const Group& group, uint32_t at) {
    const size_t rows = group.values.size() / group.fields;
    field.Start(1 + rows * kMaxVarintBytes);
    field.AddByte(kColumnDelta);
    uint64_t before = 0;
    for (size_t i = at; i < group.values.size(); i += group.fields) {
      field.Add(ZigZag(group.values[i] - before));
      before = group.values[i];
    }
    if (field.bytes().size() > 1 + rows * 8) {
      field.Start(1 + rows * 8);
      field.AddByte(kColumnRaw);
      for (size_t i = at; i < group.values.size(); i += group.fields) {
        for (int byte = 0; byte < 8; ++byte) {
          field.AddByte(static_cast<uint8_t>(group.values[i] >> (8 * byte)));
        }
      }
    }
    AddColumn(field);
  }
};

ChunkEncoder::ChunkEncoder() : work_(std::make_unique<Work>()) {}
ChunkEncoder::~ChunkEncoder() = default;
ChunkEncoder::ChunkEncoder(ChunkEncoder&&) noexcept = default;
ChunkEncoder& ChunkEncoder::operator=(ChunkEncoder&&) noexcept = default;

Result<std::span<const uint8_t>> ChunkEncoder::Encode(const EventBatch& batch) {
  Work& w = *work_;
  const size_t events = batch.events.size();
  if (events > kMaxEventsPerChunk || batch.words.size() > kMaxWordsPerChunk) {
    return Error{
        fmt::format("a chunk of {} events and {} payload words is over the limit of {} "
                    "and {}",
                    events, batch.words.size(), kMaxEventsPerChunk, kMaxWordsPerChunk)};
  }
  if (w.context == nullptr) return Error{"no memory for the compressor"};

  w.forms.Clear();
  w.groups.clear();
  w.group_of_header.clear();
  w.shapes.clear();
  w.shape_list.clear();
  w.last_shape.clear();
  w.last_shape_number = 0;
  w.form.Start(events * kMaxVarintBytes);
  w.end.Start(events * kMaxVarintBytes);
  w.duration.Start(events * kMaxVarintBytes);
  w.value.Start(events * kMaxVarintBytes);

  uint64_t end_before = 0, integer_before = 0, float_before = 0;
  Form last{~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}};
  uint32_t last_index = 0;
  size_t words = 0;
  for (const Event& event : batch.events) {
    uint32_t shape = 0;
    if (event.payload_words != 0) {
      if (!w.TakePayload(batch, event, shape)) {
        return Error{
            fmt::format("event at {} ns: its payload of {} words at {} is not made of "
                        "whole groups",
                        event.start_ns, event.payload_words, event.payload_offset)};
      }
      words += event.payload_words;
      if (words > kMaxWordsPerChunk) {
        return Error{fmt::format("payloads of a chunk are over {} words", kMaxWordsPerChunk)};
      }
    }
    const Form form{event.name | static_cast<uint64_t>(event.domain) << 32,
                    event.category | static_cast<uint64_t>(event.depth) << 32 |
                        static_cast<uint64_t>(event.kind) << 48 |
                        static_cast<uint64_t>(event.flags) << 56,
                    static_cast<uint64_t>(shape) << 1 | (event.value != 0)};
    if (!(form == last)) {
      last = form;
      last_index = w.forms.Find(form);
    }
    w.form.Add(last_index);
    const uint64_t duration = static_cast<uint64_t>(event.duration_ns);
    const uint64_t end = static_cast<uint64_t>(event.start_ns) + duration;
    w.end.Add(ZigZag(end - end_before));
    end_before = end;
    w.duration.Add(duration);
    if (event.value != 0) {
      if (event.flags & kEventFloat) {
        w.value.Add(__builtin_bswap64(event.value ^ float_before));
        float_before = event.value;
      } else {
        w.value.Add(ZigZag(event.value - integer_before));
        integer_before = event.value;
      }
    }
  }

  w.body.clear();
  w.AddVarint(events);
  w.AddVarint(w.groups.size());
  for (const Group& group : w.groups) {
    w.AddVarint(group.schema);
    w.AddVarint(group.fields);
  }
  w.AddVarint(w.shape_list.size());
  for (const auto& shape : w.shape_list) {
    w.AddVarint(shape.size());
    for (uint32_t group : shape) w.AddVarint(group);
  }
  w.AddVarint(w.forms.forms.size());
  for (const Form& form : w.forms.forms) {
    w.AddVarint(static_cast<uint32_t>(form.name_domain));
    w.AddVarint(form.name_domain >> 32);
    w.AddVarint(static_cast<uint32_t>(form.category_depth));
    w.AddVarint(static_cast<uint16_t>(form.category_depth >> 32));
    w.AddVarint(static_cast<uint8_t>(form.category_depth >> 48));
    w.AddVarint(form.category_depth >> 56);
    w.AddVarint(form.shape_value & 1);
    w.AddVarint(form.shape_value >> 1);
  }
  w.AddColumn(w.form);
  w.AddColumn(w.end);
  w.AddColumn(w.duration);
  w.AddColumn(w.value);
  for (const Group& group : w.groups) {
    for (uint32_t field = 0; field < group.fields; ++field) w.AddFieldColumn(group, field);
  }

  w.chunk.resize(1 + ZSTD_compressBound(w.body.size()));
  w.chunk[0] = kChunkFormat;
  const size_t bytes = ZSTD_compress2(w.context, w.chunk.data() + 1, w.chunk.size() - 1,
                                      w.body.data(), w.body.size());
  if (ZSTD_isError(bytes)) {
    return Error{fmt::format("could not compress a chunk: {}", ZSTD_getErrorName(bytes))};
  }
  return std::span<const uint8_t>(w.chunk.data(), 1 + bytes);
}

}  // namespace poolscope
