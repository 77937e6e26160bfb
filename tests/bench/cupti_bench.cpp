// What the agent's thread takes to turn CUPTI's records into the session's: its processor time, in
// the shipped library, with a libcupti that hands them over.

#include <dirent.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/nvtx_session_view.h"
#include "tests/support/standin_cupti.h"

namespace {

using poolscope::support::FreeAll;

constexpr uint64_t kBurst = 100'000;  // records; they fit the ring
constexpr uint64_t kBytes = kBurst * (7 * 216 + 2 * 96 + 88) / 10;
constexpr int kBursts = 15;

double Seconds(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// The processor-time clock of this process's thread of that name.
clockid_t ClockOf(const std::string& name) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string found;
    std::getline(std::ifstream(entry.path() / "comm"), found);
    const int tid = std::stoi(entry.path().filename());
    if (found == name) return static_cast<clockid_t>((~tid << 3) | 6);  // linux/posix-timers.h
  }
  return CLOCK_PROCESS_CPUTIME_ID;
}

// Copies as many bytes as the records of a burst have, buffer by buffer.
double CopySeconds() {
  constexpr size_t kBuffer = size_t{512} << 10;
  static std::vector<char> from(kBytes, 1), to(kBytes);
  const double start = Seconds(CLOCK_THREAD_CPUTIME_ID);
  for (size_t at = 0; at < kBytes; at += kBuffer) {
    memcpy(to.data() + at, from.data() + at, std::min(kBuffer, kBytes - at));
  }
  return Seconds(CLOCK_THREAD_CPUTIME_ID) - start;
}

}  // namespace

int main() {
  const auto here = std::filesystem::read_symlink("/proc/self/exe");
  const auto build = here.parent_path().parent_path();
  const std::string library = build / "tests" / "standin" / "libcupti.so";
  char folder[] = "/dev/shm/poolscope-bench-XXXXXX";
  setenv("POOLSCOPE_RUN_DIR", mkdtemp(folder), 1);
  setenv("POOLSCOPE_AGENT_LOG", "1", 1);
  setenv("POOLSCOPE_RING_BYTES", "67108864", 1);
  setenv("POOLSCOPE_CUPTI", library.c_str(), 1);
  void* agent = dlopen((build / "lib" / "libpoolscope_agent.so").c_str(), RTLD_NOW);
  void* cupti = dlopen(library.c_str(), RTLD_NOW);
  if (agent == nullptr || cupti == nullptr) {
    fprintf(stderr, "cupti_bench: %s\n", dlerror());
    return 1;
  }
  reinterpret_cast<int (*)()>(dlsym(agent, "InitializeInjection"))();
  const auto play =
      reinterpret_cast<decltype(&standin_cupti_line)>(dlsym(cupti, "standin_cupti_line"));
  play("kernel first");
  std::string session;
  for (int wait = 0; session.empty() && wait < 5000; ++wait) {
    usleep(1000);
    for (const auto& view : poolscope::support::ViewSessions(folder)) session = view.path;
  }
  if (session.empty()) return 1;
  poolscope::support::SetRingMode(session, poolscope::RingMode::kDropNewest);
  usleep(300'000);
  FreeAll(session);
  const clockid_t thread = ClockOf("poolscope-cupti");

  std::vector<double> decode, copy;
  for (int burst = -2; burst < kBursts; ++burst) {
    const double before = Seconds(thread);
    play(("burst " + std::to_string(kBurst)).c_str());
    uint64_t recorded = 0;
    for (int wait = 0; recorded < kBurst && wait < 2000; ++wait) {
      usleep(1000);
      recorded += FreeAll(session);
    }
    if (recorded != kBurst) {
      fprintf(stderr, "cupti_bench: %lu of %lu records were recorded\n", recorded, kBurst);
      for (const auto& [cause, events] : poolscope::support::ViewSession(session).losses) {
        fprintf(stderr, "cupti_bench: %lu lost: %s\n", events, cause.c_str());
      }
      return 1;
    }
    if (burst < 0) continue;
    decode.push_back(Seconds(thread) - before);
    copy.push_back(CopySeconds());
  }
  std::filesystem::remove_all(folder);
  const double rate = static_cast<double>(kBurst) / Median(decode) / 1e6;
  printf("cupti_decode\t%.1f\tM records/s\t>= 10\tmemcpy of the records %.1f M records/s\n", rate,
         static_cast<double>(kBurst) / Median(copy) / 1e6);
  return rate >= 10 ? 0 : 1;
}
