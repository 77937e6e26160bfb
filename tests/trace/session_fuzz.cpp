// Any bytes as the parts of a session: nothing may crash, hang or grow without bound.
#include <algorithm>
#include <cstring>

#include "trace/session_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace poolscope;
  if (size < 2) return 0;
  const auto bytes = std::as_bytes(std::span(data + 1, size - 1));
  SessionHead head;
  SessionState state;
  SlotView slot;
  SessionDefinitions known;
  std::vector<OpenRange> stack;
  std::vector<OpenProcessRange> ranges;
  // The first byte says how many of the others are definitions; the rest is everything else.
  const size_t cut = std::min<size_t>(data[0] * 4, bytes.size());
  (void)DecodeUntrusted(bytes.first(cut), known);
  const auto rest = bytes.subspan(cut);
  (void)DecodeUntrusted(rest, head);
  (void)DecodeUntrusted(rest, state);
  (void)DecodeUntrusted(rest, slot);
  (void)DecodeUntrusted(rest, known, stack);
  (void)DecodeUntrusted(rest, known, ranges);
  std::vector<uint64_t> words(rest.size() / 8);
  if (!words.empty()) std::memcpy(words.data(), rest.data(), words.size() * 8);
  size_t at = 0;
  Record record;
  uint64_t sum = 0;
  while (DecodeUntrusted(words, known, at, record)) {
    if (record.kind == RecordKind::kPad) continue;
    if (record.name >= known.strings.size() || record.domain >= known.domains.size() ||
        record.end_ticks < record.start_ticks) {
      __builtin_trap();
    }
    for (const uint64_t word : record.payload) sum += word;
  }
  return sum == 42 ? 1 : 0;
}
