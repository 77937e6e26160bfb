#include "advisor/what_if.h"

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"

namespace poolscope {
namespace {

struct WhatIfArguments {
  std::string store, run, format = "text";
  std::vector<std::string> set;
};

int Fail(int code, const std::string& message) {
  std::fprintf(stderr, "poolscope what-if: %s\n", message.c_str());
  return code;
}

int RunWhatIf(const WhatIfArguments& arguments) {
  Changes changes;
  for (const std::string& each : arguments.set) {
    const size_t equals = each.find('=');
    if (equals == std::string::npos || equals == 0) {
      return Fail(2, "--set takes KNOB=VALUE, not '" + each + "'");
    }
    changes[each.substr(0, equals)] = each.substr(equals + 1);
  }
  Result<Store> store = Store::Open(arguments.store, Store::Mode::kRead);
  if (!store) return Fail(1, store.error().message);
  const WhatIfResult result = AskWhatIf(*store, arguments.run, changes);
  if (!result.answer) return Fail(result.error.usage ? 2 : 1, result.error.message);
  const std::string text =
      arguments.format == "json" ? WhatIfAsJson(*result.answer) : WhatIfAsText(*result.answer);
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (std::fflush(stdout) != 0) return Fail(1, "cannot write to standard output");
  return result.answer->prediction ? 0 : 1;
}

}  // namespace

void AddWhatIfCommand(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<WhatIfArguments>();
  CLI::App* command =
      app.add_subcommand("what-if", "Predict what a change of workers, buffers or codecs would do");
  command->add_option("store", arguments->store, "the run's store")->required();
  command->add_option("--set", arguments->set, "KNOB=VALUE, such as compute.workers=6; repeatable")
      ->allow_extra_args(false);
  command->add_option("--run", arguments->run, "id of the run, or its first digits; the latest");
  command->add_option("--format", arguments->format, "text or json")
      ->check(CLI::IsMember({"text", "json"}));
  command->callback([arguments, &exit_code] { exit_code = RunWhatIf(*arguments); });
}

}  // namespace poolscope
