#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace poolscope::trainer {

// A folder that lasts as long as this object, where that is asked for.
class ScratchFolder {
 public:
  // Where `path` ends in XXXXXX, a new folder with other letters in their place, which `path` is
  // changed to; folders above it are made too, and stay. A path at which none can be made, or
  // another one, stays as it is.
  explicit ScratchFolder(std::string& path) {
    if (!path.ends_with("XXXXXX")) return;
    std::error_code ignored;  // mkdtemp fails too
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
    if (::mkdtemp(path.data()) != nullptr) made_ = path;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    if (!made_.empty()) std::filesystem::remove_all(made_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

 private:
  std::string made_;  // "": none
};

}  // namespace poolscope::trainer
