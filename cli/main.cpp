#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>

#include "cli/commands.h"

namespace {

// CLI11's message, folded to the one line that every error gets.
std::string OneLine(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  for (char& c : text) {
    if (c == '\n') c = ' ';
  }
  return text;
}

// The message, or what is more likely wrong: in `run` an unknown option makes CLI11 name a word of
// the job, and a job without `--` before it has options of its own.
std::string Explain(const CLI::App& command, int argc, char** argv, const CLI::ParseError& error) {
  std::string message = OneLine(error.what());
  if (command.get_name() != "run" || message.find("not expected") == std::string::npos) {
    return message;
  }
  char** const separator = std::find(argv, argv + argc, std::string_view("--"));
  for (char** word = argv + 2; word < separator; ++word) {
    const std::string option(*word, std::strcspn(*word, "="));
    if (!option.starts_with("--") || command.get_option_no_throw(option) != nullptr) continue;
    return fmt::format("run has no option {}{}", option,
                       separator == argv + argc ? "; the job goes after --" : "");
  }
  return message;
}

void PrintDoc(const CLI::App& command, const std::string& before) {
  const std::string name = before + " " + command.get_name();
  fmt::print("\n## {}\n\n```\n{}```\n", name, command.help(before));
  for (const CLI::App* part : command.get_subcommands({})) PrintDoc(*part, name);
}

int RunProgram(int argc, char** argv) {
  CLI::App app{"Poolscope: where disaggregated training spends its time, and what to change"};
  app.name("poolscope");
  app.set_version_flag("--version", POOLSCOPE_VERSION);
  app.require_subcommand(1);
  int exit_code = 0;
  poolscope::AddRunCommand(app, exit_code);
  poolscope::AddEnvCommand(app, exit_code);
  poolscope::AddCollectCommand(app, exit_code);
  poolscope::AddReportCommand(app, exit_code);
  poolscope::AddWhatIfCommand(app, exit_code);
  poolscope::AddPoolsCommand(app, exit_code);
  poolscope::AddViewCommand(app, exit_code);
  poolscope::AddSqlCommand(app, exit_code);
  poolscope::AddDoctorCommand(app, exit_code);
  // docs/cli.md is what this prints; a test compares them.
  auto* print_doc = app.add_flag("--print-cli-doc")->group("");
  app.require_subcommand(0, 1);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    const auto used = app.get_subcommands();
    const std::string name = used.empty() ? "poolscope" : "poolscope " + used[0]->get_name();
    fmt::print(stderr, "poolscope: {} (see {} --help)\n",
               used.empty() ? OneLine(error.what()) : Explain(*used[0], argc, argv, error), name);
    return 2;
  }
  if (print_doc->count() > 0) {
    fmt::print("# Command line\n\nPrinted by the program's own `--help`.\n");
    for (const CLI::App* command : app.get_subcommands({})) PrintDoc(*command, "poolscope");
    return 0;
  }
  if (app.get_subcommands().empty()) {
    fmt::print(stderr, "poolscope: which command? (see poolscope --help)\n");
    return 2;
  }
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) try {
  const int exit_code = RunProgram(argc, argv);
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (written || exit_code != 0) return exit_code;
  std::fprintf(stderr, "poolscope: cannot write to standard output\n");
  return 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "poolscope: %s\n", error.what());
  return 1;
}
