#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <utility>

#include "store/store.h"

namespace poolscope {

// Decoded chunks of a store, the least recently used thrown out beyond `max_bytes`. One thread.
class ChunkCache {
 public:
  explicit ChunkCache(size_t max_bytes) : max_bytes_(max_bytes) {}

  // The events of a chunk. An unfinished chunk grows: it is read again when `header` says so. The
  // returned batch stays valid when it leaves the cache.
  Result<std::shared_ptr<const EventBatch>> Read(const Store& store, const ChunkRow& header);
  bool Holds(const ChunkRow& header) const;

  size_t bytes() const { return bytes_; }
  uint64_t chunks_read() const { return chunks_read_; }  // from the store, since the beginning

 private:
  using Key = std::pair<int64_t, int64_t>;  // track, chunk
  struct Entry {
    std::shared_ptr<const EventBatch> batch;
    int64_t events = 0;  // as the header said
    size_t bytes = 0;
    std::list<Key>::iterator place;
  };
  void Drop(const Key& key);

  size_t max_bytes_;
  size_t bytes_ = 0;
  uint64_t chunks_read_ = 0;
  std::map<Key, Entry> entries_;
  std::list<Key> order_;  // most recently used first
};

}  // namespace poolscope
