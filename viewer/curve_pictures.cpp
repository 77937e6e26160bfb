// The part of PictureMaker that draws curves.
#include <algorithm>
#include <cmath>
#include <map>

#include "viewer/bandwidth.h"
#include "viewer/curve.h"
#include "viewer/picture.h"

namespace poolscope {
namespace {

constexpr auto earlier = [](const auto& a, const auto& b) { return a.first < b.first; };

// Bounds a curve by the width and finds its top.
void FinishCurve(LanePicture& picture) {
  picture.samples = Reduce(picture.samples, picture.column_ns * 2);
  for (const Sample& sample : picture.samples) {
    picture.max_value = std::max(picture.max_value, sample.high);
    picture.min_value = std::min(picture.min_value, sample.low);
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

void AddPoint(const Event& event, Points& points) {
  const double value = (event.flags & kEventFloat) != 0
                           ? std::bit_cast<double>(event.value)
                           : static_cast<double>(static_cast<int64_t>(event.value));
  if (std::isfinite(value)) points.emplace_back(event.start_ns, value);
}

}  // namespace

Status PictureMaker::AddValueBefore(int64_t track, const Order& order, Points& points) {
  const auto before = [&](const auto& point) { return point.first <= order.begin_ns; };
  if (!order.detail || std::any_of(points.begin(), points.end(), before)) return {};
  Result<std::vector<ChunkRow>> chunks = store_.Chunks(track, {INT64_MIN, order.begin_ns});
  if (!chunks) return chunks.error();
  if (chunks->empty()) return {};
  Result<std::shared_ptr<const EventBatch>> batch = cache_.Read(store_, chunks->back());
  if (!batch) return batch.error();
  Points last;
  for (const Event& event : (*batch)->events) {
    if (event.start_ns <= order.begin_ns) AddPoint(event, last);
  }
  const auto newest = std::max_element(last.begin(), last.end(), earlier);
  if (newest != last.end()) points.push_back(*newest);
  return {};
}

Status PictureMaker::MakeCounter(const Catalog& catalog, const Lane& lane, const Order& order,
                                 LanePicture& picture) {
  Points points;
  const auto sink = [&](const Event& event, const EventBatch&) { AddPoint(event, points); };
  Result<bool> decoded = ForEvents(lane.tracks, order, sink, true);
  if (!decoded) return decoded.error();
  if (cancelled_) return {};
  for (const int64_t track : lane.tracks) {
    if (*decoded) {
      const Status status = AddValueBefore(track, order, points);
      if (!status) return status;
      continue;
    }
    Result<std::vector<ChunkRow>> chunks = store_.Chunks(track, order.Span());
    if (!chunks) return chunks.error();
    for (const ChunkRow& chunk : *chunks) {
      if (!chunk.min_value || !chunk.max_value) continue;
      picture.events += static_cast<uint64_t>(chunk.events);
      picture.samples.push_back(
          {chunk.first_ns, chunk.last_ns, *chunk.min_value, *chunk.max_value});
    }
  }
  if (*decoded) MakeCurve(catalog, order, std::move(points), picture);
  std::sort(picture.samples.begin(), picture.samples.end(),
            [](const Sample& a, const Sample& b) { return a.begin_ns < b.begin_ns; });
  FinishCurve(picture);
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
        ids, order, [&](const Event& event, const EventBatch&) { AddPoint(event, points); }, true);
    if (!decoded) return decoded.error();
    all_decoded = all_decoded && *decoded;
    for (const int64_t id : ids) {
      const Status status = AddValueBefore(id, order, points);
      if (!status) return status;
    }
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
          const auto payload = batch.Payload(event, catalog.words.transfer);
          if (payload.size() <= kTransferWireBytes) return;
          if (payload[kTransferStage] != static_cast<uint64_t>(Stage::kWire)) return;
          if (payload[kTransferWireBytes] == kNoValue) return;
          messages.push_back(
              {event.start_ns, event.end_ns(), static_cast<double>(payload[kTransferWireBytes])});
          if (order.Overlaps(event)) ++picture.events;
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
        const auto payload = batch.Payload(event, catalog.words.transfer);
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
        store_.VersionWindows(catalog.run.run_id, order.Span());
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

}  // namespace poolscope
