#include "advisor/report.h"

#include <cstdio>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "store/output_file.h"

namespace poolscope {
namespace {

struct ReportArguments {
  std::string store, run, format = "text", output;
};

int Fail(const std::string& message) {
  std::fprintf(stderr, "poolscope report: %s\n", message.c_str());
  return 1;
}

int RunReport(const ReportArguments& arguments) {
  Result<Store> store = Store::Open(arguments.store, Store::Mode::kRead);
  if (!store) return Fail(store.error().message);
  Result<Report> report = BuildReport(*store, arguments.run);
  if (!report) return Fail(report.error().message);
  const std::string text =
      arguments.format == "json" ? ReportAsJson(*report) : ReportAsText(*report);
  if (!arguments.output.empty()) {
    const Status status = WriteOutputFile(arguments.output, text);
    return status ? 0 : Fail(status.error().message + "; choose another file with -o");
  }
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  return written && std::fflush(stdout) == 0 ? 0 : Fail("cannot write to standard output");
}

}  // namespace

void AddReportCommand(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<ReportArguments>();
  CLI::App* command = app.add_subcommand("report", "What to change in a run, and on what evidence");
  command->add_option("store", arguments->store, "the run's store")->required();
  command->add_option("--run", arguments->run, "id of the run, or its first digits; the latest");
  command->add_option("--format", arguments->format, "text or json")
      ->check(CLI::IsMember({"text", "json"}));
  command->add_option("-o,--output", arguments->output, "write to this file");
  command->callback([arguments, &exit_code] { exit_code = RunReport(*arguments); });
}

}  // namespace poolscope
