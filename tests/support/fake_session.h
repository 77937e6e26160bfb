#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trace/event.h"
#include "trace/session_format.h"

// A writer of session files that a test drives event by event: the protocol of
// trace/session_format.h as one may read it in code. Ticks are nanoseconds of CLOCK_MONOTONIC, so
// a test states times. Not for several threads at once.

namespace poolscope {

class FakeSession {
 public:
  struct Options {
    std::filesystem::path folder;
    std::string session_id = "000102030405060708090a0b0c0d0e0f";
    std::string run_id = "f0e0d0c0b0a090807060504030201000";
    uint32_t pid = 4242;
    std::string host = "fakehost";
    std::string command = "fake job";
    size_t ring_bytes = kMinRingBytes;
    uint32_t max_threads = 64;  // rings reserved in the file
  };
  explicit FakeSession(Options options);
  ~FakeSession();  // as KillWriter, and the file goes
  FakeSession(const FakeSession&) = delete;
  FakeSession& operator=(const FakeSession&) = delete;

  const std::filesystem::path& path() const { return path_; }

  // --- Definitions ---
  uint32_t Name(std::string_view text);  // defined when new
  uint32_t Domain(std::string_view name);
  uint32_t Schema(std::string_view name, const std::vector<SchemaFieldDef>& fields);
  uint32_t CounterName(std::string_view name, uint32_t domain, bool is_float);
  void ThreadName(uint32_t tid, std::string_view name);
  void Resource(uint32_t domain, uint64_t identifier, std::string_view text);
  void Lane(uint32_t lane, const LaneDef& definition);
  void Define(DefinitionKind kind, uint64_t id, std::span<const std::byte> payload);  // raw

  // --- Events; the thread `tid` gets a slot at its first one. Each returns whether it is kept. ---
  void Push(uint32_t tid, int64_t at, uint32_t name, uint32_t category = 0, uint32_t domain = 0);
  bool Pop(uint32_t tid, int64_t at, std::span<const uint64_t> payload = {});
  bool Range(uint32_t tid, int64_t start, int64_t end, uint32_t name, uint32_t category = 0,
             uint32_t domain = 0, std::span<const uint64_t> payload = {});
  bool Mark(uint32_t tid, int64_t at, uint32_t name, uint32_t category = 0, uint32_t domain = 0,
            std::span<const uint64_t> payload = {});
  bool Sample(uint32_t tid, int64_t at, uint32_t counter, double value, uint32_t domain = 0);
  // On a lane, written by thread `tid`; both times are ticks, or with `flags` kRecordMonotonic ns.
  bool Activity(uint32_t tid, uint32_t lane, int64_t start, int64_t end, uint32_t name,
                uint8_t flags = 0, uint32_t domain = 0, std::span<const uint64_t> payload = {});
  uint64_t Start(uint32_t tid, int64_t at, uint32_t name, uint32_t category = 0,
                 uint32_t domain = 0, std::span<const uint64_t> payload = {});
  bool End(uint32_t tid, int64_t at, uint64_t id);
  void Forget(uint64_t id);  // out of the table, without a record
  void ThreadExit(uint32_t tid);
  void Lose(LossCause cause, uint64_t events, int64_t at);
  void Triple(int64_t monotonic_ns, int64_t realtime_ns);

  // --- Ends ---
  void KillWriter();  // the process vanished: its lock goes, all else stays as it was
  void Exit();        // ended = 1, then as KillWriter

  // --- Sabotage and inspection ---
  void FlipByte(size_t offset);
  void Truncate(size_t bytes);
  SessionHeader& header() { return *reinterpret_cast<SessionHeader*>(base_); }
  ThreadSlot& slot(uint32_t index) {
    return reinterpret_cast<ThreadSlot*>(base_ + kSlotsAt)[index];
  }
  uint32_t SlotOf(uint32_t tid);
  uint64_t* RingOf(uint32_t tid);
  size_t file_bytes() const { return file_bytes_; }

 private:
  bool Write(uint32_t tid, int64_t at, RecordKind kind, uint8_t flags, uint32_t domain,
             uint32_t depth, uint32_t name, uint32_t category, std::span<const uint64_t> own,
             std::span<const uint64_t> payload);
  bool MakeRoom(ThreadSlot& slot, uint64_t bytes, int64_t at);

  Options options_;
  std::filesystem::path path_;
  int fd_ = -1;
  char* base_ = nullptr;
  size_t file_bytes_ = 0;
  std::map<std::string, uint32_t, std::less<>> names_;
  std::map<std::string, uint32_t, std::less<>> domains_;
  std::map<uint32_t, uint32_t> slots_;  // by tid
  std::vector<uint32_t> next_open_id_ = std::vector<uint32_t>(kMaxThreads, 1);
  uint64_t next_range_ = 1;
};

}  // namespace poolscope
