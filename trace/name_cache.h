#pragma once

#include <emmintrin.h>

#include <cstdint>
#include <cstring>

namespace poolscope {

// Names that one thread has used, by content: a program may rewrite a buffer or hold one text at
// many addresses. Up to 31 bytes the text itself is the key; longer ones are slotted by address and
// compared with the interned text. Owned by one thread; zero-initialised is empty.
class NameCache {
 public:
  struct Short {        // 64 bytes, one cache line
    __m128i low, high;  // the text, padded with zeros
    uint32_t id;        // 0 with the all-zero key: the empty name
  };
  struct Long {
    const char* address;
    const char* text;  // interned, `bytes` long, not terminated
    uint32_t bytes;
    uint32_t id;
  };

  // A text of up to 31 bytes as a key. `length` is 32 when it is longer. Reads whole 16-byte words
  // past the end of the text, but never past its page.
  struct Key {
    __m128i low, high;
    uint32_t length;
  };
  [[gnu::always_inline]] static Key MakeKey(const char* text);

  // The entry that a key falls on; it holds this name if Same.
  Short& At(const Key& key) { return short_[Index(key)]; }
  static bool Same(const Short& entry, const Key& key) {
    const __m128i equal =
        _mm_and_si128(_mm_cmpeq_epi8(entry.low, key.low), _mm_cmpeq_epi8(entry.high, key.high));
    return _mm_movemask_epi8(equal) == 0xffff;
  }

  Long& AtAddress(const char* text) {
    return long_[(reinterpret_cast<uintptr_t>(text) * kMultiplier) >> 58];
  }
  static bool Same(const Long& entry, const char* text) {
    return entry.address == text && strncmp(entry.text, text, entry.bytes) == 0 &&
           text[entry.bytes] == '\0';
  }

 private:
  static constexpr uint64_t kMultiplier = 0x9e3779b97f4a7c15;

  static uint32_t Index(const Key& key) {
    const __m128i folded = _mm_xor_si128(key.low, _mm_shuffle_epi32(key.high, 0x1b));
    const auto a = static_cast<uint64_t>(_mm_cvtsi128_si64(folded));
    const auto b = static_cast<uint64_t>(_mm_cvtsi128_si64(_mm_unpackhi_epi64(folded, folded)));
    return static_cast<uint32_t>(((a ^ (b << 23 | b >> 41)) * kMultiplier) >> 56);
  }

  Short short_[256];
  Long long_[64];
};
static_assert(sizeof(NameCache::Short) == 48 || sizeof(NameCache::Short) == 64);

// kTail[32 - n ...]: n bytes of ones, then zeros.
alignas(16) inline constexpr uint8_t kKeepBytes[64] = {
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

// The rare text that ends near the end of its page, byte by byte into `copy`.
inline const char* CopyNearPageEnd(const char* text, char (&copy)[48]) {
  uint32_t i = 0;
  for (; i < 32 && text[i] != '\0'; ++i) copy[i] = text[i];
  copy[i] = '\0';
  return copy;
}

#ifndef __has_feature  // which clang has, in place of the other
#define __has_feature(feature) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr uintptr_t kWideReadRoom = 4097;  // never: reads past the end are errors there
#else
inline constexpr uintptr_t kWideReadRoom = 32;
#endif

inline NameCache::Key NameCache::MakeKey(const char* text) {
  char copy[48];
  if ((reinterpret_cast<uintptr_t>(text) & 4095) + kWideReadRoom > 4096) [[unlikely]] {
    text = CopyNearPageEnd(text, copy);
  }
  const __m128i zero = _mm_setzero_si128();
  const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(text));
  const __m128i high = _mm_loadu_si128(reinterpret_cast<const __m128i*>(text + 16));
  const auto ends = static_cast<uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(low, zero))) |
                    static_cast<uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(high, zero))) << 16;
  if (ends == 0) return {zero, zero, 32};
  const auto length = static_cast<uint32_t>(__builtin_ctz(ends));
  const auto* keep = reinterpret_cast<const __m128i*>(kKeepBytes + 32 - length);
  return {_mm_and_si128(low, _mm_loadu_si128(keep)), _mm_and_si128(high, _mm_loadu_si128(keep + 1)),
          length};
}

}  // namespace poolscope
