#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace poolscope::trainer {

// The version of the weights, which lie in shards that advance one by one. The version is that of
// the shard furthest behind. Any thread may call.
class VersionClock {
 public:
  explicit VersionClock(size_t shards) : versions_(shards, 0) {}

  // Shard `shard` has made an update. True: it was the last one, and the version grew by one.
  bool Advance(size_t shard) {
    std::lock_guard lock(mutex_);
    const uint64_t before = Oldest();
    ++versions_[shard];
    return Oldest() > before;
  }

  // All shards have made `version` updates.
  void Rewind(uint64_t version) {
    std::lock_guard lock(mutex_);
    versions_.assign(versions_.size(), version);
  }

  uint64_t version() const {
    std::lock_guard lock(mutex_);
    return Oldest();
  }
  uint64_t version_of(size_t shard) const {
    std::lock_guard lock(mutex_);
    return versions_[shard];
  }

 private:
  uint64_t Oldest() const { return *std::min_element(versions_.begin(), versions_.end()); }

  mutable std::mutex mutex_;
  std::vector<uint64_t> versions_;  // guarded by mutex_
};

}  // namespace poolscope::trainer
