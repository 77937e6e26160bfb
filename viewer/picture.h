#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "store/store.h"
#include "viewer/bars.h"
#include "viewer/catalog.h"
#include "viewer/chunk_cache.h"
#include "viewer/discards.h"
#include "viewer/meaning.h"
#include "viewer/window_columns.h"

namespace poolscope {

// A step of a curve: the values between `low` and `high` that it had in [begin, end).
struct Sample {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  double low = 0;
  double high = 0;
};

// What one lane shows of one span of time, in absolute times. Its size is bounded by the number of
// columns in the span, whatever the number of events. Immutable once made.
struct LanePicture {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  int64_t column_ns = 0;
  bool detail = false;  // false: made of summaries, events may follow
  uint16_t rows = 1;
  uint64_t events = 0;              // that it stands for
  std::vector<Bar> bars;            // kRanges, kWire
  std::vector<StateColumn> states;  // kStates
  std::vector<Sample> samples;      // of curves
  double max_value = 0;             // of the samples
  double min_value = 0;             // likewise, 0 where none is below

  bool Covers(int64_t from_ns, int64_t to_ns) const {
    return begin_ns <= from_ns && to_ns <= end_ns;
  }
};

using Points = std::vector<std::pair<int64_t, double>>;  // time, value from then on

// Makes pictures from a store; pictures of one span share what they read of its windows. Decodes a
// chunk only where a lane has few of them in the span; else draws the chunks' summaries and the
// window rows. One thread.
class PictureMaker {
 public:
  static constexpr size_t kMaxDecodedChunks = 40;  // per track and picture

  PictureMaker(const Store& store, ChunkCache& cache, const Catalog& catalog)
      : store_(store), cache_(cache), meanings_(store, catalog.words) {}

  struct Order {
    int64_t begin_ns = 0;
    int64_t end_ns = 0;
    int64_t column_ns = 1;
    bool detail = true;  // false: decode nothing that is not in the cache
    std::function<bool()> cancelled;

    Store::Span Span() const { return {begin_ns, end_ns}; }
    bool Overlaps(const Event& event) const {
      return event.start_ns <= end_ns && event.end_ns() >= begin_ns;
    }
  };
  // nullptr when cancelled.
  Result<std::shared_ptr<const LanePicture>> Make(const Catalog& catalog, const Lane& lane,
                                                  const Order& order);

  // Updates made in the span, from their marks; none where they are too many to tell apart.
  Result<std::vector<StepRow>> Steps(const Catalog& catalog, const Order& order);

  // Calls `sink` with every event of the tracks that overlaps the span, or returns false where that
  // would decode more than kMaxDecodedChunks chunks of a track (or any, without `detail`).
  using Sink = std::function<void(const Event&, const EventBatch&)>;
  // `whole_chunks` adds what lies in the same chunks outside of the span.
  Result<bool> ForEvents(const std::vector<int64_t>& tracks, const Order& order, const Sink& sink,
                         bool whole_chunks = false);

 private:
  Status MakeRanges(const Lane& lane, const Order& order, LanePicture& picture);
  // What the track's names look like, by the first chunk of the span, where it may be decoded.
  Result<LooksByName> SampleLooks(const std::vector<ChunkRow>& chunks, const Order& order);
  Status MakeStates(const Catalog& catalog, const Lane& lane, const Order& order,
                    LanePicture& picture);
  // False where the windows must do.
  Result<bool> ReadStates(const Catalog& catalog, const Lane& lane, const Order& order,
                          std::vector<StateSlice>& ranges);
  Status MakeWire(const Catalog& catalog, const Lane& lane, const Order& order,
                  LanePicture& picture);
  Status MakeDepth(const Catalog& catalog, const Lane& lane, const Order& order,
                   LanePicture& picture);
  Status MakeBandwidth(const Catalog& catalog, const Lane& lane, const Order& order,
                       LanePicture& picture);
  Status MakeCounter(const Catalog& catalog, const Lane& lane, const Order& order,
                     LanePicture& picture);
  Status MakeLag(const Catalog& catalog, const Lane& lane, const Order& order,
                 LanePicture& picture);
  // What the counter's newest sample before the span said, where there is one.
  Status AddValueBefore(int64_t track, const Order& order, Points& points);
  void MakeCurve(const Catalog& catalog, const Order& order, Points points, LanePicture& picture);
  Result<uint32_t> LinkName(const std::string& link);

  // False where there are too many marks to read: then the windows know what was discarded.
  Result<bool> ReadDiscards(const Catalog& catalog, const Order& order);
  WindowColumns& Windows(const Catalog& catalog, const Order& order);

  const Store& store_;
  ChunkCache& cache_;
  Meanings meanings_;
  std::optional<WindowColumns> windows_;  // of the last order
  Store::Span windows_span_;
  // What was discarded of the last order's span, at any time after; without it not read.
  struct KnownDiscards {
    int64_t begin_ns, end_ns;
    bool complete;
    Discards discards;
  };
  std::optional<KnownDiscards> discards_;
  bool cancelled_ = false;
};

}  // namespace poolscope
