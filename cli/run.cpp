#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "advisor/report.h"
#include "cli/collector_flags.h"
#include "cli/commands.h"
#include "cli/group_signals.h"
#include "cli/job_environment.h"
#include "cli/pm_sampling.h"
#include "collector/collector.h"
#include "collector/metrics_server.h"
#include "collector/run_folder.h"
#include "trace/run_directory.h"
#include "trace/session_reader.h"

namespace poolscope {
namespace {

struct Arguments {
  std::string store, pools, metrics, run_dir;
  bool no_report = false;
  int pm_sampling_ms = 0;
  std::vector<std::string> job;
};

template <typename... Args>
void Say(fmt::format_string<Args...> format, Args&&... args) {
  const std::string line = "poolscope: " + fmt::format(format, std::forward<Args>(args)...) + "\n";
  (void)!write(STDERR_FILENO, line.data(), line.size());
}

// --- The collector, in a child of its own: a crash of it is no crash of the job ---

std::atomic<bool> stop_asked{false};
void AskToStop(int) { stop_asked.store(true); }

class CollectorChild {
 public:
  explicit CollectorChild(CollectorOptions options) : options_(std::move(options)) {}

  // Returns when it takes sessions, or says why it cannot.
  Status Start() {
    int ready[2];
    if (pipe2(ready, O_CLOEXEC) != 0) return Error{std::strerror(errno)};
    pid_ = fork();
    if (pid_ < 0) {
      close(ready[0]);
      close(ready[1]);
      return Error{fmt::format("cannot start the collector: {}", std::strerror(errno))};
    }
    if (pid_ == 0) Child(ready);
    close(ready[1]);
    std::string answer;
    char buffer[512];
    ssize_t got;
    while ((got = read(ready[0], buffer, sizeof(buffer))) != 0) {
      if (got < 0 && errno != EINTR) break;
      if (got > 0) answer.append(buffer, static_cast<size_t>(got));
    }
    close(ready[0]);
    if (answer.starts_with("ready")) return {};
    Wait();
    return Error{answer.empty() ? "the collector ended before it began" : answer};
  }

  // Asks it to store what is left and waits for it. False: it could not.
  bool Finish() {
    if (pid_ <= 0) return false;
    kill(pid_, SIGTERM);
    return Wait() == 0;
  }
  pid_t pid() const { return pid_; }
  void Gone() { pid_ = -1; }

 private:
  int Wait() {
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  }

  [[noreturn]] void Child(const int (&ready)[2]) {
    // A group of its own: the terminal's Ctrl-C is for the job. Its parent's end is its own.
    const pid_t parent = getppid();
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    prctl(PR_SET_NAME, "poolscope-coll");
    if (getppid() != parent) _exit(1);
    sigset_t none;
    sigemptyset(&none);
    struct sigaction action = {};
    action.sa_handler = AskToStop;
    sigaction(SIGTERM, &action, nullptr);
    signal(SIGINT, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);  // the store then says that it cannot grow
    signal(SIGTTOU, SIG_IGN);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    close(ready[0]);
    bool told = false;
    CollectorCalls calls;
    calls.ready = [&](const std::string& metrics) {
      (void)!write(ready[1], "ready", 5);
      close(ready[1]);
      told = true;
      if (!metrics.empty()) Say("metrics at {}", metrics);
    };
    calls.say = [](const std::string& line) { Say("{}", line); };
    const Status status = RunCollector(options_, stop_asked, calls);
    if (!status.ok()) {
      const std::string& why = status.error().message;
      if (!told) {
        (void)!write(ready[1], why.data(), why.size());
      } else {
        Say("{}", why);
      }
    }
    _exit(status.ok() ? 0 : 1);
  }

  CollectorOptions options_;
  pid_t pid_ = -1;
};

// --- The job ---

// The job's pid, or -1 with errno of its start.
pid_t StartJob(const std::vector<std::string>& job, const sigset_t& mask) {
  int failed[2];
  if (pipe2(failed, O_CLOEXEC) != 0) return -1;
  const pid_t pid = fork();
  if (pid == 0) {
    sigprocmask(SIG_SETMASK, &mask, nullptr);
    std::vector<char*> argv;
    argv.reserve(job.size() + 1);
    for (const std::string& word : job) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    execvp(argv[0], argv.data());
    const int error = errno;
    (void)!write(failed[1], &error, sizeof(error));
    _exit(127);
  }
  close(failed[1]);
  int error = errno;
  if (pid > 0) {
    error = 0;
    while (read(failed[0], &error, sizeof(error)) < 0 && errno == EINTR) {
    }
    if (error != 0) waitpid(pid, nullptr, 0);
  }
  close(failed[0]);
  errno = error;
  return error == 0 ? pid : -1;
}

// Waits for the job; passes signals on; keeps a collector alive. Returns the job's wait status.
int Supervise(pid_t job, CollectorChild& collector, const sigset_t& signals, GroupSignals& group) {
  int job_status = 0;
  int restarts = 0;
  while (true) {
    siginfo_t info = {};
    const int signal_number = sigwaitinfo(&signals, &info);
    if (signal_number < 0) continue;
    if (signal_number != SIGCHLD) {
      // The terminal, and who else sends to the process group, sent it to the job too.
      const bool to_group = group.HasGroup(signal_number) && getpgid(job) == getpgrp();
      if (info.si_code != SI_KERNEL && !to_group) kill(job, signal_number);
      continue;
    }
    bool ended = false;
    while (true) {
      int status = 0;
      const pid_t pid = waitpid(-1, &status, WNOHANG);
      if (pid <= 0) break;
      if (pid == job) {
        job_status = status;
        ended = true;
      } else if (pid == collector.pid()) {
        collector.Gone();
        if (ended || restarts >= 100) continue;
        Say("the collector ended ({} {}), starting it again",
            WIFSIGNALED(status) ? "signal" : "code",
            WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        if (restarts++ > 0) std::this_thread::sleep_for(std::chrono::milliseconds(200));
        if (auto started = collector.Start(); !started.ok()) Say("{}", started.error().message);
      }
    }
    if (ended) return job_status;
  }
}

// A store named by the time, made here so that no other `poolscope run` takes the same name.
Result<std::filesystem::path> NewStore() {
  char name[64];
  const time_t now = time(nullptr);
  strftime(name, sizeof(name), "poolscope-%Y%m%d-%H%M%S", localtime(&now));
  for (int attempt = 1; attempt < 1000; ++attempt) {
    const std::string path =
        attempt == 1 ? fmt::format("{}.db", name) : fmt::format("{}-{}.db", name, attempt);
    const int file = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (file >= 0) {
      close(file);
      return std::filesystem::path(path);
    }
    if (errno != EEXIST) {
      return Error{fmt::format("cannot make the store {} here: {}; name one with --store", path,
                               std::strerror(errno))};
    }
  }
  return Error{fmt::format("every name from {}.db on is taken; name a store with --store", name)};
}

struct Folder {
  std::string path;
  bool own = false;  // made for this run, to be removed
};

// --run-dir, else what POOLSCOPE_RUN_DIR names, else a private one; so too where another collector
// drains that, such as the one of a `poolscope run` around this. Sets POOLSCOPE_RUN_DIR.
Status ChooseFolder(const std::string& given, Folder& folder) {
  const char* const set = std::getenv("POOLSCOPE_RUN_DIR");
  std::string path = !given.empty() ? given : set == nullptr ? "" : set;
  if (given.empty() && !path.empty() && IsDrained(path)) {
    Say("POOLSCOPE_RUN_DIR is {}, which another collector drains: what this job records goes to "
        "this command's store alone",
        path);
    path.clear();
  }
  folder = {path, path.empty()};
  if (!folder.own) {
    folder.path = std::filesystem::absolute(path);  // the job may go elsewhere
    setenv("POOLSCOPE_RUN_DIR", folder.path.c_str(), 1);
    Reason why;
    const int directory = OpenRunDirectory(&why);  // as the agent will
    if (directory < 0) return Error{why.text};
    close(directory);
    return {};
  }
  std::string made = PrivateRunFolderPrefix(geteuid()) + "XXXXXX";
  if (mkdtemp(made.data()) == nullptr) {
    return Error{
        fmt::format("cannot make a run folder under /dev/shm: {}; give one in tmpfs with --run-dir",
                    std::strerror(errno))};
  }
  folder.path = made;
  setenv("POOLSCOPE_RUN_DIR", made.c_str(), 1);
  return {};
}

// Processes that still record into the folder.
size_t LivingWriters(const std::filesystem::path& folder, const std::vector<uint32_t>& owners) {
  size_t living = 0;
  for (const auto& path : RunFolder::SessionsIn(folder)) {
    const auto session = SessionReader::Open(path, owners);
    if (session.ok() && session->WriterAlive()) ++living;
  }
  return living;
}

// To stderr, which the job's own output does not pass through.
void Conclude(const std::filesystem::path& path, const std::string& run_id, bool print_report) {
  const auto store = Store::Open(path, Store::Mode::kRead);
  if (!store.ok()) return Say("no report: {}", store.error().message);
  if (const auto run = store->FindRun(run_id); !run.ok()) {
    return Say(
        "nothing was recorded: the job made no NVTX call (docs/mapping.md says what can be "
        "seen of a job, and how to mark one), or the agent could not work in it "
        "(POOLSCOPE_AGENT_LOG=1 makes it say why)");
  }
  if (print_report) {
    const auto report = BuildReport(*store, run_id);
    if (report.ok()) {
      std::fputs(ReportAsText(*report).c_str(), stderr);
    } else {
      Say("no report: {}", report.error().message);
    }
  }
  Say("the run is in {}", path.string());
}

int Run(const Arguments& arguments) {
  if (arguments.job.empty()) {
    Say("run needs a command: poolscope run -- CMD...");
    return 2;
  }
  const std::string agent = AgentPath();
  for (const std::string& note : ForeignNotes(agent)) Say("{}", note);
  if (agent.empty() && ForeignValue(LoadingVariables().front(), agent).empty()) {
    Say("the agent lib/libpoolscope_agent.so is not beside this program: install it or set "
        "NVTX_INJECTION64_PATH");
    return 1;
  }

  const Result<std::string> run_id = RunId();
  if (!run_id.ok()) {
    Say("{}", run_id.error().message);
    return 2;
  }
  if (arguments.pm_sampling_ms != 0) {
    setenv(kPmSamplingVariable, std::to_string(arguments.pm_sampling_ms).c_str(), 1);
    if (const auto may = PmSamplingPermission(); !may.ok()) {
      Say("--pm-sampling will be refused: {}", may.error().message);
    }
  }

  CollectorOptions options;
  options.pools = arguments.pools;
  options.metrics_address = arguments.metrics;
  options.version = POOLSCOPE_VERSION;
  options.owners = {static_cast<uint32_t>(geteuid())};
  options.store = arguments.store;
  for (const std::string& word : arguments.job) {
    options.command += (options.command.empty() ? "" : " ") + word;
  }
  bool new_store = true;
  if (options.store.empty()) {
    const auto made = NewStore();
    if (!made.ok()) {
      Say("{}", made.error().message);
      return 1;
    }
    options.store = *made;
  } else {
    std::error_code error;
    new_store = !std::filesystem::exists(options.store, error) && !error;
  }
  const auto remove_new_store = [&] {
    std::error_code error;
    if (new_store) std::filesystem::remove(options.store, error);
  };
  // Signals are waited for, so that none is missed between two system calls.
  sigset_t signals;
  sigset_t before;
  sigemptyset(&signals);
  for (const int number : {SIGCHLD, SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM,
                           SIGVTALRM, SIGPROF, SIGXCPU, SIGIO, SIGPWR}) {
    sigaddset(&signals, number);
  }
  for (int number = SIGRTMIN; number <= SIGRTMAX; ++number) sigaddset(&signals, number);
  sigprocmask(SIG_BLOCK, &signals, &before);

  SweepPrivateRunFolders();
  Folder folder;
  std::optional<CollectorChild> collector;
  const auto remove_folder = [&] {
    std::error_code error;
    if (folder.own && !folder.path.empty()) std::filesystem::remove_all(folder.path, error);
  };
  Status started = ChooseFolder(arguments.run_dir, folder);
  while (started.ok()) {
    options.run_folders = {folder.path};
    started = collector.emplace(options).Start();
    if (started.ok() || folder.own || !arguments.run_dir.empty() || !IsDrained(folder.path)) break;
    started = ChooseFolder("", folder);  // somebody was faster
  }
  if (!started.ok()) {
    Say("{}", started.error().message);
    remove_folder();
    if (arguments.store.empty()) remove_new_store();
    return collector || folder.own ? 1 : 2;  // 2: what was named is no run folder
  }
  GroupSignals group;
  if (auto watched = group.Start(signals); !watched.ok()) Say("{}", watched.error().message);
  setenv("POOLSCOPE_RUN_ID", run_id->c_str(), 1);
  if (!agent.empty()) SetLoadingVariables(agent);
  const pid_t job = StartJob(arguments.job, before);
  if (job < 0) {
    const int error = errno;
    Say("cannot run {}: {}", arguments.job[0], std::strerror(error));
    collector->Finish();
    remove_folder();
    remove_new_store();
    return error == ENOENT ? 127 : 126;
  }
  const int status = Supervise(job, *collector, signals, group);
  bool stored = collector->pid() > 0 && collector->Finish();
  if (!stored) {  // once more, from what the store holds
    stored = collector->Start().ok() && collector->Finish();
  }
  const size_t living = folder.own ? LivingWriters(folder.path, options.owners) : 0;
  if (stored && living == 0) {
    remove_folder();
  } else if (stored) {
    Say("{} of the job's processes went on when it ended; poolscope collect --run-dir {} --store "
        "{} takes what they record from now on",
        living, folder.path, options.store.string());
  } else {
    Say("not all events could be stored; what is left is in {}: poolscope collect --run-dir {} "
        "--store {} takes it up",
        folder.path, folder.path, options.store.string());
  }
  Conclude(options.store, *run_id, !arguments.no_report);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

void AddRunCommand(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      app.add_subcommand("run", "Run a job under the agent, store its trace and print the report");
  command->add_option("--store", arguments->store, "store to write (default poolscope-<time>.db)")
      ->type_name("FILE");
  AddCollectorFlags(*command, arguments->pools, arguments->metrics);
  command
      ->add_option(
          "--run-dir", arguments->run_dir,
          "folder of the session files, in tmpfs (default $POOLSCOPE_RUN_DIR, else a private one)")
      ->type_name("DIR");
  AddPmSamplingFlag(*command, arguments->pm_sampling_ms);
  command->add_flag("--no-report", arguments->no_report, "print no report at the end");
  command->add_option("CMD", arguments->job, "the job, after --")->type_name("");
  command->callback([arguments, &exit_code] { exit_code = Run(*arguments); });
}

}  // namespace poolscope
