#pragma once

#include <cstdint>
#include <string>
#include <variant>

namespace poolscope::trainer {

// What becomes of float values.
enum class ValueCoder { kFloat32, kBf16, kFp16, kTopK, kOneBit, kOneBitDelta };
// What becomes of the bytes that the value coder made.
enum class ByteCoder { kNone, kLz4, kZstd, kDeflate };

// How values cross a link: a value coder, then a byte coder. `docs/codecs.md` says what each does.
struct Codec {
  ValueCoder values = ValueCoder::kFloat32;
  ByteCoder bytes = ByteCoder::kNone;
  double fraction = 0;  // kTopK: share of the values that is sent

  static const Codec kNone, kBf16;

  // The receiver gets the very values that were sent.
  bool lossless() const { return values == ValueCoder::kFloat32; }
  // A message says nothing without all that went before it on its stream.
  bool needs_every_message() const { return values == ValueCoder::kOneBitDelta; }

  bool operator==(const Codec&) const = default;
};
inline const Codec Codec::kNone{};
inline const Codec Codec::kBf16{ValueCoder::kBf16};

enum class CodecUse { kGradients, kWeights };

// "none", "bf16", "topk:0.01+zstd": what ParseCodec reads.
std::string CodecName(const Codec& codec);

// The string is an error: one line that names the known codecs.
std::variant<Codec, std::string> ParseCodec(const std::string& text, CodecUse use);

// "bf16, fp16, ...": what `use` can be given.
std::string KnownCodecs(CodecUse use);

// How much a codec saves and how fast it is.
struct CodecFigures {
  double ratio = 1;                    // wire ÷ raw bytes
  double encode_bytes_per_second = 0;  // of raw bytes; infinite for Codec::kNone
  double decode_bytes_per_second = 0;
};

// What emulated devices take: times always, the ratio where nothing is computed. Values are coded
// at the speed of the device's memory (achieved bytes per second) where one is given.
CodecFigures StatedFigures(const Codec& codec, double encoder_memory = 0,
                           double decoder_memory = 0);

}  // namespace poolscope::trainer
