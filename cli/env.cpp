#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/job_environment.h"
#include "cli/pm_sampling.h"
#include "trace/result.h"

namespace poolscope {
namespace {

struct Setting {
  std::string name, value;
};

struct Settings {
  std::string agent;
  std::vector<Setting> variables;  // what the job's processes need in their environment
};

// A word of a shell's command line.
std::string Quoted(const std::string& word) {
  constexpr const char* kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

Result<std::string> ForShell(const Settings& settings) {
  std::string text;
  for (const auto& [name, value] : settings.variables) {
    text += fmt::format("export {}={}\n", name, Quoted(value));
  }
  return text;
}

// The library at the same place in the container, and the host's shared memory, so that a collector
// on the host finds the sessions.
Result<std::string> ForDocker(const Settings& settings) {
  if (settings.agent.find(':') != std::string::npos) {
    return Error{
        fmt::format("docker takes no volume with a colon in it: {}; install Poolscope at "
                    "a path without one",
                    settings.agent)};
  }
  std::string text =
      "--ipc=host " + Quoted(fmt::format("--volume={}:{}:ro", settings.agent, settings.agent));
  for (const auto& [name, value] : settings.variables) {
    text += " " + Quoted(fmt::format("--env={}={}", name, value));
  }
  return text + "\n";
}

Result<std::string> ForSlurm(const Settings& settings) {
  std::string text = "--export=ALL";
  for (const auto& [name, value] : settings.variables) {
    if (value.find(',') != std::string::npos) {
      return Error{
          fmt::format("srun --export takes no value with a comma in it: {}={}; use "
                      "--format sh in the job's script",
                      name, value)};
    }
    text += fmt::format(",{}={}", name, value);
  }
  return Quoted(text) + "\n";
}

Result<std::string> ForMpirun(const Settings& settings) {
  std::string text;
  for (const auto& [name, value] : settings.variables) {
    text += fmt::format("{}-x {}", text.empty() ? "" : " ", Quoted(name + "=" + value));
  }
  return text + "\n";
}

Result<std::string> ForRay(const Settings& settings) {
  nlohmann::ordered_json variables;
  for (const auto& [name, value] : settings.variables) variables[name] = value;
  return nlohmann::ordered_json{{"env_vars", variables}}.dump(2) + "\n";
}

Result<std::string> ForKubernetes(const Settings& settings) {
  const auto text = [](const std::string& value) { return nlohmann::json(value).dump(); };
  const std::string folder = std::filesystem::path(settings.agent).parent_path();
  std::string yaml =
      "# For the pod's template; `job` is the container that trains. The agent keeps its sessions\n"
      "# in /dev/shm, of which a container has 64 MB: hence the volume in memory, which counts\n"
      "# towards the pod's memory limit and of which the agent takes a quarter at most. A second\n"
      "# container of the pod, with the same user and the same volume at /dev/shm, runs\n"
      "# poolscope collect.\n"
      "spec:\n"
      "  containers:\n"
      "    - name: job\n"
      "      env:\n";
  for (const auto& [name, value] : settings.variables) {
    yaml += fmt::format("        - name: {}\n          value: {}\n", name, text(value));
  }
  yaml += fmt::format(
      "      volumeMounts:\n"
      "        - name: poolscope-agent\n"
      "          mountPath: {0}\n"
      "          readOnly: true\n"
      "        - name: poolscope-sessions\n"
      "          mountPath: /dev/shm\n"
      "  volumes:\n"
      "    - name: poolscope-agent\n"
      "      hostPath:\n"
      "        path: {0}\n"
      "        type: Directory\n"
      "    - name: poolscope-sessions\n"
      "      emptyDir:\n"
      "        medium: Memory\n"
      "        sizeLimit: 1Gi\n",
      text(folder));
  return yaml;
}

struct Format {
  Result<std::string> (*print)(const Settings&);
  bool keeps_environment;  // the job starts from this environment, with what the user set in it
};

const std::map<std::string, Format> kFormats = {
    {"sh", {ForShell, true}},    {"docker", {ForDocker, false}},
    {"slurm", {ForSlurm, true}}, {"mpirun", {ForMpirun, true}},
    {"ray", {ForRay, false}},    {"kubernetes", {ForKubernetes, false}},
};

struct Arguments {
  std::string format = "sh", run_dir;
  int pm_sampling_ms = 0;
};

int Env(const Arguments& arguments) {
  Settings settings;
  settings.agent = AgentPath();
  if (settings.agent.empty()) {
    fmt::print(stderr,
               "poolscope env: the agent lib/libpoolscope_agent.so is not beside this program: "
               "install it\n");
    return 1;
  }
  const Format& format = kFormats.at(arguments.format);
  if (format.keeps_environment) {
    for (const std::string& note : ForeignNotes(settings.agent)) {
      fmt::print(stderr, "poolscope env: {}\n", note);
    }
  }
  for (const LoadingVariable& variable : LoadingVariables()) {
    if (format.keeps_environment && !ForeignValue(variable, settings.agent).empty()) continue;
    settings.variables.push_back({variable.name, settings.agent});
  }
  settings.variables.push_back({"POOLSCOPE_RUN_ID", NewRunId()});
  if (!arguments.run_dir.empty()) {
    settings.variables.push_back({"POOLSCOPE_RUN_DIR", arguments.run_dir});
  }
  if (arguments.pm_sampling_ms != 0) {
    settings.variables.push_back({kPmSamplingVariable, std::to_string(arguments.pm_sampling_ms)});
  }
  const auto text = format.print(settings);
  if (!text.ok()) {
    fmt::print(stderr, "poolscope env: {}\n", text.error().message);
    return 1;
  }
  std::fputs(text->c_str(), stdout);
  return 0;
}

}  // namespace

void AddEnvCommand(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand(
      "env", "Print what makes a job load the agent, for a shell, a container or a cluster");
  std::vector<std::string> names;
  for (const auto& [name, format] : kFormats) names.push_back(name);
  command
      ->add_option("--format", arguments->format,
                   "sh, docker, slurm, mpirun, ray or kubernetes (docs/attach.md; default sh)")
      ->type_name("FORMAT")
      ->check(CLI::IsMember(names));
  command
      ->add_option("--run-dir", arguments->run_dir,
                   "folder of the session files, in tmpfs (default /dev/shm/poolscope-<uid>)")
      ->type_name("DIR")
      ->check([](const std::string& folder) {
        return folder.starts_with('/') ? std::string() : folder + " is no absolute path";
      });
  AddPmSamplingFlag(*command, arguments->pm_sampling_ms);
  command->callback([arguments, &exit_code] { exit_code = Env(*arguments); });
}

}  // namespace poolscope
