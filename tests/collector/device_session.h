#pragma once

#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/collector/drain_fixture.h"
#include "trace/clock.h"

namespace poolscope {

// A session of a job with a compute and an update worker, whose device has three streams. Times are
// ms after a moment ten seconds ago.
class Devices : public Drain {
 protected:
  static constexpr int64_t kMs = 1'000'000;
  static constexpr uint32_t kCompute = 7, kUpdate = 8;  // threads

  Devices() : session_(std::make_unique<FakeSession>(Session())) {
    domain_ = session_->Domain("poolscope");
    cuda_ = session_->Domain("cuda");
    kernel_ = Schema("cuda.kernel", {"correlation", "launch_tid", "range", "range_open_id"});
    copy_ = Schema("cuda.copy", {"correlation", "launch_tid", "range", "range_open_id", "bytes"});
    session_->Resource(domain_, kCompute, "worker compute 0 compute");
    session_->Resource(domain_, kUpdate, "worker update 0 update");
    for (uint32_t stream = 0; stream < 3; ++stream) {
      session_->Lane(stream, {session_->Name("device 3 stream " + std::to_string(stream)),
                              LaneKind::kDeviceStream, 3, 1, stream});
    }
  }

  int64_t At(int64_t ms) const { return zero_ + ms * kMs; }
  void Kernel(uint32_t stream, int64_t from, int64_t to, const char* name = "gemm",
              uint32_t launch_tid = kCompute) {
    const uint64_t payload[] = {kernel_ | uint64_t{4} << 32, 1, launch_tid, 0, 0};
    session_->Activity(99, stream, At(from), At(to), session_->Name(name), kRecordMonotonic, cuda_,
                       payload);
  }
  void Copy(int64_t from, int64_t to, const char* name, uint64_t bytes, uint64_t correlation) {
    const uint64_t payload[] = {copy_ | uint64_t{5} << 32, correlation, kCompute, 0, 0, bytes};
    session_->Activity(99, 2, At(from), At(to), session_->Name(name), kRecordMonotonic, cuda_,
                       payload);
  }
  void Host(uint32_t tid, int64_t from, int64_t to, Category category, const char* name = "x") {
    session_->Range(tid, At(from), At(to), session_->Name(name), static_cast<uint32_t>(category),
                    domain_);
  }
  void UseMapping(const char* toml) {
    options_.pools = files_.path() / "pools.toml";
    std::ofstream(options_.pools) << toml;
  }

  // The run is over, and stored.
  void Finish() {
    auto collector = Open();
    session_->Exit();
    DrainOnce(*collector);
  }
  // All time of a pool's workers in the state, in ms.
  double Ms(const std::string& pool, State state) {
    auto store = OpenStore();
    double sum = 0;
    const auto rows = store->WorkerWindows(store->FindRun("")->run_id, {});
    for (const WorkerWindowRow& row : *rows) {
      int64_t all = 0;
      for (const int64_t ns : row.state_ns) all += ns;
      EXPECT_EQ(all, row.window_ns);
      if (row.pool == pool) sum += static_cast<double>(row.state_ns[static_cast<size_t>(state)]);
    }
    return sum / kMs;
  }
  int64_t Lost(const std::string& cause) {
    auto store = OpenStore();
    int64_t events = 0;
    const auto rows = store->EventLosses(store->FindRun("")->run_id);
    for (const EventLossRow& row : *rows) events += row.cause == cause ? *row.events : 0;
    return events;
  }

  std::unique_ptr<FakeSession> session_;
  uint32_t domain_ = 0, cuda_ = 0, kernel_ = 0, copy_ = 0;
  int64_t zero_ = MonotonicNs() - 10'000 * kMs;

 private:
  uint32_t Schema(const char* name, const std::vector<const char*>& fields) {
    std::vector<SchemaFieldDef> defs;
    for (const char* field : fields) defs.push_back({session_->Name(field), 1, 0});
    return session_->Schema(name, defs);
  }
};

}  // namespace poolscope
