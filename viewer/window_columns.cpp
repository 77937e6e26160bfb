#include "viewer/window_columns.h"

#include <algorithm>

namespace poolscope {
namespace {

constexpr int64_t kPieceNs = 3600'000'000'000;
constexpr int64_t kMaxPieces = 8;

}  // namespace

std::vector<Store::Span> WindowColumns::Pieces() const {
  const int64_t length = span_.end_ns - span_.begin_ns;
  const int64_t piece = std::max(kPieceNs, length / kMaxPieces + 1);
  std::vector<Store::Span> pieces;
  for (int64_t at = span_.begin_ns; at < span_.end_ns; at += piece) {
    pieces.push_back({at, std::min(span_.end_ns, at + piece)});
  }
  return pieces;
}

Status WindowColumns::ReadWorkers() {
  std::map<std::pair<std::string, int64_t>, StateColumnMaker> makers;
  for (const Store::Span& piece : Pieces()) {
    Result<std::vector<WorkerWindowRow>> rows = store_.WorkerWindows(run_id_, piece);
    if (!rows) return rows.error();
    for (const WorkerWindowRow& row : *rows) {
      // A window over the edge of two pieces comes with both; it is the later one's.
      if (row.start_ns < piece.begin_ns && piece.begin_ns != span_.begin_ns) continue;
      const auto [maker, fresh] =
          makers.try_emplace({row.pool, row.worker_index}, StateColumnMaker(column_ns_));
      maker->second.Add(row.start_ns, row.window_ns, row.state_ns);
    }
  }
  for (auto& [worker, maker] : makers) workers_[worker] = maker.Finish();
  workers_read_ = true;
  return {};
}

Status WindowColumns::ReadLinks() {
  for (const Store::Span& piece : Pieces()) {
    Result<std::vector<LinkWindowRow>> rows = store_.LinkWindows(run_id_, piece);
    if (!rows) return rows.error();
    for (const LinkWindowRow& row : *rows) {
      if (row.start_ns < piece.begin_ns && piece.begin_ns != span_.begin_ns) continue;
      std::vector<LinkColumn>& columns = links_[row.link];
      const int64_t end = row.start_ns + row.window_ns;
      const bool joins = !columns.empty() && columns.back().end_ns == row.start_ns &&
                         end - columns.back().begin_ns <= column_ns_;
      if (!joins) {
        columns.push_back({row.start_ns, end, 0, 0, 0, row.depth_mean, row.depth_max});
      }
      LinkColumn& column = columns.back();
      column.end_ns = end;
      column.transfers += row.transfers;
      column.wire_bytes += row.wire_bytes;
      column.wire_ns += row.stage_ns[static_cast<size_t>(Stage::kWire)];
      column.depth_low = std::min(column.depth_low, row.depth_mean);
      column.depth_high = std::max(column.depth_high, row.depth_max);
    }
  }
  links_read_ = true;
  return {};
}

Result<std::vector<StateColumn>> WindowColumns::StatesOf(const std::string& pool, int64_t worker) {
  if (!workers_read_) {
    if (Status status = ReadWorkers(); !status) return status.error();
  }
  return workers_[{pool, worker}];
}

Result<std::vector<LinkColumn>> WindowColumns::LinkOf(const std::string& link) {
  if (!links_read_) {
    if (Status status = ReadLinks(); !status) return status.error();
  }
  return links_[link];
}

}  // namespace poolscope
