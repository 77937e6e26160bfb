#include "cli/session_list.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "collector/run_folder.h"
#include "trace/session_reader.h"

namespace poolscope {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostCommand = 60;

uint64_t BytesNotStored(const SessionReader& session, const SessionState& state) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < state.slots_used; ++i) {
    const auto slot = session.Slot(i);
    if (!slot.ok() || slot->write_position < slot->read_position) continue;
    bytes += std::min(slot->write_position - slot->read_position, slot->ring_bytes);
  }
  return bytes;
}

std::string Line(const fs::path& path) {
  const uint32_t owners[] = {geteuid()};
  const auto session = SessionReader::Open(path, owners);
  if (!session.ok()) return fmt::format("  cannot be read: {}\n", session.error().message);
  const auto state = session->State();
  if (!state.ok()) return fmt::format("  cannot be read: {}\n", state.error().message);
  std::string command = session->head().command;
  if (command.size() > kMostCommand) command = PlainText(command.substr(0, kMostCommand)) + " ...";
  const bool alive = session->WriterAlive();
  const bool off = state->agent_off != AgentOff::kNo;
  std::string said = off ? AgentOffText(state->agent_off) : "";
  const auto say = [&said](std::string text) { said += (said.empty() ? "" : "; ") + text; };
  if (state->ring_mode != RingMode::kDropNewest) say("no collector takes it");
  if (const uint64_t bytes = BytesNotStored(*session, *state); !alive && bytes > 0) {
    say(fmt::format("{} bytes of it are not stored", bytes));
  }
  for (size_t i = 0; i < kLossCauses; ++i) {
    if (state->losses[i].events == 0) continue;
    say(fmt::format("{} events lost ({})", state->losses[i].events,
                    LossCauseName(static_cast<LossCause>(i))));
  }
  return fmt::format("  {:<10} {:<10} {}{}{}\n", session->head().pid,
                     off            ? "OFF"
                     : alive        ? "recorded"
                     : state->ended ? "exited"
                                    : "killed",
                     command, said.empty() ? "" : ": ", said);
}

}  // namespace

std::vector<fs::path> RunFolders() {
  std::set<fs::path> folders;
  const char* given = std::getenv("POOLSCOPE_RUN_DIR");
  if (given != nullptr && *given != 0) folders.insert(given);
  folders.insert(DefaultRunFolder(geteuid()));
  std::error_code error;
  const fs::path prefix = PrivateRunFolderPrefix(geteuid());
  for (const auto& entry : fs::directory_iterator(prefix.parent_path(), error)) {
    if (entry.path().string().starts_with(prefix.string())) folders.insert(entry.path());
  }
  std::erase_if(folders, [&error](const fs::path& path) { return !fs::exists(path, error); });
  return {folders.begin(), folders.end()};
}

std::string SessionList(const fs::path& folder) {
  std::string text;
  for (const fs::path& path : RunFolder::SessionsIn(folder)) text += Line(path);
  for (const RunFolder::Note& note : RunFolder::NotesIn(folder)) {
    text += fmt::format("  {:<10} {:<10} {}\n", note.pid, "OFF", note.why);
  }
  return text;
}

}  // namespace poolscope
