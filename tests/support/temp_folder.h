#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

namespace poolscope {

// A fresh folder (0700) that goes with the object. In shared memory where `shared`.
class TempFolder {
 public:
  explicit TempFolder(bool shared = false) {
    std::string name =
        (shared ? std::filesystem::path("/dev/shm") : std::filesystem::temp_directory_path()) /
        "poolscope-test-XXXXXX";
    if (mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~TempFolder() {
    std::error_code error;
    if (!path_.empty()) std::filesystem::remove_all(path_, error);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace poolscope
