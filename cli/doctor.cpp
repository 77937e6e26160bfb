#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poolscope/annotate.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/job_environment.h"
#include "cli/pm_sampling.h"
#include "cli/session_list.h"
#include "collector/nvml.h"
#include "trace/clock.h"
#include "trace/run_directory.h"
#include "trace/session_format.h"

namespace poolscope {
namespace {

namespace fs = std::filesystem;

enum class Verdict { kWorks, kMissing, kBroken };  // kMissing: optional, and not here

struct Check {
  std::string what;
  Verdict verdict;
  std::string why;
};

fs::path OwnFolder() { return fs::read_symlink("/proc/self/exe").parent_path(); }

// Runs this program again as a job under the agent and looks for what the agent recorded.
Check CheckAgent() {
  const std::string what = "agent records NVTX";
  const fs::path agent = OwnFolder().parent_path() / "lib" / "libpoolscope_agent.so";
  if (!fs::exists(agent)) {
    return {what, Verdict::kBroken,
            fmt::format("no {}: build or install the agent", agent.string())};
  }
  char folder[] = "/dev/shm/poolscope-doctor-XXXXXX";
  if (mkdtemp(folder) == nullptr) {
    return {what, Verdict::kBroken, "cannot make a folder in /dev/shm: check its permissions"};
  }
  const std::string self = fs::read_symlink("/proc/self/exe").string();
  const std::vector<std::string> words = {self, "doctor", "--probe"};
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  std::vector<std::string> variables = {
      "NVTX_INJECTION64_PATH=" + agent.string(), std::string("POOLSCOPE_RUN_DIR=") + folder,
      "POOLSCOPE_RUN_ID=00000000000000000000000000000001", "POOLSCOPE_AGENT_LOG=1"};
  std::vector<char*> environment;
  environment.reserve(variables.size() + 1);
  for (std::string& variable : variables) environment.push_back(variable.data());
  environment.push_back(nullptr);

  // The probe leaves its session behind with _exit, as a job that is killed does.
  pid_t pid = 0;
  int status = 0;
  if (posix_spawn(&pid, self.c_str(), nullptr, nullptr, argv.data(), environment.data()) != 0 ||
      waitpid(pid, &status, 0) != pid) {
    fs::remove_all(folder);
    return {what, Verdict::kBroken, "could not start a probe process"};
  }
  Check result{what, Verdict::kBroken,
               "the agent made no session: see its message above, if there is one"};
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != kSessionSuffix) continue;
    const int fd = open(entry.path().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    uint64_t written = 0;
    const off_t at = static_cast<off_t>(kSlotsAt + offsetof(ThreadSlot, write_position));
    if (fd >= 0 && pread(fd, &written, sizeof(written), at) == sizeof(written) && written > 0) {
      result = {what, Verdict::kWorks, fmt::format("{} bytes of a probe's events", written)};
    }
    if (fd >= 0) close(fd);
  }
  fs::remove_all(folder);
  return result;
}

Check CheckClock() {
  const bool tsc = TrustedClock() == ClockKind::kTsc;
  return {"clock", Verdict::kWorks,
          tsc ? "time-stamp counter, trusted by the kernel"
              : "CLOCK_MONOTONIC (the kernel does not trust the time-stamp counter): recording "
                "costs some 30 ns more an event"};
}

Check CheckSharedMemory() {
  struct statvfs info {};
  if (statvfs("/dev/shm", &info) != 0) {
    return {"shared memory", Verdict::kBroken, "no /dev/shm: mount a tmpfs there"};
  }
  const double free_mb = static_cast<double>(info.f_bavail) * info.f_frsize / 1e6;
  if (free_mb < 16) {
    return {"shared memory", Verdict::kBroken,
            fmt::format("{:.0f} MB free in /dev/shm, 16 are needed: docker run --shm-size=1g",
                        free_mb)};
  }
  return {
      "shared memory", Verdict::kWorks,
      fmt::format("{:.0f} MB free in /dev/shm; a job's session takes a quarter at most", free_mb)};
}

// What this environment would do to a job that is started in it.
std::vector<Check> CheckEnvironment() {
  std::vector<Check> checks;
  for (std::string& note : ForeignNotes(AgentPath())) {
    checks.push_back({"environment", Verdict::kMissing, std::move(note)});
  }
  const char* folder = std::getenv("POOLSCOPE_RUN_DIR");
  if (folder == nullptr || *folder == 0) return checks;
  Reason why;
  const int directory = OpenRunDirectory(&why);
  if (directory < 0) {
    checks.push_back({"environment", Verdict::kBroken, why.text});
  } else {
    close(directory);
  }
  return checks;
}

Check CheckFileSize() {
  struct rlimit limit {};
  getrlimit(RLIMIT_FSIZE, &limit);
  if (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < kRingsAt + kMinRingBytes) {
    return {"file size limit", Verdict::kBroken,
            fmt::format("ulimit -f allows {} bytes, a session needs {}", limit.rlim_cur,
                        kRingsAt + kMinRingBytes)};
  }
  return {"file size limit", Verdict::kWorks, "none that matters"};
}

Check CheckLibrary(const char* what, const char* name, const char* without) {
  void* library = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return {what, Verdict::kMissing, fmt::format("no {}: {}", name, without)};
  return {what, Verdict::kWorks, fmt::format("{} can be loaded", name)};
}

Check CheckNvml() {
  const auto nvml = Nvml::Load();
  if (!nvml.ok()) return {"NVML", Verdict::kMissing, nvml.error().message};
  return {"NVML", Verdict::kWorks, fmt::format("{} devices", (*nvml)->Read().size())};
}

Check CheckPmSampling() {
  const auto may = PmSamplingPermission();
  if (!may.ok()) return {"device counters", Verdict::kMissing, may.error().message};
  return {"device counters", Verdict::kWorks,
          fmt::format("{}: poolscope run --pm-sampling 10", *may)};
}

Check CheckDisplay() {
  const char* display = std::getenv("DISPLAY");
  const char* wayland = std::getenv("WAYLAND_DISPLAY");
  if ((display == nullptr || *display == 0) && (wayland == nullptr || *wayland == 0)) {
    return {"window for the viewer", Verdict::kMissing,
            "no DISPLAY: poolscope view --screenshot F works without one"};
  }
  return {"window for the viewer", Verdict::kWorks,
          fmt::format("display {}", display != nullptr && *display ? display : wayland)};
}

int RunDoctor() {
  std::vector<Check> checks = {CheckAgent(), CheckClock(), CheckSharedMemory(), CheckFileSize()};
  checks.push_back(CheckLibrary("CUDA driver", "libcuda.so.1", "no GPU work can be seen here"));
  checks.push_back(CheckNvml());
  checks.push_back(CheckPmSampling());
  checks.push_back(CheckLibrary("off-screen drawing", "libEGL.so.1",
                                "no --screenshot: apt-get install libegl1"));
  checks.push_back(CheckDisplay());
  for (Check& check : CheckEnvironment()) checks.push_back(std::move(check));
  int exit_code = 0;
  for (const Check& check : checks) {
    const char* word = check.verdict == Verdict::kWorks     ? "works"
                       : check.verdict == Verdict::kMissing ? "not here"
                                                            : "BROKEN";
    fmt::print("{:<22} {:<9} {}\n", check.what, word, check.why);
    if (check.verdict == Verdict::kBroken) exit_code = 1;
  }
  for (const fs::path& folder : RunFolders()) {
    const std::string sessions = SessionList(folder);
    if (!sessions.empty()) fmt::print("\nprocesses in {}\n{}", folder.string(), sessions);
  }
  return exit_code;
}

// The job that CheckAgent watches.
[[noreturn]] void Probe() {
  const nvtxStringHandle_t name = poolscope_name("doctor probe");
  const poolscope_work work{};
  poolscope_begin(POOLSCOPE_WORK, name);
  poolscope_end_work(&work);
  _exit(0);
}

}  // namespace

void AddDoctorCommand(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("doctor", "What works here, what does not, and why");
  auto* probe = command->add_flag("--probe")->group("");
  command->callback([probe, &exit_code] {
    if (probe->count() > 0) Probe();
    exit_code = RunDoctor();
  });
}

}  // namespace poolscope
