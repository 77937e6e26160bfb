#include "store/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

namespace poolscope {
namespace {

// 0, or the errno of what failed.
int WriteAll(const char* path, int flags, std::string_view bytes) {
  const int file = open(path, O_WRONLY | O_CLOEXEC | flags, 0666);
  if (file < 0) return errno;
  int failed = 0;
  while (failed == 0 && !bytes.empty()) {
    const ssize_t written = write(file, bytes.data(), bytes.size());
    if (written > 0) bytes.remove_prefix(static_cast<size_t>(written));
    if (written == 0) failed = ENOSPC;
    if (written < 0 && errno != EINTR) failed = errno;
  }
  if (close(file) != 0 && failed == 0) failed = errno;
  return failed;
}

}  // namespace

Status WriteOutputFile(const std::filesystem::path& path, std::string_view bytes) {
  std::error_code error;
  int failed = 0;
  if (const auto status = std::filesystem::status(path, error);
      std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    failed = WriteAll(path.c_str(), 0, bytes);
  } else {
    std::filesystem::path target = std::filesystem::canonical(path, error);
    if (error) target = path;
    const std::string partial = target.string() + ".partial";
    failed = WriteAll(partial.c_str(), O_CREAT | O_TRUNC, bytes);
    if (failed == 0 && rename(partial.c_str(), target.c_str()) != 0) failed = errno;
    if (failed != 0) unlink(partial.c_str());
  }
  if (failed == 0) return {};
  return Error{fmt::format("cannot write {}: {}", path.string(), std::strerror(failed))};
}

}  // namespace poolscope
