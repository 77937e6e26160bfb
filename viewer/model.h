#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "advisor/report.h"
#include "viewer/picture.h"
#include "viewer/queries.h"

namespace poolscope {

// What the window shows now, as it asks for it.
struct ViewRequest {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  int64_t column_ns = 1;    // a power of two, 1 to 2 pixels wide
  std::vector<int> lanes;   // in sight
  bool statistics = false;  // also count names in the span
  bool operator==(const ViewRequest&) const = default;
};

using NameMap = std::unordered_map<uint32_t, std::string>;

// What the reader has made so far. Immutable once published.
struct ViewAnswer {
  std::shared_ptr<const Catalog> catalog;
  std::vector<std::shared_ptr<const LanePicture>> lanes;  // by lane of the catalog; null: none yet
  std::shared_ptr<const NameMap> names;
  std::vector<StepRow> steps;  // of the span; empty where there are too many to tell apart
  std::vector<NameStatistics> statistics;
  int64_t statistics_begin_ns = 0, statistics_end_ns = 0;
  std::string error;  // of the store; "" where all was read
};

struct ModelCounters {
  size_t cache_bytes = 0;
  uint64_t chunks_read = 0;
  uint64_t pictures = 0;
};

// The viewer's data: one store, one run. Two threads of its own read (pictures and queries; the
// report), so that a frame never waits: it draws the newest answer and asks for the next. Memory is
// bounded by the cache and the width of the view. All functions are for the window's thread.
class ViewModel {
 public:
  struct Options {
    size_t cache_bytes = size_t{96} << 20;
    std::function<void()> wake;  // called from the readers when there is something new
    int64_t poll_ms = 250;       // of a run that has not ended
    bool report = true;
  };
  // Error: no store there, not a store, no such run.
  static Result<std::unique_ptr<ViewModel>> Open(const std::filesystem::path& path,
                                                 const std::string& run_prefix, Options options);
  ~ViewModel();

  std::shared_ptr<const ViewAnswer> answer() const;
  void Ask(const ViewRequest& request);  // the newest replaces older ones

  // Null until made; with `report_error` where it cannot be made.
  std::shared_ptr<const Report> report() const;
  std::string report_error() const;

  void AskDetails(const EventKey& key);
  // The answer to the newest AskDetails, once it is there.
  std::optional<EventDetails> details() const;
  void Search(const std::string& text, int64_t from_ns, bool forward);
  struct Found {
    uint64_t serial = 0;  // grows with each answer
    std::optional<EventKey> key;
  };
  Found found() const;

  bool live() const { return live_; }  // the run has not ended
  bool busy() const;                   // something asked for is still being read
  ModelCounters counters() const;

 private:
  ViewModel(Store store, Store report_store, std::string run_id, Options options);
  void Read();
  void Advise();
  bool Refresh();
  void MakePictures(const ViewRequest& request);
  void Publish(const std::function<void(ViewAnswer&)>& change);
  bool Newer(const ViewRequest& request) const;
  void LearnNames(const LanePicture& picture, NameMap& names);

  const std::string run_id_;
  const Options options_;
  // Reader thread only.
  Store store_;
  ChunkCache cache_;
  int64_t data_version_ = -1;
  // Advisor thread only.
  Store report_store_;

  mutable std::mutex mutex_;
  std::condition_variable wake_reader_;
  std::condition_variable wake_advisor_;
  // Guarded by mutex_.
  std::shared_ptr<const ViewAnswer> answer_;
  std::shared_ptr<const Report> report_;
  std::string report_error_;
  std::optional<ViewRequest> request_;  // not yet taken up
  ViewRequest current_;
  std::optional<EventKey> details_key_;
  std::optional<EventDetails> details_;
  struct SearchRequest {
    std::string text;
    int64_t from_ns;
    bool forward;
  };
  std::optional<SearchRequest> search_;
  Found found_;
  bool reading_ = false;
  bool advising_ = false;
  bool stop_ = false;
  ModelCounters counters_;

  std::atomic<bool> live_{false};
  std::thread reader_;
  std::thread advisor_;
};

}  // namespace poolscope
