#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "reference-trainer/coordinator.h"
#include "reference-trainer/local_coordinator.h"
#include "reference-trainer/transport.h"

namespace poolscope::trainer {

inline constexpr int kRequestTag = 0, kReplyTag = 1, kStateTag = 2;

// In the process that has the coordinator (rank 0): answers the other processes, and tells them
// what changes. Before the transport starts.
class CoordinatorServer {
 public:
  CoordinatorServer(LocalCoordinator& coordinator, Transport& transport);

  // To be called wherever workers are woken. Any thread.
  void TellState();

 private:
  LocalCoordinator& coordinator_;
  Transport& transport_;
};

// In the other processes: asks rank 0. What has a result waits for it (never call those on the
// transport's thread); what has none is sent off, and done in the order of sending. Whether the run
// has started, failed or ended is told by rank 0 and known here.
class RemoteCoordinator : public Coordinator {
 public:
  // `changed` wakes this process' workers.
  RemoteCoordinator(Transport& transport, Journal& journal, std::function<void()> changed);

  std::optional<StepPlan> BeginStep(uint64_t step) override;
  Admission::Attempt TryStart(uint64_t worker, uint64_t version) override;
  bool HandedOver(uint64_t attempt) override;
  Admission::Decision Ask(uint64_t attempt) override;
  uint64_t steps() override;
  uint64_t version() override;
  uint64_t discarded() override;
  std::vector<uint64_t> Members(uint64_t version) override;
  Presence PresenceOf(uint64_t worker) override;
  void Leave(uint64_t worker) override;
  void Beat(uint64_t worker) override;
  void CheckLeases() override {}                // rank 0 does
  bool restarting() override { return false; }  // see CheckTransport
  std::optional<uint64_t> RestartDue() override { return std::nullopt; }
  void NoteFill(double fill) override;
  void Updated(size_t shard) override;
  void AddSquaredNorm(uint64_t step, double squares, size_t shards) override;
  void Tell(const StepRecord& record) override;
  // Checkpoints are put together in one process (see CheckTransport).
  DataPosition PositionAt(uint64_t) override { return {}; }
  void Rewind(uint64_t, const DataPosition&) override {}
  void StopAfterCurrentStep() override;
  void Ready() override;
  bool started() override { return started_; }
  void Ended() override;
  void Fail(const std::string& message) override;
  bool failed() override { return failed_; }
  std::string failure() override;

 private:
  template <auto Method, typename... Arguments>
  auto Request(const Arguments&... arguments);
  void TakeState(const Transport::Bytes& bytes);

  Transport& transport_;
  Journal& journal_;
  const std::function<void()> changed_;
  std::atomic<bool> started_ = false, failed_ = false;

  std::mutex mutex_;
  std::condition_variable answered_;
  // Guarded by mutex_:
  uint64_t next_request_ = 0;
  std::map<uint64_t, std::optional<Transport::Bytes>> replies_;  // by request; none: not yet
  std::string failure_;
};

}  // namespace poolscope::trainer
