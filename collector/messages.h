#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <unordered_map>

#include "collector/activity.h"
#include "store/rows.h"

namespace poolscope {

// The part of a wait that each span of its message's life took; they add up to the wait.
struct WaitParts {
  int64_t upstream_busy_ns = 0;  // before the message existed: its producer was still at work
  int64_t queued_ns = 0;
  int64_t encode_ns = 0;
  int64_t wire_ns = 0;
  int64_t decode_ns = 0;
  int64_t unattributed_ns = 0;  // after it arrived, or the message is not known

  int64_t link_ns() const { return queued_ns + encode_ns + wire_ns + decode_ns; }
  void AddTo(WorkerLinkWindowRow& row) const;
};

// When each stage of a message began and ended. Zero end: not seen.
struct MessageLife {
  struct Span {
    int64_t begin_ns = 0;
    int64_t end_ns = 0;
    bool seen() const { return end_ns != 0; }
  };
  std::array<Span, 5> stages{};  // by LifeStage

  // Splits [begin_ns, end_ns) of a wait that this message ended.
  WaitParts Split(int64_t begin_ns, int64_t end_ns) const;
};

// The messages of the last minutes, by (link, source, sequence).
class Messages {
 public:
  // What a stage of a message is known to last, and by how much `transfer` made it longer. Parts (a
  // message sent in blocks, its two ends in two processes) count from the first to the last.
  struct Grown {
    MessageLife::Span span;
    int64_t by_ns = 0;
  };
  Grown Add(const Activity& transfer);
  // Null where nothing is known of it, or the fields are kNoValue.
  const MessageLife* Find(int link, uint64_t source, uint64_t sequence) const;
  // The mapped message that arrived last in (begin_ns, end_ns], at `destination` or where that is
  // not known: what ended a wait that does not name it. Null: none did.
  const MessageLife* Arrived(int link, uint64_t destination, int64_t begin_ns,
                             int64_t end_ns) const;
  // Forgets what was first seen before `ns`, and the oldest where there are too many.
  void Prune(int64_t ns);
  size_t size() const { return lives_.size(); }

 private:
  struct Key {
    int link;
    uint64_t source;
    uint64_t sequence;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    size_t operator()(const Key& key) const {
      uint64_t h = key.sequence * 0x9e3779b97f4a7c15 + key.source;
      h = (h ^ (h >> 29)) * 0xbf58476d1ce4e5b9 + static_cast<uint64_t>(key.link);
      return h ^ (h >> 32);
    }
  };
  std::unordered_map<Key, MessageLife, Hash> lives_;
  std::deque<std::pair<int64_t, Key>> order_;  // first seen
  struct Arrival {
    Key key;
    uint64_t destination;
  };
  std::map<int, std::multimap<int64_t, Arrival>> arrivals_;  // of mapped messages, by link, time
};

}  // namespace poolscope
