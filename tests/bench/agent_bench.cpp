// What an NVTX range, a counter sample and an annotation cost the job. NVTX picks its tool once per
// process, so the bench runs itself for each part; the parts alternate, medians are printed.

#include <poolscope/annotate.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/nvtx_session_view.h"
#include "trace/session_format.h"

namespace {

using Clock = std::chrono::steady_clock;
using poolscope::support::FreeAll;
using poolscope::support::SetRingMode;
using poolscope::support::ViewSessions;

// A burst fits a ring of 1 MiB: ranges take 40 bytes, samples 32.
constexpr int kBurst = 19'998;
constexpr int kBursts = 150;
constexpr int kRounds = 5;

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// Keeps the compiler from taking what cannot change out of a loop.
inline void KeepTheCall() { asm volatile("" ::: "memory"); }

// ns per call of `body`, which makes kBurst calls; the median over bursts, `drain` between them.
template <typename Body, typename Drain>
double Measure(Body body, Drain drain) {
  std::vector<double> costs;
  for (int burst = -5; burst < kBursts; ++burst) {
    const auto start = Clock::now();
    body();
    const std::chrono::duration<double, std::nano> took = Clock::now() - start;
    if (burst >= 0) costs.push_back(took.count() / kBurst);
    drain();
  }
  return Median(costs);
}

// This process's session, taken over as a collector does.
class OwnSession {
 public:
  OwnSession() {
    nvtxMarkA("start");
    for (const auto& view : ViewSessions(getenv("POOLSCOPE_RUN_DIR"))) path_ = view.path;
    if (path_.empty()) exit(3);
    SetRingMode(path_, poolscope::RingMode::kDropNewest);
    FreeAll(path_);
  }
  void Drain(uint64_t made) {
    const uint64_t recorded = FreeAll(path_);
    if (recorded == made) return;
    fprintf(stderr, "agent_bench: %llu of %llu events were recorded\n",
            static_cast<unsigned long long>(recorded), static_cast<unsigned long long>(made));
    exit(3);
  }
  void Free() const { FreeAll(path_); }
  void ExpectNothingLost() const {
    const uint64_t lost = poolscope::support::ViewSession(path_).Lost();
    if (lost == 0) return;
    fprintf(stderr, "agent_bench: %llu events lost: the figure would be of dropping\n",
            static_cast<unsigned long long>(lost));
    exit(3);
  }

 private:
  std::string path_;
};

// Six ranges a turn: five texts that stay and one buffer, the thread's own, that is rewritten each
// time.
void Ranges() {
  static const char* const names[] = {"forward", "backward", "all_reduce gradients",
                                      "optimizer.step", "embedding lookup"};
  alignas(64) char buffer[64] = "micro-batch 0";
  for (int i = 0; i < kBurst / 6; ++i) {
    for (const char* name : names) {
      nvtxRangePushA(name);
      nvtxRangePop();
    }
    buffer[12] = static_cast<char>('0' + (i & 7));
    nvtxRangePushA(buffer);
    nvtxRangePop();
  }
}

double Recorded() {
  OwnSession session;
  const double cost = Measure(Ranges, [&] { session.Drain(kBurst); });
  session.ExpectNothingLost();
  return cost;
}

double Floor() {
  return Measure(Ranges, [] {});
}

double ThreadSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// ns of processor time per range, of threads that record at the same time: waiting for each other's
// cache lines is part of it, waiting for a processor is not.
double RecordedBy(int count) {
  OwnSession session;
  std::mutex draining;
  std::atomic<int> ready{0};
  std::vector<std::vector<double>> costs(static_cast<size_t>(count));
  std::vector<std::thread> threads;
  for (auto& own : costs) {
    threads.emplace_back([&] {
      nvtxMarkA("attached");
      for (++ready; ready.load() < count;) std::this_thread::yield();
      for (int burst = -5; burst < kBursts; ++burst) {
        const double start = ThreadSeconds();
        Ranges();
        if (burst >= 0) own.push_back((ThreadSeconds() - start) * 1e9 / kBurst);
        const std::lock_guard lock(draining);
        session.Free();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  session.ExpectNothingLost();
  double sum = 0;
  for (auto& own : costs) sum += Median(own);
  return sum / count;
}

double RecordedByOne() { return RecordedBy(1); }
double RecordedByTwo() { return RecordedBy(2); }

double Sampled() {
  OwnSession session;
  const uint64_t counter = poolscope_counter("bench.depth");
  const double cost = Measure(
      [counter] {
        for (int i = 0; i < kBurst; ++i) poolscope_sample(counter, i);
      },
      [&] { session.Drain(kBurst); });
  session.ExpectNothingLost();
  return cost;
}

double AnnotateOff() {
  const nvtxStringHandle_t name = poolscope_name("forward");
  poolscope_work work = {0, 0, 0, POOLSCOPE_PER_MICRO_BATCH, POOLSCOPE_NO_VALUE};
  return Measure(
      [&] {
        for (int i = 0; i < kBurst; ++i) {
          KeepTheCall();
          work.step = static_cast<uint64_t>(i);
          poolscope_begin(POOLSCOPE_WORK, name);
          poolscope_end_work(&work);
        }
      },
      [] {});
}

double NvtxOff() {
  const nvtxDomainHandle_t domain = nvtxDomainCreateA("bench");
  nvtxEventAttributes_t attributes = {};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  attributes.message.registered = nvtxDomainRegisterStringA(domain, "forward");
  return Measure(
      [&] {
        for (int i = 0; i < kBurst; ++i) {
          KeepTheCall();
          attributes.category = static_cast<uint32_t>(i);
          nvtxDomainRangePushEx(domain, &attributes);
          nvtxDomainRangePop(domain);
        }
      },
      [] {});
}

const std::map<std::string, double (*)()> kParts = {
    {"recorded", Recorded}, {"by_one", RecordedByOne}, {"by_two", RecordedByTwo},
    {"floor", Floor},       {"sampled", Sampled},      {"annotate_off", AnnotateOff},
    {"nvtx_off", NvtxOff}};

std::filesystem::path Here() { return std::filesystem::read_symlink("/proc/self/exe"); }

// Runs one part in a process of its own, under the tool (empty: none).
double RunPart(const std::string& part, const std::filesystem::path& tool,
               const std::string& run_directory) {
  if (tool.empty()) {
    unsetenv("NVTX_INJECTION64_PATH");
  } else {
    setenv("NVTX_INJECTION64_PATH", tool.c_str(), 1);
  }
  setenv("POOLSCOPE_RUN_DIR", run_directory.c_str(), 1);
  setenv("POOLSCOPE_AGENT_LOG", "1", 1);
  const std::string command = Here().string() + " --part " + part;
  FILE* output = popen(command.c_str(), "r");
  double cost = 0;
  const bool read = output != nullptr && fscanf(output, "%lf", &cost) == 1;
  if (output == nullptr || pclose(output) != 0 || !read) {
    fprintf(stderr, "agent_bench: part %s failed\n", part.c_str());
    exit(1);
  }
  std::filesystem::remove_all(run_directory);
  return cost;
}

bool Report(const char* figure, double value, const char* unit, double bar,
            const std::string& reference) {
  printf("%s\t%.2f\t%s\t<= %g\t%s\n", figure, value, unit, bar, reference.c_str());
  return value <= bar;
}

std::string Text(const char* name, double value) {
  char text[64];
  snprintf(text, sizeof(text), "%s %.1f ns", name, value);
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--part") {
    const auto part = kParts.find(argv[2]);
    if (part == kParts.end()) return 2;
    printf("%.3f\n", part->second());
    return 0;
  }
  const std::filesystem::path build = Here().parent_path().parent_path();
  const std::filesystem::path agent = build / "lib" / "libpoolscope_agent.so";
  const std::filesystem::path empty = build / "bench" / "libempty_injection.so";
  const std::string run_directory = "/dev/shm/poolscope-bench-" + std::to_string(getpid());
  std::map<std::string, std::vector<double>> costs;
  for (int round = 0; round < kRounds; ++round) {
    costs["floor"].push_back(RunPart("floor", empty, run_directory));
    costs["recorded"].push_back(RunPart("recorded", agent, run_directory));
    costs["by_one"].push_back(RunPart("by_one", agent, run_directory));
    costs["by_two"].push_back(RunPart("by_two", agent, run_directory));
    costs["sampled"].push_back(RunPart("sampled", agent, run_directory));
    costs["annotate_off"].push_back(RunPart("annotate_off", "", run_directory));
    costs["nvtx_off"].push_back(RunPart("nvtx_off", "", run_directory));
  }
  const double floor = Median(costs["floor"]);
  const double recorded = Median(costs["recorded"]);
  const double bare = Median(costs["nvtx_off"]);
  const double annotated = Median(costs["annotate_off"]);
  bool good = Report("nvtx_push_pop_recorded", recorded, "ns", 45, Text("floor", floor));
  good &= Report("nvtx_push_pop_over_floor", recorded / floor, "ratio", 1.5, Text("floor", floor));
  const double one = Median(costs["by_one"]);
  const double two = Median(costs["by_two"]);
  good &= Report("nvtx_push_pop_two_threads_over_one", two / one, "ratio", 1.1,
                 Text("one thread", one) + ", " + Text("each of two", two));
  good &= Report("annotate_off_over_nvtx_off", annotated / bare, "ratio", 1.2,
                 Text("bare NVTX", bare) + ", " + Text("annotate", annotated));
  good &=
      Report("counter_sample_recorded", Median(costs["sampled"]), "ns", 40, Text("floor", floor));
  return good ? 0 : 1;
}
