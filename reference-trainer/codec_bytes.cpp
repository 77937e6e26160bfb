#include "reference-trainer/codec_bytes.h"

#include <fmt/format.h>
#include <lz4.h>
#include <zlib.h>
#include <zstd.h>

#include <cstring>
#include <memory>

namespace poolscope::trainer {
namespace {

constexpr uint8_t kStored = 0, kCompressed = 1;
constexpr size_t kHeader = 1 + sizeof(uint64_t);
constexpr int kLevel = 1;

// Bytes written to `out`, 0 where that is too small for them or the coder cannot take the input.
size_t CompressInto(ByteCoder coder, std::span<const uint8_t> in, std::span<uint8_t> out) {
  switch (coder) {
    case ByteCoder::kNone:
      return 0;
    case ByteCoder::kLz4: {
      if (in.size() > LZ4_MAX_INPUT_SIZE) return 0;
      const int size = LZ4_compress_default(
          reinterpret_cast<const char*>(in.data()), reinterpret_cast<char*>(out.data()),
          static_cast<int>(in.size()), static_cast<int>(out.size()));
      return static_cast<size_t>(size);
    }
    case ByteCoder::kZstd: {
      thread_local const std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> context(
          ZSTD_createCCtx(), &ZSTD_freeCCtx);
      const size_t size =
          ZSTD_compressCCtx(context.get(), out.data(), out.size(), in.data(), in.size(), kLevel);
      return ZSTD_isError(size) ? 0 : size;
    }
    case ByteCoder::kDeflate: {
      uLongf size = out.size();
      return compress2(out.data(), &size, in.data(), in.size(), kLevel) == Z_OK ? size : 0;
    }
  }
  return 0;
}

// Whether `in` is exactly what fills `out`.
bool DecompressInto(ByteCoder coder, std::span<const uint8_t> in, std::span<uint8_t> out) {
  switch (coder) {
    case ByteCoder::kNone:
      return false;
    case ByteCoder::kLz4: {
      if (in.size() > LZ4_MAX_INPUT_SIZE || out.size() > LZ4_MAX_INPUT_SIZE) return false;
      const int size = LZ4_decompress_safe(
          reinterpret_cast<const char*>(in.data()), reinterpret_cast<char*>(out.data()),
          static_cast<int>(in.size()), static_cast<int>(out.size()));
      return size >= 0 && static_cast<size_t>(size) == out.size();
    }
    case ByteCoder::kZstd: {
      thread_local const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context(
          ZSTD_createDCtx(), &ZSTD_freeDCtx);
      const size_t size =
          ZSTD_decompressDCtx(context.get(), out.data(), out.size(), in.data(), in.size());
      return !ZSTD_isError(size) && size == out.size();
    }
    case ByteCoder::kDeflate: {
      uLongf size = out.size();
      uLong consumed = in.size();
      return uncompress2(out.data(), &size, in.data(), &consumed) == Z_OK && size == out.size() &&
             consumed == in.size();
    }
  }
  return false;
}

}  // namespace

std::vector<uint8_t> Compress(ByteCoder coder, std::span<const uint8_t> bytes) {
  std::vector<uint8_t> frame(kHeader + bytes.size());
  const uint64_t size = bytes.size();
  std::memcpy(frame.data() + 1, &size, sizeof(size));
  const std::span<uint8_t> body = std::span(frame).subspan(kHeader);
  const size_t compressed = CompressInto(coder, bytes, body);
  if (compressed > 0 && compressed < bytes.size()) {
    frame[0] = kCompressed;
    frame.resize(kHeader + compressed);
  } else {
    frame[0] = kStored;
    if (!bytes.empty()) std::memcpy(body.data(), bytes.data(), bytes.size());
  }
  return frame;
}

bool Decompress(ByteCoder coder, std::span<const uint8_t> frame, uint64_t limit,
                std::vector<uint8_t>& bytes, std::string& error) {
  if (frame.size() < kHeader) {
    error = fmt::format("{} bytes are no compressed frame", frame.size());
    return false;
  }
  uint64_t size = 0;
  std::memcpy(&size, frame.data() + 1, sizeof(size));
  if (size > limit) {
    error = fmt::format("a compressed frame of {} bytes, at most {} expected", size, limit);
    return false;
  }
  const auto body = frame.subspan(kHeader);
  bytes.resize(size);
  bool good = false;
  if (frame[0] == kCompressed) {
    good = DecompressInto(coder, body, bytes);
  } else if (frame[0] == kStored && body.size() == size) {
    if (size > 0) std::memcpy(bytes.data(), body.data(), size);
    good = true;
  }
  if (!good) error = fmt::format("a compressed frame does not hold its {} bytes", size);
  return good;
}

}  // namespace poolscope::trainer
