#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collector/sampled_devices.h"
#include "store/store.h"
#include "trace/session_format.h"
#include "trace/session_reader.h"

namespace poolscope {

static_assert(kFirstLaneTid == kFirstLaneThread);

// A lane as mappings see it.
struct Lane {
  LaneKind kind = LaneKind::kDeviceStream;
  uint64_t device = kNoDevice;
  uint64_t number = 0;       // stream, or rank in the communicator
  std::string communicator;  // its name and hash: "NCCL pp0 00000000deadbeef"

  static Lane Of(const LaneDef& definition, std::string_view name);
};

// What is known of a process beside what it recorded, for mapping it to pools: a few variables of
// its environment and its lanes. Kept in the store's `process_fact` rows, so that a later mapping
// can be tried on what was collected.
class ProcessFacts {
 public:
  ProcessFacts() = default;
  ProcessFacts(std::string of_command, std::string of_host)
      : command(std::move(of_command)), host(std::move(of_host)) {}

  std::string command;
  std::string host;

  // Takes over what is stored; empty for a process that is not.
  static Result<ProcessFacts> Load(const Store& store, const ProcessRow& process);

  // The variables that launchers set and those of `names`, from /proc, where the process can still
  // be read and is the one that made the session, a file of the same user.
  void ReadEnvironment(const SessionHead& head, const std::filesystem::path& session,
                       const std::vector<std::string>& names);
  bool environment_known() const { return Find("environment") != nullptr; }
  const std::string* Variable(std::string_view name) const;  // null: not set, or not known
  void SetVariable(std::string_view name, std::string value);
  // As the launcher told it: RANK, OMPI_COMM_WORLD_RANK, PMIX_RANK, PMI_RANK, MV2_COMM_WORLD_RANK
  // or SLURM_PROCID, the first that is set.
  std::optional<uint64_t> Rank() const;

  void SetLane(uint32_t tid, const Lane& lane);
  std::optional<Lane> LaneOf(uint32_t tid) const;
  // A rule of the mapping names the lane: it is its worker's, whoever launches on it.
  void SetLaneMapped(uint32_t tid);
  bool LaneMapped(uint32_t tid) const;

  // Which device, by its UUID, is the process's number `device`.
  void SetDevice(uint64_t device, std::string uuid);
  DeviceId Device(const std::string& session_id, uint32_t device) const;

  // From `ns` on the thread is worker `index` of `pool` ("": of none), by a rule that holds for a
  // time.
  void AddShift(uint32_t tid, int64_t ns, const std::string& pool, int64_t index);
  struct Shift {
    int64_t ns = 0;
    std::string pool;
    int64_t index = -1;
  };
  std::vector<Shift> Shifts(uint32_t tid) const;  // in order; empty: the thread never changes

  // The name of an NVTX category, by its domain's name and its number.
  void SetCategory(std::string_view domain, uint32_t category, std::string_view name);
  std::string_view CategoryName(std::string_view domain, uint32_t category) const;  // "" none

  // The index that a worker without one of its own was given; -1: none yet.
  int64_t WorkerIndex(const std::string& pool, const std::string& part) const;
  void SetWorkerIndex(const std::string& pool, const std::string& part, int64_t index);

  // How many messages of a sender a mapping has counted at a stage of a link.
  uint64_t Sequence(const std::string& link, Stage stage, uint64_t source) const;
  void SetSequence(const std::string& link, Stage stage, uint64_t source, uint64_t next);

  // Writes what changed since the last one.
  Status Save(Store& store, const std::string& session_id);

 private:
  const std::string* Find(std::string_view key) const;
  void Set(std::string key, std::string value);

  std::map<std::string, std::pair<std::string, bool>, std::less<>> facts_;  // value, saved
  bool changed_ = false;
};

// The name that the system knows a thread by; "" where it cannot be read.
std::string SystemThreadName(const SessionHead& head, const std::filesystem::path& session,
                             uint32_t tid);

}  // namespace poolscope
