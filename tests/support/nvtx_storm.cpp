// nvtx_storm --threads T --ranges N [--rate R] [--burst B] [--wait-drained] [--names K]
//
// Makes N push/pop ranges, spread over T threads, and prints "made N". Names come by content, K of
// them (default 4), and one buffer per thread is rewritten all the time.
//   --rate R         at most R ranges a second, over all threads
//   --burst B        a pause of 1 ms after every B ranges of a thread
//   --wait-drained   instead of that pause, the thread waits until a collector has committed all
//   that
//                    it recorded (at most 10 s)

#include <dirent.h>
#include <fcntl.h>
#include <poolscope/annotate.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "trace/session_format.h"

namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  uint64_t threads = 1;
  uint64_t ranges = 1000;
  uint64_t rate = 0;
  uint64_t burst = 0;
  uint64_t names = 4;
  bool wait_drained = false;
};

// This process's session file, mapped; null where there is none.
const uint8_t* MapOwnSession() {
  const char* given = getenv("POOLSCOPE_RUN_DIR");
  const std::string directory =
      given != nullptr ? given : "/dev/shm/poolscope-" + std::to_string(geteuid());
  DIR* listing = opendir(directory.c_str());
  if (listing == nullptr) return nullptr;
  const uint8_t* found = nullptr;
  while (const dirent* entry = readdir(listing)) {
    const std::string path = directory + "/" + entry->d_name;
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat info = {};
    if (file >= 0 && fstat(file, &info) == 0 && info.st_size > 4096) {
      void* mapped = mmap(nullptr, size_t{1} << 32, PROT_READ, MAP_SHARED, file, 0);
      if (mapped != MAP_FAILED) {
        const auto* header = static_cast<const poolscope::SessionHeader*>(mapped);
        if (header->pid == static_cast<uint32_t>(getpid()) && header->ended.load() == 0) {
          found = static_cast<const uint8_t*>(mapped);
        }
      }
    }
    if (file >= 0) close(file);
  }
  closedir(listing);
  return found;
}

// Waits for one thread's own events alone: the others go on.
void WaitDrained(uint32_t tid) {
  static const uint8_t* const session = MapOwnSession();
  if (session == nullptr) return;
  const auto* header = reinterpret_cast<const poolscope::SessionHeader*>(session);
  const auto* slots = reinterpret_cast<const poolscope::ThreadSlot*>(session + poolscope::kSlotsAt);
  for (const auto until = Clock::now() + std::chrono::seconds(10); Clock::now() < until;) {
    bool drained = true;
    for (uint32_t i = 0; i < header->slots_used.load(); ++i) {
      if (slots[i].tid == tid && slots[i].read_position.load() != slots[i].write_position.load()) {
        drained = false;
      }
    }
    if (drained) return;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

void Storm(const Options& options, uint64_t ranges, std::atomic<uint64_t>* made) {
  const auto tid = static_cast<uint32_t>(syscall(SYS_gettid));
  const auto start = Clock::now();
  const double rate = static_cast<double>(options.rate) / static_cast<double>(options.threads);
  char buffer[32];
  for (uint64_t i = 0; i < ranges; ++i) {
    snprintf(buffer, sizeof(buffer), "storm %llu",
             static_cast<unsigned long long>(i % options.names));
    nvtxRangePushA(buffer);
    nvtxRangePop();
    if (options.burst != 0 && (i + 1) % options.burst == 0) {
      if (options.wait_drained) {
        WaitDrained(tid);
      } else {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
    if (options.rate != 0 && i % 64 == 63) {
      std::this_thread::sleep_until(
          start + std::chrono::duration_cast<Clock::duration>(
                      std::chrono::duration<double>(static_cast<double>(i + 1) / rate)));
    }
  }
  *made += ranges;
}

}  // namespace

// NVTX's headers read the table of functions, and whether it is filled, without synchronisation
// while another thread's first call fills it.
extern "C" const char* __tsan_default_suppressions() { return "race_top:^nvtx\n"; }

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const auto value = [&] { return i + 1 < argc ? strtoull(argv[++i], nullptr, 10) : 0; };
    if (flag == "--threads") {
      options.threads = value();
    } else if (flag == "--ranges") {
      options.ranges = value();
    } else if (flag == "--rate") {
      options.rate = value();
    } else if (flag == "--burst") {
      options.burst = value();
    } else if (flag == "--names") {
      options.names = value();
    } else if (flag == "--wait-drained") {
      options.wait_drained = true;
    } else {
      fprintf(stderr, "nvtx_storm: unknown flag %s\n", flag.c_str());
      return 2;
    }
  }
  if (options.threads == 0 || options.names == 0) return 2;
  std::atomic<uint64_t> made{0};
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < options.threads; ++i) {
    const uint64_t share =
        options.ranges / options.threads + (i < options.ranges % options.threads ? 1 : 0);
    threads.emplace_back(Storm, options, share, &made);
  }
  for (std::thread& thread : threads) thread.join();
  printf("made %llu\n", static_cast<unsigned long long>(made.load()));
  return 0;
}
