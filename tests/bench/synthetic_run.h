#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "store/store.h"

namespace poolscope::bench {

// A synchronous disaggregated run as the reference trainer marks it, computed instead of run:
// compute workers send one gradient message per shard to the update workers, which send weights
// back; links with lanes, bandwidth and latency; buffers deep enough never to block.
struct RunShape {
  uint32_t compute_workers = 8;
  uint32_t update_workers = 4;
  uint32_t micro_batches = 16;
  uint32_t layers = 4;  // ranges of the default domain inside forward and backward
  double forward_ms = 6, backward_ms = 12, optimizer_ms = 40;  // optimizer: of the whole pool
  double gradient_bytes = 64e6, weight_bytes = 64e6;           // of the whole model
  double bandwidth = 4e9;                                      // bytes/s of each link
  double latency_ms = 0.2;
  double jitter = 0.05;  // relative, of every duration
  uint64_t seed = 1;
  int64_t start_ns = 1'760'000'000'123'456'789;
};

// Puts the run's rows at once, then step by step its events.
class SyntheticRun {
 public:
  SyntheticRun(Store& store, RunShape shape, const std::string& run_id);

  // Inside a transaction, before the first step.
  Status PutRun();
  // Computes steps until at least `events` more events wait to be appended.
  void Make(int64_t events);
  // Inside a transaction: appends what waits, with windows that are over. Returns how many events.
  Result<int64_t> Append();
  // Inside a transaction: the last window, the end of the run.
  Status Finish();

  // What waits, by track: for benches that measure Append alone.
  const std::map<int64_t, EventBatch>& waiting() const { return waiting_; }
  int64_t steps() const { return step_; }
  int64_t end_ns() const { return now_ns_; }

 private:
  struct Thread {
    int64_t id = 0;
    int64_t ranges = 0, marks = 0;         // tracks
    std::map<uint32_t, int64_t> counters;  // name -> track
    int64_t free_ns = 0;                   // has nothing to do from then on
  };
  struct Link {
    std::string name;
    uint32_t id = 0;
    uint32_t depth = 0;  // name of its counter
    Thread* lane = nullptr;
    int64_t lane_free_ns = 0;
    std::vector<uint64_t> sequence;  // by sender
    double bytes = 0;                // of one message
  };
  struct Message {
    uint64_t source, destination, sequence;
    int64_t arrived_ns;
  };
  struct DepthChange {
    int64_t at_ns;
    int64_t change;
    Thread* thread;
  };
  struct WorkerSlice {
    StateNs state_ns{};
    std::map<std::string, WorkerLinkWindowRow> links;
  };

  Result<Thread> PutThread(int64_t tid, const std::string& name, const std::string& pool,
                           int64_t index);
  Status PutNames();
  int64_t Jitter(double ms);
  void Step();
  void Work(Thread& thread, uint32_t name, double ms, uint64_t micro_batch, uint64_t scope);
  Event Base(uint32_t name, Category category, int64_t start_ns, int64_t end_ns) const;
  void Add(int64_t track, EventKind kind, Event event, uint32_t schema,
           std::initializer_list<uint64_t> values);
  void Stage(Thread& thread, Link& link, poolscope::Stage stage, const Message& message,
             int64_t start_ns, int64_t end_ns, bool start_end = false);
  Message Send(Thread& sender, Link& link, uint64_t source, uint64_t destination);
  void Receive(Thread& receiver, const std::string& pool, uint64_t index, Link& link,
               const Message& message);
  void Sample(Thread& thread, uint32_t counter, int64_t at_ns, double value);
  void SampleDepth(Link& link, std::vector<DepthChange>& changes);
  void Spend(const std::string& pool, uint64_t index, State state, const Link* link,
             int64_t start_ns, int64_t end_ns);
  Status PutWindows(int64_t before_ns);

  Store& store_;
  RunShape shape_;
  std::string run_id_, session_id_;
  std::mt19937_64 random_;
  std::vector<Thread> compute_, update_;
  Thread gradients_lane_, weights_lane_;
  Link gradients_, weights_;
  std::map<Link*, std::vector<DepthChange>> depth_changes_;
  uint32_t domain_ = 0, forward_ = 0, backward_ = 0, optimizer_ = 0, step_name_ = 0;
  uint32_t transfer_schema_ = 0, work_schema_ = 0, wait_schema_ = 0, step_schema_ = 0;
  uint32_t loss_ = 0, version_ = 0, tokens_ = 0;
  std::vector<uint32_t> layers_;
  std::map<int64_t, EventBatch> waiting_;
  int64_t waiting_events_ = 0;
  std::vector<StepRow> step_rows_;
  std::map<int64_t, std::map<std::pair<std::string, uint64_t>, WorkerSlice>> windows_;
  std::map<int64_t, std::map<std::string, LinkWindowRow>> link_windows_;
  int64_t step_ = 0;
  int64_t now_ns_ = 0;
};

}  // namespace poolscope::bench
