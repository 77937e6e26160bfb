#include "viewer/chunk_cache.h"

namespace poolscope {

bool ChunkCache::Holds(const ChunkRow& header) const {
  const auto found = entries_.find({header.track_id, header.chunk_index});
  return found != entries_.end() && found->second.events == header.events;
}

void ChunkCache::Drop(const Key& key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  bytes_ -= found->second.bytes;
  order_.erase(found->second.place);
  entries_.erase(found);
}

Result<std::shared_ptr<const EventBatch>> ChunkCache::Read(const Store& store,
                                                           const ChunkRow& header) {
  const Key key{header.track_id, header.chunk_index};
  if (Holds(header)) {
    Entry& entry = entries_.at(key);
    order_.splice(order_.begin(), order_, entry.place);
    return entry.batch;
  }
  Drop(key);
  Result<EventBatch> read = store.ReadChunk(header.track_id, header.chunk_index);
  if (!read) return read.error();
  ++chunks_read_;
  Entry entry;
  entry.events = header.events;
  entry.bytes = read->events.capacity() * sizeof(Event) + read->words.capacity() * sizeof(uint64_t);
  entry.batch = std::make_shared<const EventBatch>(std::move(*read));
  const std::shared_ptr<const EventBatch> batch = entry.batch;
  if (entry.bytes > max_bytes_) return batch;
  while (bytes_ + entry.bytes > max_bytes_) Drop(order_.back());
  order_.push_front(key);
  entry.place = order_.begin();
  bytes_ += entry.bytes;
  entries_.emplace(key, std::move(entry));
  return batch;
}

}  // namespace poolscope
