#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace poolscope {

// Where processes of this user leave sessions: $POOLSCOPE_RUN_DIR, the default folder, and those
// that `poolscope run` made for itself; of these, what exists.
std::vector<std::filesystem::path> RunFolders();

// A line for each process that has a session in the folder, or left word why it has none: whether
// it is recorded, whether anybody collects that, and why not. Reads only.
std::string SessionList(const std::filesystem::path& folder);

}  // namespace poolscope
