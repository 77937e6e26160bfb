#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace poolscope::trainer {

// A folder that lasts as long as this object, where that is asked for.
class ScratchFolder {
 public:
  // Where `path` ends in XXXXXX, a new folder with other letters in their place, which `path` is
  // changed to. A path at which none can be made, or another one, stays as it is.
  explicit ScratchFolder(std::string& path) {
    if (path.ends_with("XXXXXX") && ::mkdtemp(path.data()) != nullptr) made_ = path;
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
