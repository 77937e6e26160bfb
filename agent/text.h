#pragma once

#include <wchar.h>

#include <cstdint>

#include "agent/nvtx.h"
#include "agent/process.h"

namespace poolscope::agent {

// The string id of a name, by content. Null is no name (0).
uint32_t InternText(const char* text);
uint32_t InternWide(const wchar_t* text);  // UTF-32 to UTF-8, invalid code points as U+FFFD
uint32_t InternUtf16(const char16_t* text);
uint32_t InternBytes(const char* text, size_t bytes);

// "a/b" of two strings; the other one where one is 0.
uint32_t InternJoined(uint32_t a, char separator, uint32_t b);

// As an event's or an object's attributes give it, by NVTX_MESSAGE_TYPE_*.
uint32_t InternMessage(int32_t type, const nvtxMessageValue_t& message);

// As InternText, with the thread's cache in front.
uint32_t NameMissed(ThreadWriter& writer, const char* text);
inline uint32_t NameOf(ThreadWriter& writer, const char* text) {
  if (text == nullptr) return 0;
  const NameCache::Key key = NameCache::MakeKey(text);
  if (key.length < 32) [[likely]] {
    const NameCache::Short& entry = writer.names().At(key);
    if (NameCache::Same(entry, key)) [[likely]]
      return entry.id;
  } else {
    const NameCache::Long& entry = writer.names().AtAddress(text);
    if (NameCache::Same(entry, text)) [[likely]]
      return entry.id;
  }
  return NameMissed(writer, text);
}

// A registered string's handle is its string id, which a forked child keeps.
inline uint32_t StringOf(uint64_t handle) {
  return handle <= session.string_count() ? static_cast<uint32_t>(handle) : 0;
}
inline uint32_t StringOf(nvtxStringHandle_t handle) {
  return StringOf(static_cast<uint64_t>(reinterpret_cast<uintptr_t>(handle)));
}
inline nvtxStringHandle_t HandleOf(uint32_t string) {
  return reinterpret_cast<nvtxStringHandle_t>(uintptr_t{string});
}

}  // namespace poolscope::agent
