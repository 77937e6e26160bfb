#include "collector/process_facts.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <sstream>

namespace poolscope {
namespace {

constexpr std::array<std::string_view, 6> kRankVariables = {
    "RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", "SLURM_PROCID"};
// Others that say which part of a job a process is.
constexpr std::array<std::string_view, 9> kOtherVariables = {
    "LOCAL_RANK",    "WORLD_SIZE", "GROUP_RANK",           "OMPI_COMM_WORLD_LOCAL_RANK",
    "SLURM_LOCALID", "DMLC_ROLE",  "CUDA_VISIBLE_DEVICES", "ROLE_NAME",
    "WG_PREFIX"};
constexpr size_t kMaxFacts = 65536;    // of a process
constexpr size_t kMaxValue = 4096;     // bytes of a variable
constexpr size_t kMaxShifts = 1000;    // of a thread
constexpr size_t kMaxEntries = 65536;  // of an environment

std::optional<uint64_t> Number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Field 22 of /proc/<pid>/stat, when the process started; 0: not known.
uint64_t StartOf(uint32_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text);
  const size_t after_name = text.rfind(')');
  if (after_name == std::string::npos) return 0;
  size_t at = after_name + 2;
  for (int field = 3; field < 22 && at != std::string::npos; ++field) {
    at = text.find(' ', at);
    if (at != std::string::npos) ++at;
  }
  if (at == std::string::npos) return 0;
  uint64_t value = 0;
  std::from_chars(text.data() + at, text.data() + text.size(), value);
  return value;
}

// Whether this system's process of that number is the session's: numbers are used again, those of a
// container are others here, and a session may lie about both to a collector that may read more.
bool IsTheProcess(const SessionHead& head, const std::filesystem::path& session) {
  struct stat file;
  struct stat process;
  return lstat(session.c_str(), &file) == 0 &&
         stat(fmt::format("/proc/{}", head.pid).c_str(), &process) == 0 &&
         file.st_uid == process.st_uid &&
         (head.process_start == 0 || StartOf(head.pid) == head.process_start);
}

}  // namespace

Lane Lane::Of(const LaneDef& definition, std::string_view name) {
  Lane lane{definition.kind, definition.device, definition.number, ""};
  if (definition.kind == LaneKind::kCommunicator) {
    lane.communicator = std::string(name.substr(0, name.rfind(" rank ")));
  }
  return lane;
}

Result<ProcessFacts> ProcessFacts::Load(const Store& store, const ProcessRow& process) {
  ProcessFacts facts(process.command, process.host);
  const auto rows = store.ProcessFacts(process.session_id);
  if (!rows.ok()) return rows.error();
  for (const ProcessFactRow& row : *rows) facts.facts_[row.key] = {row.value, true};
  return facts;
}

void ProcessFacts::ReadEnvironment(const SessionHead& head, const std::filesystem::path& session,
                                   const std::vector<std::string>& names) {
  if (!IsTheProcess(head, session)) return;
  std::ifstream file(fmt::format("/proc/{}/environ", head.pid), std::ios::binary);
  if (!file) return;
  const auto wanted = [&](std::string_view name) {
    return std::find(kRankVariables.begin(), kRankVariables.end(), name) != kRankVariables.end() ||
           std::find(kOtherVariables.begin(), kOtherVariables.end(), name) !=
               kOtherVariables.end() ||
           std::find(names.begin(), names.end(), name) != names.end();
  };
  std::string entry;
  for (size_t i = 0; i < kMaxEntries && std::getline(file, entry, '\0'); ++i) {
    const size_t equals = entry.find('=');
    if (equals == std::string::npos || !wanted(std::string_view(entry).substr(0, equals))) continue;
    SetVariable(std::string_view(entry).substr(0, equals), entry.substr(equals + 1, kMaxValue));
  }
  Set("environment", "read");
}

const std::string* ProcessFacts::Variable(std::string_view name) const {
  return Find(fmt::format("env.{}", name));
}

void ProcessFacts::SetVariable(std::string_view name, std::string value) {
  Set(fmt::format("env.{}", name), std::move(value));
}

std::optional<uint64_t> ProcessFacts::Rank() const {
  for (const std::string_view name : kRankVariables) {
    if (const std::string* value = Variable(name); value != nullptr) return Number(*value);
  }
  return std::nullopt;
}

void ProcessFacts::SetLane(uint32_t tid, const Lane& lane) {
  const std::string key = fmt::format("lane.{}", tid);
  if (lane.kind == LaneKind::kCommunicator) {
    Set(key, fmt::format("communicator {} {}", lane.number, lane.communicator));
  } else {
    Set(key, fmt::format("stream {} {}", lane.number, lane.device));
  }
}

std::optional<Lane> ProcessFacts::LaneOf(uint32_t tid) const {
  const std::string* text = Find(fmt::format("lane.{}", tid));
  if (text == nullptr) return std::nullopt;
  const size_t first = text->find(' ');
  const size_t second = text->find(' ', first + 1);
  if (first == std::string::npos || second == std::string::npos) return std::nullopt;
  const auto number = Number(std::string_view(*text).substr(first + 1, second - first - 1));
  const std::string rest = text->substr(second + 1);
  Lane lane;
  lane.number = number.value_or(0);
  if (text->starts_with("communicator ")) {
    lane.kind = LaneKind::kCommunicator;
    lane.communicator = rest;
  } else {
    lane.device = Number(rest).value_or(kNoDevice);
  }
  return lane;
}

void ProcessFacts::SetLaneMapped(uint32_t tid) { Set(fmt::format("lane_mapped.{}", tid), "yes"); }

bool ProcessFacts::LaneMapped(uint32_t tid) const {
  return Find(fmt::format("lane_mapped.{}", tid)) != nullptr;
}

void ProcessFacts::SetDevice(uint64_t device, std::string uuid) {
  Set(fmt::format("device.{}", device), std::move(uuid));
}

DeviceId ProcessFacts::Device(const std::string& session_id, uint32_t device) const {
  const std::string* uuid = Find(fmt::format("device.{}", device));
  return uuid == nullptr ? DeviceId{"", session_id, device} : DeviceId{*uuid, "", 0};
}

void ProcessFacts::AddShift(uint32_t tid, int64_t ns, const std::string& pool, int64_t index) {
  const std::vector<Shift> before = Shifts(tid);
  if (!before.empty() && before.back().pool == pool && before.back().index == index) return;
  if (before.size() >= kMaxShifts) return;
  const std::string key = fmt::format("shifts.{}", tid);
  const std::string* text = Find(key);
  Set(key, fmt::format("{}{} {} {}\n", text == nullptr ? "" : *text, ns, index, pool));
}

std::vector<ProcessFacts::Shift> ProcessFacts::Shifts(uint32_t tid) const {
  std::vector<Shift> shifts;
  const std::string* text = Find(fmt::format("shifts.{}", tid));
  if (text == nullptr) return shifts;
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) {
    Shift shift;
    std::istringstream words(line);
    if (words >> shift.ns >> shift.index) {
      words >> shift.pool;
      shifts.push_back(std::move(shift));
    }
  }
  return shifts;
}

void ProcessFacts::SetCategory(std::string_view domain, uint32_t category, std::string_view name) {
  Set(fmt::format("category.{}.{}", category, domain), std::string(name));
}

std::string_view ProcessFacts::CategoryName(std::string_view domain, uint32_t category) const {
  const std::string* name = Find(fmt::format("category.{}.{}", category, domain));
  return name == nullptr ? std::string_view() : *name;
}

int64_t ProcessFacts::WorkerIndex(const std::string& pool, const std::string& part) const {
  const std::string* text = Find(fmt::format("worker.{}.{}", pool, part));
  const auto number = text == nullptr ? std::nullopt : Number(*text);
  return number.has_value() ? static_cast<int64_t>(*number & INT64_MAX) : -1;
}

void ProcessFacts::SetWorkerIndex(const std::string& pool, const std::string& part, int64_t index) {
  Set(fmt::format("worker.{}.{}", pool, part), std::to_string(index));
}

uint64_t ProcessFacts::Sequence(const std::string& link, Stage stage, uint64_t source) const {
  const std::string* text =
      Find(fmt::format("sequence.{}.{}.{}", link, static_cast<uint64_t>(stage), source));
  return text == nullptr ? 0 : Number(*text).value_or(0);
}

void ProcessFacts::SetSequence(const std::string& link, Stage stage, uint64_t source,
                               uint64_t next) {
  Set(fmt::format("sequence.{}.{}.{}", link, static_cast<uint64_t>(stage), source),
      std::to_string(next));
}

Status ProcessFacts::Save(Store& store, const std::string& session_id) {
  if (!std::exchange(changed_, false)) return {};
  for (auto& [key, value] : facts_) {
    if (std::exchange(value.second, true)) continue;
    if (auto put = store.Put(ProcessFactRow{session_id, key, value.first}); !put.ok()) return put;
  }
  return {};
}

const std::string* ProcessFacts::Find(std::string_view key) const {
  const auto found = facts_.find(key);
  return found == facts_.end() ? nullptr : &found->second.first;
}

void ProcessFacts::Set(std::string key, std::string value) {
  if (facts_.size() >= kMaxFacts && facts_.find(key) == facts_.end()) return;
  auto& fact = facts_[std::move(key)];
  if (fact.first == value) return;
  fact = {std::move(value), false};
  changed_ = true;
}

std::string SystemThreadName(const SessionHead& head, const std::filesystem::path& session,
                             uint32_t tid) {
  std::string name;
  std::ifstream file(fmt::format("/proc/{}/task/{}/comm", head.pid, tid));
  if (file && IsTheProcess(head, session)) std::getline(file, name, '\0');
  if (name.ends_with('\n')) name.pop_back();
  return PlainText(name);
}

}  // namespace poolscope
