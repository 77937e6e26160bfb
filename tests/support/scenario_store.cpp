#include <algorithm>
#include <cmath>
#include <map>

#include "store/store.h"
#include "tests/support/scenario.h"

namespace poolscope::testing {
namespace {

constexpr int64_t kStartNs = 1'800'000'000'000'000'000;
constexpr int64_t kWindowNs = 1'000'000'000;
const char kRun[] = "00000000000000000000000000005c40";
const char kSession[] = "00000000000000000000000000005e55";

int64_t At(double ns) { return kStartNs + static_cast<int64_t>(std::llround(ns)); }

class Writer {
 public:
  Writer(const Scenario& scenario, Store& store)
      : s_(scenario), line_(Play(scenario)), store_(store) {}

  std::string Write() {
    Check(store_.Begin());
    PutRows();
    for (const TimedSpan& span : line_.spans) PutSpan(span);
    PutMessages(0);
    PutMessages(1);
    Flush();
    PutWindows();
    Check(store_.Commit());
    return failed_;
  }

 private:
  void Check(const Status& status) {
    if (!status && failed_.empty()) failed_ = status.error().message;
  }
  uint32_t Id(const std::string& text) {
    auto id = store_.Intern(text);
    return id ? *id : 0;
  }
  double End() const {
    double end = line_.step_ends.back();
    for (const TimedMessage& m : line_.weights) end = std::max(end, m.taken);
    return end;
  }

  void PutRows() {
    Check(store_.Put(RunRow{kRun, "host", "scenario", kStartNs, At(End()), true}));
    Check(store_.Put(
        ProcessRow{kSession, kRun, "host", "scenario", 1, 0, kStartNs, At(End()), "exited"}));
    Check(store_.Put(PoolRow{kRun, "compute", "compute", s_.compute}));
    Check(store_.Put(PoolRow{kRun, "update", "update", s_.update}));
    const ScenarioLink* links[] = {&s_.gradients, &s_.weights};
    Check(store_.Put(
        LinkRow{kRun, "gradients", "compute", "update", links[0]->depth * s_.update, 1}));
    Check(
        store_.Put(LinkRow{kRun, "weights", "update", "compute", links[1]->depth * s_.compute, 1}));
    std::map<std::string, std::string> settings{
        {"mode", "sync"},
        {"device", "emulated"},
        {"micro_batches", std::to_string(s_.micro_batches)},
        {"gradients.depth", std::to_string(links[0]->depth)},
        {"weights.depth", std::to_string(links[1]->depth)},
        {"gradients.codec", "none"},
        {"weights.codec", "none"}};
    if (s_.codec_probe) {
      settings["codec.bf16.ratio"] = "0.5";
      settings["codec.bf16.encode_bytes_per_second"] = "5e10";
      settings["codec.bf16.decode_bytes_per_second"] = "5e10";
    }
    for (const auto& [key, value] : s_.settings) settings[key] = value;
    for (const auto& [key, value] : settings) Check(store_.Put(SettingRow{kRun, key, value}));
    for (size_t i = 0; i < line_.step_ends.size() && s_.marked_steps; ++i) {
      Check(store_.Put(StepRow{kRun, static_cast<int64_t>(i), At(line_.step_ends[i]),
                               static_cast<int64_t>(i) + 1, 1000, s_.micro_batches, 1.0}));
    }
    if (s_.lossy) {
      EventLossRow loss{kRun, kSession, "ring_full", "thread 3", s_.lost_events, 0, 0};
      loss.first_ns = At(End() * s_.loss_from);
      loss.last_ns = At(End() * s_.loss_to);
      Check(store_.Put(loss));
    }
  }

  // The range track of a worker, or of a link's lane.
  int64_t Track(const std::string& pool, int64_t index) {
    const auto [found, is_new] = tracks_.emplace(std::pair(pool, index), 0);
    if (is_new) {
      const bool lane = pool != "compute" && pool != "update";
      const auto tid = static_cast<int64_t>(100 + tracks_.size());
      auto thread =
          store_.PutThread(lane ? ThreadRow{0, kSession, tid, "link/" + pool + "/0", "", -1}
                                : ThreadRow{0, kSession, tid, pool, pool, index});
      auto track = store_.TrackId({0, kRun, thread ? *thread : 0, 1, 0});
      found->second = track ? *track : 0;
    }
    return found->second;
  }

  void Put(int64_t track, Category category, const std::string& name, double begin, double end,
           const std::string& schema, const std::vector<uint64_t>& values, uint8_t flags = 0) {
    EventBatch& batch = batches_[track];
    Event event;
    event.start_ns = At(begin);
    event.duration_ns = At(end) - At(begin);
    event.name = Id(name);
    event.domain = Id(std::string(kPoolscopeDomain));
    event.category = static_cast<uint32_t>(category);
    event.flags = flags;
    if (!schema.empty()) {
      event.payload_offset = static_cast<uint32_t>(batch.words.size());
      event.payload_words = static_cast<uint16_t>(values.size() + 1);
      batch.words.push_back(Id(schema) | static_cast<uint64_t>(values.size()) << 32);
      batch.words.insert(batch.words.end(), values.begin(), values.end());
    }
    batch.events.push_back(event);
  }

  void PutSpan(const TimedSpan& span) {
    const int64_t track = Track(span.compute ? "compute" : "update", span.worker);
    const std::string out = span.compute ? "gradients" : "weights";
    const std::string in = span.compute ? "weights" : "gradients";
    const auto step = static_cast<uint64_t>(span.step);
    switch (span.kind) {
      case SpanKind::kForward:
      case SpanKind::kBackward:
        Put(track, Category::kWork, span.kind == SpanKind::kForward ? "forward" : "backward",
            span.begin, span.end, std::string(kWorkSchema),
            {step, static_cast<uint64_t>(span.micro_batch), step, 0, kNoValue});
        break;
      case SpanKind::kOptimizer:
        Put(track, Category::kWork, "optimizer", span.begin, span.end, std::string(kWorkSchema),
            {step, kNoValue, step + 1, 1, kNoValue});
        break;
      case SpanKind::kOtherWork:
        Put(track, Category::kOtherWork, s_.checkpoint, span.begin, span.end, "", {});
        break;
      case SpanKind::kWait: {
        const TimedMessage& m =
            (span.compute ? line_.weights : line_.gradients)[static_cast<size_t>(span.message)];
        Put(track, Category::kWaitLink, in, span.begin, span.end, std::string(kWaitSchema),
            {static_cast<uint64_t>(m.source), m.sequence});
        break;
      }
      case SpanKind::kBlocked:
        Put(track, Category::kBlockedLink, out, span.begin, span.end, std::string(kWaitSchema),
            {kNoValue, kNoValue});
        break;
    }
  }

  void PutMessages(int which) {
    const std::string link = which == 0 ? "gradients" : "weights";
    const int64_t lane = Track(link, 0);
    for (const TimedMessage& m : which == 0 ? line_.gradients : line_.weights) {
      const auto put = [&](int64_t track, Stage stage, double begin, double end, uint8_t flags) {
        const auto bytes = static_cast<uint64_t>(m.bytes);
        Put(track, Category::kTransfer, link, begin, end, std::string(kTransferSchema),
            {static_cast<uint64_t>(stage), static_cast<uint64_t>(m.source),
             static_cast<uint64_t>(m.destination), m.sequence, 0, kNoValue, bytes, bytes,
             m.step < 0 || !s_.told_steps ? kNoValue : static_cast<uint64_t>(m.step), kNoValue, 0},
            flags);
      };
      if (s_.staged) put(lane, Stage::kQueued, m.handed_over, m.wire_start, kEventStartEnd);
      put(lane, Stage::kWire, m.wire_start, m.arrival, kEventStartEnd);
      if (m.step < 0) continue;
      put(Track(which == 0 ? "update" : "compute", m.destination), Stage::kApply, m.taken, m.taken,
          0);
    }
  }

  void Flush() {
    for (auto& [track, batch] : batches_) {
      std::stable_sort(batch.events.begin(), batch.events.end(),
                       [](const Event& a, const Event& b) { return a.end_ns() < b.end_ns(); });
      Check(store_.Append(track, batch));
    }
  }

  // --- Windows, as DESIGN section 2 defines their figures ---
  template <typename Visit>
  void EachWindow(double begin, double end, const Visit& visit) {
    for (int64_t at = At(begin); at < At(end);) {
      const int64_t window = at / kWindowNs * kWindowNs;
      const int64_t until = std::min(At(end), window + kWindowNs);
      visit(window, until - at);
      at = until;
    }
  }

  void PutWindows() {
    const int64_t first = kStartNs / kWindowNs * kWindowNs;
    const int64_t last = At(End()) / kWindowNs * kWindowNs;
    for (int64_t window = first; window <= last; window += kWindowNs) {
      for (const auto& [pool, workers] :
           {std::pair("compute", s_.compute), {"update", s_.update}}) {
        for (int i = 0; i < workers; ++i) {
          workers_[{pool, i, window}] = {kRun, pool, i, window, kWindowNs, {}};
        }
      }
      for (const char* link : {"gradients", "weights"}) {
        LinkWindowRow row;
        row.run_id = kRun;
        row.link = link;
        row.start_ns = window;
        row.window_ns = kWindowNs;
        links_[{link, window}] = row;
      }
    }
    for (const TimedSpan& span : line_.spans) CountSpan(span);
    CountMessages(0);
    CountMessages(1);
    for (auto& [key, row] : workers_) {
      int64_t sum = 0;
      for (int64_t ns : row.state_ns) sum += ns;
      row.state_ns[static_cast<size_t>(State::kIdle)] += kWindowNs - sum;
      Check(store_.Put(row));
    }
    for (const auto& [key, row] : worker_links_) Check(store_.Put(row));
    for (const auto& [key, row] : links_) Check(store_.Put(row));
  }

  WorkerLinkWindowRow& WorkerLink(bool compute, int worker, const std::string& link,
                                  int64_t window) {
    const std::string pool = compute ? "compute" : "update";
    WorkerLinkWindowRow& row = worker_links_[{pool + link, worker, window}];
    row.run_id = kRun;
    row.pool = pool;
    row.worker_index = worker;
    row.link = link;
    row.start_ns = window;
    row.window_ns = kWindowNs;
    return row;
  }

  void CountSpan(const TimedSpan& span) {
    const std::string pool = span.compute ? "compute" : "update";
    const bool wait = span.kind == SpanKind::kWait;
    const bool blocked = span.kind == SpanKind::kBlocked;
    const State state = wait                                ? State::kWaitLink
                        : blocked                           ? State::kBlockedLink
                        : span.kind == SpanKind::kOtherWork ? State::kOtherWork
                                                            : State::kBusy;
    EachWindow(span.begin, span.end, [&](int64_t window, int64_t ns) {
      workers_[{pool, span.worker, window}].state_ns[static_cast<size_t>(state)] += ns;
    });
    if (blocked) {
      EachWindow(span.begin, span.end, [&](int64_t window, int64_t ns) {
        WorkerLink(span.compute, span.worker, span.compute ? "gradients" : "weights", window)
            .blocked_ns += ns;
      });
    }
    if (!wait) return;
    const std::string link = span.compute ? "weights" : "gradients";
    const TimedMessage& m =
        (span.compute ? line_.weights : line_.gradients)[static_cast<size_t>(span.message)];
    const double workers = s_.compute + s_.update;
    const auto part = [&](double begin, double end, int64_t WorkerLinkWindowRow::*field,
                          bool exposed) {
      EachWindow(std::max(begin, span.begin), std::min(end, span.end),
                 [&](int64_t window, int64_t ns) {
                   WorkerLinkWindowRow& row = WorkerLink(span.compute, span.worker, link, window);
                   row.*field += ns;
                   row.wait_ns += ns;
                   if (exposed) {
                     links_[{link, window}].exposed_share +=
                         static_cast<double>(ns) / (workers * kWindowNs);
                   }
                 });
    };
    part(span.begin, m.handed_over, &WorkerLinkWindowRow::upstream_busy_ns, false);
    part(m.handed_over, m.wire_start, &WorkerLinkWindowRow::queued_ns, true);
    part(m.wire_start, span.end, &WorkerLinkWindowRow::wire_ns, true);
  }

  void CountMessages(int which) {
    const std::string link = which == 0 ? "gradients" : "weights";
    const double senders = which == 0 ? s_.compute : s_.update;
    std::map<int, double> covered_until;  // by sender: wire times overlap through latency
    for (const TimedMessage& m : which == 0 ? line_.gradients : line_.weights) {
      LinkWindowRow& row = links_[{link, At(m.arrival) / kWindowNs * kWindowNs}];
      ++row.transfers;
      row.raw_bytes += static_cast<int64_t>(m.bytes);
      row.wire_bytes += static_cast<int64_t>(m.bytes);
      row.stage_ns[0] += static_cast<int64_t>(m.wire_start - m.handed_over);
      row.stage_ns[2] += static_cast<int64_t>(m.arrival - m.wire_start);
      EachWindow(m.handed_over, m.taken, [&](int64_t window, int64_t ns) {
        links_[{link, window}].depth_mean += static_cast<double>(ns) / kWindowNs;
      });
      double& until = covered_until[m.source];
      EachWindow(std::max(until, m.wire_start), m.arrival, [&](int64_t window, int64_t ns) {
        links_[{link, window}].traffic_share += static_cast<double>(ns) / (senders * kWindowNs);
      });
      until = std::max(until, m.arrival);
    }
  }

  const Scenario& s_;
  const Timeline line_;
  Store& store_;
  std::string failed_;
  std::map<std::pair<std::string, int64_t>, int64_t> tracks_;
  std::map<int64_t, EventBatch> batches_;
  std::map<std::tuple<std::string, int, int64_t>, WorkerWindowRow> workers_;
  std::map<std::tuple<std::string, int, int64_t>, WorkerLinkWindowRow> worker_links_;
  std::map<std::pair<std::string, int64_t>, LinkWindowRow> links_;
};

}  // namespace

std::string WriteStore(const Scenario& scenario, const std::string& path) {
  Result<Store> store = Store::Open(path, Store::Mode::kWrite);
  if (!store) return store.error().message;
  return Writer(scenario, *store).Write();
}

}  // namespace poolscope::testing
