#include "agent/text.h"

#include <string.h>

namespace poolscope::agent {
namespace {

char* AppendUtf8(char* at, uint32_t code) {
  if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) code = 0xfffd;
  if (code < 0x80) {
    *at++ = static_cast<char>(code);
    return at;
  }
  const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  const uint32_t lead = more == 1 ? 0xc0 : more == 2 ? 0xe0 : 0xf0;
  *at++ = static_cast<char>(lead | code >> (6 * more));
  for (int i = more - 1; i >= 0; --i) *at++ = static_cast<char>(0x80 | (code >> (6 * i) & 0x3f));
  return at;
}

}  // namespace

uint32_t InternBytes(const char* text, size_t bytes) {
  return bytes == 0 ? 0 : session.Intern({text, bytes});
}

uint32_t InternText(const char* text) {
  // One byte more than is kept, so that Intern sees where a character is cut.
  return text == nullptr ? 0 : InternBytes(text, strnlen(text, kMaxStringBytes + 1));
}

uint32_t InternWide(const wchar_t* text) {
  static_assert(sizeof(wchar_t) == 4);
  if (text == nullptr) return 0;
  char utf8[kMaxStringBytes + 8];
  char* at = utf8;
  for (; *text != L'\0' && at < utf8 + kMaxStringBytes + 1; ++text) {
    at = AppendUtf8(at, static_cast<uint32_t>(*text));
  }
  return InternBytes(utf8, static_cast<size_t>(at - utf8));
}

uint32_t InternUtf16(const char16_t* text) {
  if (text == nullptr) return 0;
  char utf8[kMaxStringBytes + 8];
  char* at = utf8;
  for (; *text != 0 && at < utf8 + kMaxStringBytes + 1; ++text) {
    uint32_t code = *text;
    if (code >= 0xd800 && code < 0xdc00 && text[1] >= 0xdc00 && text[1] < 0xe000) {
      code = 0x10000 + ((code - 0xd800) << 10) + (*++text - 0xdc00u);
    }
    at = AppendUtf8(at, code);
  }
  return InternBytes(utf8, static_cast<size_t>(at - utf8));
}

uint32_t InternJoined(uint32_t a, char separator, uint32_t b) {
  if (a == 0 || b == 0) return a + b;
  char text[2 * kMaxStringBytes + 1];
  const std::string_view front = session.Text(a);
  const std::string_view back = session.Text(b);
  memcpy(text, front.data(), front.size());
  text[front.size()] = separator;
  memcpy(text + front.size() + 1, back.data(), back.size());
  return InternBytes(text, front.size() + 1 + back.size());
}

uint32_t InternMessage(int32_t type, const nvtxMessageValue_t& message) {
  switch (type) {
    case NVTX_MESSAGE_TYPE_ASCII:
      return InternText(message.ascii);
    case NVTX_MESSAGE_TYPE_UNICODE:
      return InternWide(message.unicode);
    case NVTX_MESSAGE_TYPE_REGISTERED:
      return StringOf(message.registered);
    default:
      return 0;
  }
}

uint32_t NameMissed(ThreadWriter& writer, const char* text) {
  const uint32_t id = InternText(text);
  if (id == 0 || id == kOverflowString) return id;  // each use of the latter is counted
  const NameCache::Key key = NameCache::MakeKey(text);
  if (key.length < 32) {
    writer.names().At(key) = {key.low, key.high, id};
  } else {
    const std::string_view interned = session.Text(id);
    // A text that was cut is looked up again each time: the cache could not tell its ends apart.
    if (interned.size() < kMaxStringBytes - 3) {
      writer.names().AtAddress(text) = {text, interned.data(),
                                        static_cast<uint32_t>(interned.size()), id};
    }
  }
  return id;
}

}  // namespace poolscope::agent
