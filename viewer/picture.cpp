#include "viewer/picture.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "viewer/bandwidth.h"
#include "viewer/curve.h"

namespace poolscope {
namespace {

constexpr auto earlier = [](const auto& a, const auto& b) { return a.first < b.first; };

constexpr uint16_t kMaxRows = 12;
constexpr size_t kMaxSteps = 4000;          // more in a view cannot be told apart
constexpr int64_t kNarrowChunkColumns = 2;  // narrower chunks are one bar

uint64_t StageOf(const Event& event, const EventBatch& batch, uint32_t schema) {
  const std::span<const uint64_t> payload = batch.Payload(event, schema);
  return payload.size() > kTransferStage ? payload[kTransferStage] : kNoValue;
}

bool Overlaps(int64_t begin, int64_t end, const PictureMaker::Order& order) {
  return begin <= order.end_ns && end >= order.begin_ns;
}

// Events are recorded by end; rows need them by begin, the outer before the inner.
void SortByBegin(std::vector<Bar>& bars) {
  std::sort(bars.begin(), bars.end(), [](const Bar& a, const Bar& b) {
    return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns > b.end_ns;
  });
}

void PackAndMerge(std::vector<Bar> events, uint16_t max_rows, LanePicture& picture) {
  SortByBegin(events);
  RowPacker packer(max_rows);
  BarMerger merger(picture.column_ns);
  for (Bar& bar : events) {
    bar.row = packer.Place(bar.begin_ns, bar.end_ns);
    merger.Add(bar);
  }
  picture.events += events.size();
  picture.rows = std::max<uint16_t>(1, packer.rows());
  picture.bars = merger.Finish();
}

// Bounds a curve by the width and finds its top.
void FinishCurve(LanePicture& picture) {
  picture.samples = Reduce(picture.samples, picture.column_ns * 2);
  for (const Sample& sample : picture.samples) {
    picture.max_value = std::max(picture.max_value, sample.high);
  }
}

// The sum of what several sources say: of each its newest value, 0 before its first one.
Points SumOf(std::vector<Points> sources) {
  Points changes;
  for (Points& points : sources) {
    std::stable_sort(points.begin(), points.end(), earlier);
    double before = 0;
    for (const auto& [ns, value] : points) {
      changes.emplace_back(ns, value - before);
      before = value;
    }
  }
  std::stable_sort(changes.begin(), changes.end(), earlier);
  double sum = 0;
  for (auto& [ns, value] : changes) value = sum += value;
  return changes;
}

Store::Span SpanOf(const PictureMaker::Order& order) { return {order.begin_ns, order.end_ns}; }

}  // namespace

std::optional<State> StateOf(const Event& event, uint64_t stage) {
  switch (static_cast<Category>(event.category)) {
    case Category::kWork:
      return State::kBusy;
    case Category::kTransfer:
      if (stage == static_cast<uint64_t>(Stage::kApply)) return State::kBusy;
      return std::nullopt;
    case Category::kBlockedLink:
      return State::kBlockedLink;
    case Category::kWaitCredit:
      return State::kWaitCredit;
    case Category::kWaitLink:
      return State::kWaitLink;
    case Category::kWaitPeer:
      return State::kWaitPeer;
    case Category::kHost:
      return State::kHostBound;
    case Category::kInput:
      return State::kInput;
    case Category::kOtherWork:
      return State::kOtherWork;
    case Category::kWaitDevice:
      return State::kIdle;
    default:
      return std::nullopt;
  }
}

Result<std::shared_ptr<const LanePicture>> PictureMaker::Make(const Catalog& catalog,
                                                              const Lane& lane,
                                                              const Order& order) {
  auto picture = std::make_shared<LanePicture>();
  picture->begin_ns = order.begin_ns;
  picture->end_ns = order.end_ns;
  picture->column_ns = std::max<int64_t>(1, order.column_ns);
  picture->detail = order.detail;
  cancelled_ = false;
  Status status;
  switch (lane.kind) {
    case LaneKind::kRanges:
      status = MakeRanges(lane, order, *picture);
      break;
    case LaneKind::kStates:
      status = MakeStates(catalog, lane, order, *picture);
      break;
    case LaneKind::kWire:
      status = MakeWire(catalog, lane, order, *picture);
      break;
    case LaneKind::kDepth:
      status = MakeDepth(catalog, lane, order, *picture);
      break;
    case LaneKind::kBandwidth:
      status = MakeBandwidth(catalog, lane, order, *picture);
      break;
    case LaneKind::kLag:
      status = MakeLag(catalog, lane, order, *picture);
      break;
    case LaneKind::kPool:
    case LaneKind::kLink:
    case LaneKind::kOther:
      break;
  }
  if (!status) return status.error();
  if (cancelled_) return std::shared_ptr<const LanePicture>();
  return std::shared_ptr<const LanePicture>(std::move(picture));
}

Result<bool> PictureMaker::ForEvents(const std::vector<int64_t>& tracks, const Order& order,
                                     const Sink& sink, bool whole_chunks) {
  std::vector<ChunkRow> wanted;
  for (const int64_t track : tracks) {
    Result<std::vector<ChunkRow>> chunks = store_.Chunks(track, SpanOf(order));
    if (!chunks) return chunks.error();
    if (chunks->size() > kMaxDecodedChunks) return false;
    for (const ChunkRow& chunk : *chunks) {
      if (!order.detail && !cache_.Holds(chunk)) return false;
      wanted.push_back(chunk);
    }
  }
  for (const ChunkRow& chunk : wanted) {
    if (order.cancelled && order.cancelled()) {
      cancelled_ = true;
      return true;
    }
    Result<std::shared_ptr<const EventBatch>> batch = cache_.Read(store_, chunk);
    if (!batch) return batch.error();
    for (const Event& event : (*batch)->events) {
      if (whole_chunks || Overlaps(event.start_ns, event.end_ns(), order)) sink(event, **batch);
    }
  }
  return true;
}

Status PictureMaker::MakeRanges(const Lane& lane, const Order& order, LanePicture& picture) {
  std::vector<Bar> events;
  Result<uint32_t> transfer = store_.FindString(kTransferSchema);
  if (!transfer) return transfer.error();
  Result<bool> decoded =
      ForEvents(lane.tracks, order, [&](const Event& event, const EventBatch& batch) {
        Bar bar{event.start_ns, event.end_ns(), event.name, event.category};
        if (event.category == static_cast<uint32_t>(Category::kTransfer)) {
          bar.stage = static_cast<uint8_t>(StageOf(event, batch, *transfer));
        }
        events.push_back(bar);
      });
  if (!decoded) return decoded.error();
  if (*decoded) {
    PackAndMerge(std::move(events), kMaxRows, picture);
    return {};
  }
  BarMerger merger(picture.column_ns);
  for (const int64_t track : lane.tracks) {
    Result<std::vector<ChunkRow>> chunks = store_.Chunks(track, SpanOf(order));
    if (!chunks) return chunks.error();
    Result<std::vector<Store::NameTotal>> totals = store_.ChunkNames(track, SpanOf(order));
    if (!totals) return totals.error();
    const auto category_of = [&](uint32_t name) {
      for (const Store::NameTotal& total : *totals) {
        if (total.name == name) return total.category;
      }
      return uint32_t{0};
    };
    for (const ChunkRow& chunk : *chunks) {
      if (order.cancelled && order.cancelled()) {
        cancelled_ = true;
        return {};
      }
      picture.events += static_cast<uint64_t>(chunk.events);
      Bar bar{chunk.first_ns, chunk.last_ns, 0, 0, static_cast<uint32_t>(chunk.events)};
      if (chunk.last_ns - chunk.first_ns < kNarrowChunkColumns * picture.column_ns) {
        merger.AddSummary(bar, chunk.busy_ns);
        continue;
      }
      Result<std::vector<Store::SummaryBucket>> summary =
          store_.ChunkSummary(chunk.track_id, chunk.chunk_index);
      if (!summary) return summary.error();
      const double width = static_cast<double>(chunk.last_ns - chunk.first_ns) /
                           static_cast<double>(std::max<size_t>(1, summary->size()));
      for (size_t i = 0; i < summary->size(); ++i) {
        const Store::SummaryBucket& bucket = (*summary)[i];
        if (bucket.covered == 0) continue;
        bar.begin_ns = chunk.first_ns + static_cast<int64_t>(width * static_cast<double>(i));
        bar.end_ns = chunk.first_ns + static_cast<int64_t>(width * static_cast<double>(i + 1));
        bar.name = bucket.name;
        bar.category = category_of(bucket.name);
        bar.events = static_cast<uint32_t>(
            std::max<int64_t>(2, chunk.events / static_cast<int64_t>(summary->size())));
        merger.AddSummary(bar, static_cast<int64_t>(width * bucket.covered / 255));
      }
    }
  }
  picture.bars = merger.Finish();
  picture.rows = 1;
  return {};
}

Status PictureMaker::MakeStates(const Catalog& catalog, const Lane& lane, const Order& order,
                                LanePicture& picture) {
  std::vector<StateSlice> ranges;
  Result<bool> discards = ReadDiscards(catalog, order);
  if (!discards) return discards.error();
  if (cancelled_) return {};
  Result<bool> decoded =
      ForEvents(lane.tracks, order, [&](const Event& event, const EventBatch& batch) {
        std::optional<State> state = StateOf(event, StageOf(event, batch, catalog.transfer_schema));
        if (event.category == static_cast<uint32_t>(Category::kWork) &&
            discards_->discards.Has(lane.subject, lane.worker, event,
                                    batch.Payload(event, catalog.work_schema))) {
          state = State::kBusyDiscarded;
        }
        if (state) ranges.push_back({event.start_ns, event.end_ns(), *state});
      });
  if (!decoded) return decoded.error();
  if (*decoded && *discards && !ranges.empty()) {
    for (const EventLossRow& loss : catalog.losses) {
      if (loss.place == "session" || loss.place == "collector") {
        ranges.push_back({loss.first_ns, loss.last_ns, State::kUnknown});
      }
    }
    const int64_t from = std::max(order.begin_ns, catalog.begin_ns);
    const int64_t to = std::min(order.end_ns, catalog.end_ns);
    picture.events = ranges.size();
    if (from < to) {
      picture.states = ColumnsOf(SplitStates(std::move(ranges), from, to), picture.column_ns * 2);
    }
    return {};
  }
  Result<std::vector<StateColumn>> columns =
      Windows(catalog, order).StatesOf(lane.subject, lane.worker);
  if (!columns) return columns.error();
  picture.states = std::move(*columns);
  return {};
}

Status PictureMaker::MakeWire(const Catalog& catalog, const Lane& lane, const Order& order,
                              LanePicture& picture) {
  Result<uint32_t> name = LinkName(lane.subject);
  if (!name) return name.error();
  std::vector<Bar> events;
  Result<bool> decoded =
      ForEvents(lane.tracks, order, [&](const Event& event, const EventBatch& batch) {
        if (event.category != static_cast<uint32_t>(Category::kTransfer)) return;
        if (event.name != *name) return;
        const uint64_t stage = StageOf(event, batch, catalog.transfer_schema);
        if (LifeStage(static_cast<Stage>(stage)) != Stage::kWire) return;
        Bar bar{event.start_ns, event.end_ns(), event.name, event.category};
        bar.stage = static_cast<uint8_t>(stage);
        events.push_back(bar);
      });
  if (!decoded) return decoded.error();
  if (*decoded) {
    PackAndMerge(std::move(events), kMaxRows, picture);
    return {};
  }
  Result<std::vector<LinkColumn>> columns = Windows(catalog, order).LinkOf(lane.subject);
  if (!columns) return columns.error();
  const LinkRow* link = catalog.FindLink(lane.subject);
  const int64_t lanes = link == nullptr ? 1 : std::max<int64_t>(1, link->lanes);
  BarMerger merger(picture.column_ns);
  for (const LinkColumn& column : *columns) {
    if (column.transfers == 0) continue;
    Bar bar{column.begin_ns, column.end_ns, *name, static_cast<uint32_t>(Category::kTransfer)};
    bar.stage = static_cast<uint8_t>(Stage::kWire);
    bar.events = static_cast<uint32_t>(std::max<int64_t>(2, column.transfers));
    picture.events += static_cast<uint64_t>(column.transfers);
    merger.AddSummary(bar, std::min(column.wire_ns / lanes, column.end_ns - column.begin_ns));
  }
  picture.bars = merger.Finish();
  return {};
}

void PictureMaker::MakeCurve(const Catalog& catalog, const Order& order, Points points,
                             LanePicture& picture) {
  std::stable_sort(points.begin(), points.end(), earlier);
  CurveMaker curve(picture.column_ns, std::min(order.end_ns, catalog.end_ns));
  for (size_t i = 0; i < points.size() && points[i].first <= order.end_ns; ++i) {
    // Of what came before the span only the last value matters: it holds at the left edge.
    const bool last_before = i + 1 == points.size() || points[i + 1].first >= order.begin_ns;
    if (points[i].first < order.begin_ns && !last_before) continue;
    curve.Add(std::max(points[i].first, order.begin_ns), points[i].second);
    ++picture.events;
  }
  picture.samples = curve.Finish();
}

Status PictureMaker::MakeDepth(const Catalog& catalog, const Lane& lane, const Order& order,
                               LanePicture& picture) {
  // Each process samples the depth of its own buffers.
  std::map<std::string, std::vector<int64_t>> tracks;  // by session
  for (const TrackRow& track : catalog.tracks) {
    if (std::find(lane.tracks.begin(), lane.tracks.end(), track.track_id) == lane.tracks.end()) {
      continue;
    }
    for (const ThreadRow& thread : catalog.threads) {
      if (thread.thread_id == track.thread_id) tracks[thread.session_id].push_back(track.track_id);
    }
  }
  std::vector<Points> sources;
  bool all_decoded = true;
  for (const auto& [session, ids] : tracks) {
    Points& points = sources.emplace_back();
    Result<bool> decoded = ForEvents(
        ids, order,
        [&](const Event& event, const EventBatch&) {
          const double value = (event.flags & kEventFloat) != 0
                                   ? std::bit_cast<double>(event.value)
                                   : static_cast<double>(static_cast<int64_t>(event.value));
          if (std::isfinite(value)) points.emplace_back(event.start_ns, value);
        },
        true);
    if (!decoded) return decoded.error();
    all_decoded = all_decoded && *decoded;
  }
  if (all_decoded) {
    MakeCurve(catalog, order, SumOf(std::move(sources)), picture);
  } else {
    Result<std::vector<LinkColumn>> columns = Windows(catalog, order).LinkOf(lane.subject);
    if (!columns) return columns.error();
    for (const LinkColumn& column : *columns) {
      picture.samples.push_back(
          {column.begin_ns, column.end_ns, column.depth_low, column.depth_high});
    }
  }
  FinishCurve(picture);
  const LinkRow* link = catalog.FindLink(lane.subject);
  if (link != nullptr) {
    picture.max_value = std::max(picture.max_value, static_cast<double>(link->capacity));
  }
  return {};
}

Status PictureMaker::MakeBandwidth(const Catalog& catalog, const Lane& lane, const Order& order,
                                   LanePicture& picture) {
  Result<uint32_t> name = LinkName(lane.subject);
  if (!name) return name.error();
  const int64_t bucket_ns = picture.column_ns * 3;
  const int64_t first = order.begin_ns / bucket_ns * bucket_ns;
  const auto buckets = static_cast<size_t>((order.end_ns - first) / bucket_ns + 1);
  BandwidthBuckets rates(first, bucket_ns, buckets);
  bool all_decoded = true;
  for (const int64_t track : lane.tracks) {
    std::vector<WireMessage> messages;
    // Whole chunks, so that what is averaged does not change as the view moves.
    Result<bool> decoded = ForEvents(
        {track}, order,
        [&](const Event& event, const EventBatch& batch) {
          if (event.name != *name) return;
          const auto payload = batch.Payload(event, catalog.transfer_schema);
          if (payload.size() <= kTransferWireBytes) return;
          if (payload[kTransferStage] != static_cast<uint64_t>(Stage::kWire)) return;
          if (payload[kTransferWireBytes] == kNoValue) return;
          messages.push_back(
              {event.start_ns, event.end_ns(), static_cast<double>(payload[kTransferWireBytes])});
          if (Overlaps(event.start_ns, event.end_ns(), order)) ++picture.events;
        },
        true);
    if (!decoded) return decoded.error();
    all_decoded = *decoded;
    if (!all_decoded || cancelled_) break;
    for (const WireRate& rate : RatesOf(std::move(messages))) rates.Add(rate);
  }
  if (all_decoded) {
    for (size_t i = 0; i < buckets; ++i) {
      const double rate = rates.PerSecond(i);
      const int64_t begin = rates.BeginOf(i);
      if (begin + bucket_ns < catalog.begin_ns || begin > catalog.end_ns) continue;
      if (!picture.samples.empty() && picture.samples.back().high == rate) {
        picture.samples.back().end_ns = begin + bucket_ns;
      } else {
        picture.samples.push_back({begin, begin + bucket_ns, rate, rate});
      }
    }
  } else {
    Result<std::vector<LinkColumn>> columns = Windows(catalog, order).LinkOf(lane.subject);
    if (!columns) return columns.error();
    const LinkRow* link = catalog.FindLink(lane.subject);
    const std::vector<double> of_columns =
        RatesOfColumns(*columns, link == nullptr ? 1 : link->lanes);
    picture.events = 0;
    for (size_t i = 0; i < columns->size(); ++i) {
      const LinkColumn& column = (*columns)[i];
      picture.samples.push_back({column.begin_ns, column.end_ns, of_columns[i], of_columns[i]});
    }
  }
  FinishCurve(picture);
  return {};
}

Status PictureMaker::MakeLag(const Catalog& catalog, const Lane& lane, const Order& order,
                             LanePicture& picture) {
  Result<uint32_t> name = LinkName(lane.subject);
  if (!name) return name.error();
  Points points;
  Result<bool> decoded = ForEvents(
      lane.tracks, order,
      [&](const Event& event, const EventBatch& batch) {
        if (event.name != *name) return;
        const auto payload = batch.Payload(event, catalog.transfer_schema);
        if (payload.size() <= kTransferAppliedVersion) return;
        if (payload[kTransferStage] != static_cast<uint64_t>(Stage::kApply)) return;
        const uint64_t applied = payload[kTransferAppliedVersion];
        const uint64_t computed = payload[kTransferVersion];
        if (applied == kNoValue || computed == kNoValue) return;
        points.emplace_back(event.end_ns(),
                            static_cast<double>(static_cast<int64_t>(applied - computed)));
      },
      true);
  if (!decoded) return decoded.error();
  if (*decoded) {
    MakeCurve(catalog, order, std::move(points), picture);
  } else {
    Result<std::vector<VersionWindowRow>> rows =
        store_.VersionWindows(catalog.run.run_id, SpanOf(order));
    if (!rows) return rows.error();
    for (const VersionWindowRow& row : *rows) {
      if (row.applied == 0) continue;
      const double mean = static_cast<double>(row.lag_sum) / static_cast<double>(row.applied);
      picture.samples.push_back(
          {row.start_ns, row.start_ns + row.window_ns, mean, static_cast<double>(row.lag_max)});
    }
  }
  FinishCurve(picture);
  return {};
}

Result<std::vector<StepRow>> PictureMaker::Steps(const Catalog& catalog, const Order& order) {
  std::vector<StepRow> steps;
  std::vector<int64_t> tracks;
  for (const TrackRow& track : catalog.tracks) {
    if (track.kind == static_cast<uint32_t>(EventKind::kMark)) tracks.push_back(track.track_id);
  }
  Result<bool> decoded = ForEvents(tracks, order, [&](const Event& event, const EventBatch& batch) {
    if (event.category != static_cast<uint32_t>(Category::kStep)) return;
    const auto payload = batch.Payload(event, catalog.step_schema);
    if (payload.empty()) return;
    StepRow& step = steps.emplace_back();
    step.step = static_cast<int64_t>(payload[kStepNumber]);
    step.end_ns = event.start_ns;
  });
  if (!decoded) return decoded.error();
  if (steps.size() > kMaxSteps) steps.clear();
  std::sort(steps.begin(), steps.end(),
            [](const StepRow& a, const StepRow& b) { return a.end_ns < b.end_ns; });
  return steps;
}

WindowColumns& PictureMaker::Windows(const Catalog& catalog, const Order& order) {
  const Store::Span span{std::max(order.begin_ns, catalog.begin_ns),
                         std::min(order.end_ns, catalog.end_ns)};
  if (!windows_ || windows_span_.begin_ns != span.begin_ns || windows_span_.end_ns != span.end_ns) {
    windows_.emplace(store_, catalog.run.run_id, span, order.column_ns * 2);
    windows_span_ = span;
  }
  return *windows_;
}

Result<uint32_t> PictureMaker::LinkName(const std::string& link) { return store_.FindString(link); }

}  // namespace poolscope
