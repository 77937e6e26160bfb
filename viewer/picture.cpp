#include "viewer/picture.h"

#include <algorithm>

namespace poolscope {
namespace {

constexpr uint16_t kMaxRows = 12;
constexpr size_t kMaxSteps = 4000;          // more in a view cannot be told apart
constexpr int64_t kNarrowChunkColumns = 2;  // narrower chunks are one bar

// Events are recorded by end; rows need them by begin, the outer before the inner.
void SortByBegin(std::vector<Bar>& bars) {
  std::sort(bars.begin(), bars.end(), [](const Bar& a, const Bar& b) {
    return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns > b.end_ns;
  });
}

void SetLook(Bar& bar, const EventLook& look) {
  bar.category = look.category;
  bar.stage = look.stage;
  bar.inferred = look.inferred;
  bar.colour = look.colour;
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

}  // namespace

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
    case LaneKind::kCounter:
      status = MakeCounter(catalog, lane, order, *picture);
      break;
    case LaneKind::kPool:
    case LaneKind::kLink:
    case LaneKind::kOther:
    case LaneKind::kCounters:
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
    Result<std::vector<ChunkRow>> chunks = store_.Chunks(track, order.Span());
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
      if (whole_chunks || order.Overlaps(event)) sink(event, **batch);
    }
  }
  return true;
}

Result<LooksByName> PictureMaker::SampleLooks(const std::vector<ChunkRow>& chunks,
                                              const Order& order) {
  if (chunks.empty() || (!order.detail && !cache_.Holds(chunks.front()))) return LooksByName();
  Result<std::shared_ptr<const EventBatch>> batch = cache_.Read(store_, chunks.front());
  if (!batch) return batch.error();
  return meanings_.LooksOf(**batch);
}

Status PictureMaker::MakeRanges(const Lane& lane, const Order& order, LanePicture& picture) {
  std::vector<Bar> events;
  Result<bool> decoded =
      ForEvents(lane.tracks, order, [&](const Event& event, const EventBatch& batch) {
        Bar bar{event.start_ns, event.end_ns(), event.name};
        SetLook(bar, meanings_.Look(event, batch));
        events.push_back(bar);
      });
  if (!decoded) return decoded.error();
  if (*decoded) {
    PackAndMerge(std::move(events), kMaxRows, picture);
    return {};
  }
  BarMerger merger(picture.column_ns);
  for (const int64_t track : lane.tracks) {
    Result<std::vector<ChunkRow>> chunks = store_.Chunks(track, order.Span());
    if (!chunks) return chunks.error();
    Result<LooksByName> looks = SampleLooks(*chunks, order);
    if (!looks) return looks.error();
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
        const auto look = looks->find(bucket.name);
        SetLook(bar, look == looks->end() ? EventLook() : look->second);
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

Status PictureMaker::MakeWire(const Catalog& catalog, const Lane& lane, const Order& order,
                              LanePicture& picture) {
  Result<uint32_t> name = LinkName(lane.subject);
  if (!name) return name.error();
  std::vector<Bar> events;
  Result<bool> decoded =
      ForEvents(lane.tracks, order, [&](const Event& event, const EventBatch& batch) {
        if (event.name != *name) return;
        const EventLook look = meanings_.Look(event, batch);
        if (look.category != static_cast<uint32_t>(Category::kTransfer)) return;
        if (LifeStage(static_cast<Stage>(look.stage)) != Stage::kWire) return;
        Bar bar{event.start_ns, event.end_ns(), event.name};
        SetLook(bar, look);
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

Result<std::vector<StepRow>> PictureMaker::Steps(const Catalog& catalog, const Order& order) {
  std::vector<StepRow> steps;
  std::vector<int64_t> tracks;
  for (const TrackRow& track : catalog.tracks) {
    if (track.kind == static_cast<uint32_t>(EventKind::kMark)) tracks.push_back(track.track_id);
  }
  Result<bool> decoded = ForEvents(tracks, order, [&](const Event& event, const EventBatch& batch) {
    if (meanings_.Of(event, batch) != Category::kStep) return;
    const auto payload = batch.Payload(event, catalog.words.step);
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
