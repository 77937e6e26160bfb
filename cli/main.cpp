#include "cli/commands.h"

int main(int argc, char** argv) {
  CLI::App app{"Poolscope: where disaggregated training spends its time, and what to change"};
  app.name("poolscope");
  app.set_version_flag("--version", POOLSCOPE_VERSION);
  app.require_subcommand(1);
  int exit_code = 0;
  // Commands are added here as they come.
  poolscope::AddRunCommand(app, exit_code);
  poolscope::AddCollectCommand(app, exit_code);
  poolscope::AddSqlCommand(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return exit_code;
}
