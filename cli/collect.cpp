#include <fmt/format.h>
#include <pwd.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "cli/collector_flags.h"
#include "cli/commands.h"
#include "collector/collector.h"
#include "collector/metrics_server.h"

namespace poolscope {
namespace {

std::atomic<bool> stop_asked{false};

void AskToStop(int) { stop_asked.store(true); }

struct Arguments {
  std::string store, run_dir, pools, metrics;
  std::vector<std::string> users;
};

int Collect(const Arguments& arguments) {
  CollectorOptions options;
  options.store = arguments.store;
  options.pools = arguments.pools;
  options.metrics_address = arguments.metrics;
  options.version = POOLSCOPE_VERSION;
  options.owners = {static_cast<uint32_t>(geteuid())};
  for (const std::string& name : arguments.users) {
    if (geteuid() != 0) {
      fmt::print(stderr, "poolscope collect: --user needs root: others' sessions are private\n");
      return 2;
    }
    const passwd* user = getpwnam(name.c_str());
    if (user == nullptr) {
      fmt::print(stderr, "poolscope collect: no user '{}' on this machine\n", name);
      return 2;
    }
    options.owners.push_back(user->pw_uid);
  }
  if (!arguments.run_dir.empty()) {
    options.run_folders = {arguments.run_dir};
  } else {
    for (const uint32_t owner : options.owners) {
      options.run_folders.push_back(DefaultRunFolder(owner));
    }
    const char* set = std::getenv("POOLSCOPE_RUN_DIR");  // where this user's jobs put theirs
    if (set != nullptr && *set != 0) options.run_folders.front() = set;
  }

  struct sigaction action = {};
  action.sa_handler = AskToStop;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);  // the store then says that it cannot grow

  const bool terminal = isatty(STDERR_FILENO) == 1;
  bool progress = false;
  const auto clear = [&] {
    if (std::exchange(progress, false)) fmt::print(stderr, "\r\033[K");
  };
  CollectorCalls calls;
  calls.say = [&](const std::string& line) {
    clear();
    fmt::print(stderr, "poolscope collect: {}\n", line);
  };
  calls.ready = [&](const std::string& metrics) {
    std::string folders;
    for (const auto& folder : options.run_folders) folders += " " + folder.string();
    fmt::print("collecting from{} to {}{}\n", folders, options.store.string(),
               metrics.empty() ? "" : ", metrics at " + metrics);
    std::fflush(stdout);
  };
  if (terminal) {
    calls.progress = [&](const CollectorProgress& now) {
      progress = true;
      fmt::print(stderr, "\r\033[K{} sessions, {} events, {} lost", now.sessions, now.events,
                 now.lost);
      std::fflush(stderr);
    };
  }
  const Status status = RunCollector(options, stop_asked, calls);
  clear();
  if (!status.ok()) {
    fmt::print(stderr, "poolscope collect: {}\n", status.error().message);
    return 1;
  }
  return 0;
}

}  // namespace

void AddCollectCommand(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand(
      "collect", "Collect from every job of this user that runs under the agent, until stopped");
  command->add_option("--store", arguments->store, "store to write, made when new")
      ->required()
      ->type_name("FILE");
  command
      ->add_option(
          "--run-dir", arguments->run_dir,
          "folder of the session files (default $POOLSCOPE_RUN_DIR, else /dev/shm/poolscope-<uid>)")
      ->type_name("DIR");
  AddCollectorFlags(*command, arguments->pools, arguments->metrics);
  command->add_option("--user", arguments->users, "as root: also read this user's sessions")
      ->type_name("NAME");
  command->add_flag_callback(
      "--print-metrics-doc",
      [] {
        std::fputs(MetricsDocument().c_str(), stdout);
        throw CLI::Success();
      },
      "print docs/metrics.md and exit");
  command->callback([arguments, &exit_code] { exit_code = Collect(*arguments); });
}

}  // namespace poolscope
