#include "reference-trainer/codec.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

namespace poolscope::trainer {
namespace {

// More than half of the values, each with its index, would be more than all of them.
constexpr double kMaxFraction = 0.5;

struct ValueRow {
  ValueCoder coder;
  const char* name;
  bool gradients, weights;  // where it may be used
  double ratio;             // wire ÷ raw; of top-k per fraction
  double encode_bytes_per_second, decode_bytes_per_second;
  double encode_touched, decode_touched;  // bytes read and written per raw byte
};

// Speeds are of an accelerator that makes one or a few passes over its memory: chosen, not
// measured. Bytes touched: fp16 reads twice (the scale first); what has error feedback also reads
// and writes the error; topk reads three times more to find the threshold.
constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr std::array kValueRows = {
    ValueRow{ValueCoder::kFloat32, "none", true, true, 1, kInfinite, kInfinite, 0, 0},
    ValueRow{ValueCoder::kBf16, "bf16", true, true, 0.5, 50e9, 50e9, 1.5, 1.5},
    ValueRow{ValueCoder::kFp16, "fp16", true, true, 0.5, 50e9, 50e9, 2.5, 1.5},
    ValueRow{ValueCoder::kTopK, "topk", true, false, 2, 10e9, 50e9, 6, 1},
    ValueRow{ValueCoder::kOneBit, "1bit", true, false, 1.25 / 32, 25e9, 50e9, 4, 1},
    ValueRow{ValueCoder::kOneBitDelta, "1bit-delta", false, true, 1.25 / 32, 25e9, 50e9, 4, 2},
};

struct ByteRow {
  ByteCoder coder;
  const char* name;
  // Bytes after ÷ before, by what the values became; measured, see docs/codecs.md.
  double of_float32, of_bf16, of_fp16, of_top_k, of_one_bit;
  double encode_bytes_per_second, decode_bytes_per_second;
};

// Speeds are of one core of a host: LZ4 r131, zstd 0.8.2 -1, zlib 1.2.8 -1 on a Core i7-3930K, from
// the README of Zstandard (github.com/facebook/zstd, commit 009332c).
constexpr std::array kByteRows = {
    ByteRow{ByteCoder::kNone, "", 1, 1, 1, 1, 1, kInfinite, kInfinite},
    ByteRow{ByteCoder::kLz4, "lz4", 1, 1, 1, 1, 1, 620e6, 3100e6},
    ByteRow{ByteCoder::kZstd, "zstd", 0.9, 0.8, 0.94, 0.81, 1, 330e6, 940e6},
    ByteRow{ByteCoder::kDeflate, "deflate", 0.9, 0.81, 0.94, 0.68, 1, 95e6, 360e6},
};

const ValueRow& RowOf(ValueCoder coder) { return kValueRows[static_cast<size_t>(coder)]; }
const ByteRow& RowOf(ByteCoder coder) { return kByteRows[static_cast<size_t>(coder)]; }

double ByteRatio(const Codec& codec) {
  const ByteRow& row = RowOf(codec.bytes);
  switch (codec.values) {
    case ValueCoder::kFloat32:
      return row.of_float32;
    case ValueCoder::kBf16:
      return row.of_bf16;
    case ValueCoder::kFp16:
      return row.of_fp16;
    case ValueCoder::kTopK:
      return row.of_top_k;
    case ValueCoder::kOneBit:
    case ValueCoder::kOneBitDelta:
      return row.of_one_bit;
  }
  return 1;
}

std::optional<double> ParseFraction(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (!(value > 0 && value <= kMaxFraction)) return std::nullopt;
  return value;
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

// Adds one link of the chain; why it cannot stand there, or "".
std::string AddPart(std::string_view part, CodecUse use, bool alone, Codec& codec) {
  const std::string_view name = part.substr(0, part.find(':'));
  const std::string_view parameter = part.substr(std::min(part.size(), name.size() + 1));
  const bool has_parameter = part.size() > name.size();
  for (const ByteRow& row : kByteRows) {
    if (row.coder == ByteCoder::kNone || name != row.name) continue;
    if (has_parameter) return fmt::format("{} takes no parameter", name);
    if (codec.bytes != ByteCoder::kNone) {
      return fmt::format("{} after {}: one compressor is enough", name, RowOf(codec.bytes).name);
    }
    codec.bytes = row.coder;
    return "";
  }
  for (const ValueRow& row : kValueRows) {
    if (name != row.name) continue;
    if (row.coder == ValueCoder::kFloat32) return alone && !has_parameter ? "" : "none is no part";
    if (use == CodecUse::kGradients ? !row.gradients : !row.weights) {
      return fmt::format("{} is for {}", name, row.gradients ? "gradients" : "weights");
    }
    if (codec.bytes != ByteCoder::kNone) {
      return fmt::format("{} after {}: a compressor comes last", name, RowOf(codec.bytes).name);
    }
    if (codec.values != ValueCoder::kFloat32) {
      return fmt::format("{} after {}: values are coded once", name, RowOf(codec.values).name);
    }
    if (row.coder == ValueCoder::kTopK) {
      const auto fraction = ParseFraction(parameter);
      if (!fraction) return "topk needs a share above 0 and up to 0.5, such as topk:0.01";
      codec.fraction = *fraction;
    } else if (has_parameter) {
      return fmt::format("{} takes no parameter", name);
    }
    codec.values = row.coder;
    return "";
  }
  return fmt::format("no codec is named '{}'", part);
}

}  // namespace

std::string CodecName(const Codec& codec) {
  if (codec == Codec::kNone) return "none";
  std::string name = codec.lossless() ? "" : RowOf(codec.values).name;
  if (codec.values == ValueCoder::kTopK) name += fmt::format(":{}", codec.fraction);
  if (codec.bytes == ByteCoder::kNone) return name;
  return name + (name.empty() ? "" : "+") + RowOf(codec.bytes).name;
}

std::string KnownCodecs(CodecUse use) {
  std::string values, bytes;
  for (const ValueRow& row : kValueRows) {
    if (use == CodecUse::kGradients ? !row.gradients : !row.weights) continue;
    values += values.empty() ? "" : ", ";
    values += row.name;
    if (row.coder == ValueCoder::kTopK) values += ":SHARE";
  }
  for (const ByteRow& row : kByteRows) {
    if (row.coder == ByteCoder::kNone) continue;
    bytes += fmt::format(", {}", row.name);
  }
  return fmt::format("{}{}, or a chain such as bf16+zstd", values, bytes);
}

std::variant<Codec, std::string> ParseCodec(const std::string& text, CodecUse use) {
  Codec codec;
  const auto parts = Split(text, '+');
  for (const std::string_view part : parts) {
    const std::string error = AddPart(part, use, parts.size() == 1, codec);
    if (error.empty()) continue;
    return fmt::format("'{}': {}; give {}", text, error, KnownCodecs(use));
  }
  return codec;
}

CodecFigures StatedFigures(const Codec& codec, double encoder_memory, double decoder_memory) {
  const ValueRow& values = RowOf(codec.values);
  const ByteRow& bytes = RowOf(codec.bytes);
  const double coded = values.ratio * (codec.values == ValueCoder::kTopK ? codec.fraction : 1);
  const auto speed = [](double memory, double touched, double stated) {
    return memory > 0 ? memory / touched : stated;
  };
  const double encode =
      speed(encoder_memory, values.encode_touched, values.encode_bytes_per_second);
  const double decode =
      speed(decoder_memory, values.decode_touched, values.decode_bytes_per_second);
  CodecFigures figures;
  figures.ratio = coded * ByteRatio(codec);
  figures.encode_bytes_per_second = 1 / (1 / encode + coded / bytes.encode_bytes_per_second);
  figures.decode_bytes_per_second = 1 / (1 / decode + coded / bytes.decode_bytes_per_second);
  return figures;
}

}  // namespace poolscope::trainer
