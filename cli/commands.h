#pragma once

#include <CLI/CLI.hpp>

// One function per subcommand, each in the file of its name. It adds the subcommand to `app` and
// sets a callback that does the work and stores the exit code: 0 success, 1 the thing asked failed,
// 2 wrong usage (`run`: the job's own).
namespace poolscope {

void AddRunCommand(CLI::App& app, int& exit_code);
void AddEnvCommand(CLI::App& app, int& exit_code);
void AddCollectCommand(CLI::App& app, int& exit_code);
void AddReportCommand(CLI::App& app, int& exit_code);
void AddWhatIfCommand(CLI::App& app, int& exit_code);
void AddPoolsCommand(CLI::App& app, int& exit_code);
void AddViewCommand(CLI::App& app, int& exit_code);
void AddSqlCommand(CLI::App& app, int& exit_code);
void AddDoctorCommand(CLI::App& app, int& exit_code);

}  // namespace poolscope
