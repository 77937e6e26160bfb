#include <cstdio>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "collector/mapping_check.h"
#include "collector/mapping_suggest.h"
#include "collector/presets.h"

namespace poolscope {
namespace {

struct PoolsArguments {
  std::string mapping, store, run;
};

int Fail(const char* command, const std::string& message) {
  std::fprintf(stderr, "poolscope pools %s: %s\n", command, message.c_str());
  return 1;
}

int Print(const char* command, const std::string& text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  return written && std::fflush(stdout) == 0 ? 0 : Fail(command, "cannot write to standard output");
}

Result<Seen> Read(const PoolsArguments& arguments) {
  const auto store = Store::Open(arguments.store, Store::Mode::kRead);
  if (!store.ok()) return store.error();
  return ReadSeen(*store, arguments.run);
}

int Check(const PoolsArguments& arguments) {
  const auto mapping = Mapping::Load(arguments.mapping);
  if (!mapping.ok()) return Fail("check", mapping.error().message);
  const auto seen = Read(arguments);
  if (!seen.ok()) return Fail("check", seen.error().message);
  const MappingCheck check = CheckMapping(*mapping, *seen);
  const int failed = Print("check", check.text);
  return check.matched_nothing > 0 ? 1 : failed;
}

int Suggest(const PoolsArguments& arguments) {
  const auto seen = Read(arguments);
  if (!seen.ok()) return Fail("suggest", seen.error().message);
  return Print("suggest", SuggestMapping(*seen));
}

int Show(const PoolsArguments& arguments) {
  std::string names;
  for (const Preset& preset : Presets()) {
    if (preset.name == arguments.mapping) return Print("show", std::string(preset.toml));
    names.append(preset.name).append(": ").append(preset.meaning).append("\n");
  }
  return Print("show", names);
}

void AddStore(CLI::App& command, PoolsArguments& arguments) {
  command.add_option("store", arguments.store, "the run's store")->required();
  command.add_option("--run", arguments.run, "id of the run, or its first digits; the latest");
}

}  // namespace

void AddPoolsCommand(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<PoolsArguments>();
  CLI::App* command = app.add_subcommand("pools", "Which threads do which pool's work");
  command->require_subcommand(1);
  CLI::App* check = command->add_subcommand(
      "check", "What each rule of a mapping matched; exit code 1 where one matched nothing");
  check->add_option("mapping", arguments->mapping, "a TOML file or a preset's name")
      ->type_name("FILE|PRESET")
      ->required();
  AddStore(*check, *arguments);
  check->callback([arguments, &exit_code] { exit_code = Check(*arguments); });

  CLI::App* suggest = command->add_subcommand(
      "suggest", "A mapping in TOML, with comments, for what a run recorded");
  AddStore(*suggest, *arguments);
  suggest->callback([arguments, &exit_code] { exit_code = Suggest(*arguments); });

  std::vector<std::string> names;
  for (const Preset& preset : Presets()) names.emplace_back(preset.name);
  CLI::App* show = command->add_subcommand("show", "The presets, or the TOML of one");
  show->add_option("preset", arguments->mapping, "its name")->check(CLI::IsMember(names));
  show->callback([arguments, &exit_code] { exit_code = Show(*arguments); });
}

}  // namespace poolscope
