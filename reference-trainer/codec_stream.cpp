#include "reference-trainer/codec_stream.h"

#include <fmt/format.h>

#include <cstring>

#include "reference-trainer/codec_bf16.h"
#include "reference-trainer/codec_bytes.h"
#include "reference-trainer/codec_fp16.h"
#include "reference-trainer/codec_one_bit.h"
#include "reference-trainer/codec_top_k.h"
#include "reference-trainer/crc32c.h"

namespace poolscope::trainer {
namespace {

// 1bit-delta: u32 frame, then of frame 0 all values as f32, of later ones the difference in 1bit.
constexpr size_t kFrameHeader = sizeof(uint32_t);

// No value coder makes more than this of `count` values: top-k with all of them.
uint64_t MaxCodedBytes(uint64_t count) { return 8 + 8 * count; }

void CopyFloats(std::span<const float> values, uint8_t* wire) {
  if (!values.empty()) std::memcpy(wire, values.data(), values.size_bytes());
}

bool HasSize(std::span<const uint8_t> wire, uint64_t size, uint64_t count, std::string& error) {
  if (wire.size() == size) return true;
  error = fmt::format("{} bytes for {} values, {} expected", wire.size(), count, size);
  return false;
}

}  // namespace

Block Encoder::Encode(std::span<const float> values) {
  Block block;
  block.codec = codec_;
  block.count = values.size();
  if (!values.empty()) {
    EncodeValues(values, block.bytes);
    if (codec_.bytes != ByteCoder::kNone) block.bytes = Compress(codec_.bytes, block.bytes);
  }
  block.crc32c = Crc32c(block.bytes);
  return block;
}

void Encoder::EncodeValues(std::span<const float> values, std::vector<uint8_t>& wire) {
  std::string unused;
  switch (codec_.values) {
    case ValueCoder::kFloat32:
      wire.resize(values.size_bytes());
      CopyFloats(values, wire.data());
      return;
    case ValueCoder::kBf16:
      wire.resize(2 * values.size());
      EncodeBf16(values, wire);
      return;
    case ValueCoder::kFp16:
      EncodeFp16(values, wire);
      return;
    case ValueCoder::kOneBitDelta:
      EncodeDelta(values, wire);
      return;
    case ValueCoder::kTopK:
    case ValueCoder::kOneBit:
      break;
  }
  if (residual_.size() != values.size()) residual_.assign(values.size(), 0);
  scratch_.resize(values.size());
  for (size_t i = 0; i < values.size(); ++i) residual_[i] += values[i];
  if (codec_.values == ValueCoder::kTopK) {
    EncodeTopK(codec_.fraction, residual_, wire);
    DecodeTopK(wire, scratch_, unused);
  } else {
    EncodeOneBit(residual_, wire);
    DecodeOneBit(wire, scratch_, unused);
  }
  for (size_t i = 0; i < values.size(); ++i) residual_[i] -= scratch_[i];
}

void Encoder::EncodeDelta(std::span<const float> values, std::vector<uint8_t>& wire) {
  if (copy_.size() != values.size()) frame_ = 0;
  const uint32_t frame = frame_;
  frame_ = frame_ == UINT32_MAX ? 0 : frame_ + 1;
  if (frame == 0) {
    copy_.assign(values.begin(), values.end());
    wire.resize(kFrameHeader + values.size_bytes());
    CopyFloats(values, wire.data() + kFrameHeader);
  } else {
    std::string unused;
    std::vector<uint8_t> signs;
    scratch_.resize(values.size());
    for (size_t i = 0; i < values.size(); ++i) scratch_[i] = values[i] - copy_[i];
    EncodeOneBit(scratch_, signs);
    DecodeOneBit(signs, scratch_, unused);
    for (size_t i = 0; i < values.size(); ++i) copy_[i] += scratch_[i];
    wire.resize(kFrameHeader + signs.size());
    std::memcpy(wire.data() + kFrameHeader, signs.data(), signs.size());
  }
  std::memcpy(wire.data(), &frame, kFrameHeader);
}

bool Decoder::Decode(const Block& block, uint64_t expected, std::vector<float>& values,
                     std::string& error) {
  const uint32_t crc = Crc32c(block.bytes);
  if (crc != block.crc32c) {
    error = fmt::format("CRC32C is {:08X}, the sender wrote {:08X}", crc, block.crc32c);
    return false;
  }
  if (block.count != expected) {
    error = fmt::format("it holds {} values, {} expected", block.count, expected);
    return false;
  }
  values.resize(expected);
  if (expected == 0) return HasSize(block.bytes, 0, 0, error);
  if (block.codec.bytes == ByteCoder::kNone) {
    return DecodeValues(block.codec, block.bytes, values, error);
  }
  return Decompress(block.codec.bytes, block.bytes, MaxCodedBytes(expected), scratch_, error) &&
         DecodeValues(block.codec, scratch_, values, error);
}

bool Decoder::DecodeValues(const Codec& codec, std::span<const uint8_t> wire,
                           std::span<float> values, std::string& error) {
  switch (codec.values) {
    case ValueCoder::kFloat32:
      if (!HasSize(wire, values.size_bytes(), values.size(), error)) return false;
      std::memcpy(values.data(), wire.data(), wire.size());
      return true;
    case ValueCoder::kBf16:
      if (!HasSize(wire, 2 * values.size(), values.size(), error)) return false;
      DecodeBf16(wire, values);
      return true;
    case ValueCoder::kFp16:
      return DecodeFp16(wire, values, error);
    case ValueCoder::kTopK:
      return DecodeTopK(wire, values, error);
    case ValueCoder::kOneBit:
      return DecodeOneBit(wire, values, error);
    case ValueCoder::kOneBitDelta:
      return DecodeDelta(wire, values, error);
  }
  return false;
}

bool Decoder::DecodeDelta(std::span<const uint8_t> wire, std::span<float> values,
                          std::string& error) {
  uint32_t frame = 0;
  if (wire.size() < kFrameHeader) return HasSize(wire, kFrameHeader, values.size(), error);
  std::memcpy(&frame, wire.data(), kFrameHeader);
  const auto body = wire.subspan(kFrameHeader);
  if (frame == 0) {
    if (!HasSize(body, values.size_bytes(), values.size(), error)) return false;
    std::memcpy(values.data(), body.data(), body.size());
  } else {
    if (copy_.size() != values.size() || frame != frame_ + 1) {
      error = fmt::format("1bit-delta frame {} follows {}", frame,
                          copy_.empty() ? "none" : fmt::format("frame {}", frame_));
      return false;
    }
    if (!DecodeOneBit(body, values, error)) return false;
    for (size_t i = 0; i < values.size(); ++i) values[i] += copy_[i];
  }
  copy_.assign(values.begin(), values.end());
  frame_ = frame;
  return true;
}

}  // namespace poolscope::trainer
