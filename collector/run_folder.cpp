#include "collector/run_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "trace/run_directory.h"
#include "trace/session_format.h"
#include "trace/session_reader.h"

namespace poolscope {

std::filesystem::path DefaultRunFolder(uint32_t user) {
  return fmt::format("/dev/shm/poolscope-{}", user);
}

std::string PrivateRunFolderPrefix(uint32_t user) {
  return fmt::format("/dev/shm/poolscope-{}-run-", user);
}

void SweepPrivateRunFolders() {
  // A younger folder may be one that its collector has not locked yet.
  constexpr time_t kAgeSeconds = 600;
  const std::filesystem::path prefix = PrivateRunFolderPrefix(geteuid());
  std::error_code error;
  for (std::filesystem::directory_iterator it(prefix.parent_path(), error), end;
       !error && it != end; it.increment(error)) {
    if (!it->path().filename().string().starts_with(prefix.filename().string())) continue;
    const int folder = open(it->path().c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0) continue;
    struct stat info;
    if (fstat(folder, &info) == 0 && info.st_uid == geteuid() &&
        time(nullptr) - info.st_mtime > kAgeSeconds && flock(folder, LOCK_EX | LOCK_NB) == 0) {
      SweepRunDirectory(folder);
      rmdir(it->path().c_str());  // fails where a session is left
    }
    close(folder);
  }
}

bool IsDrained(const std::filesystem::path& path) {
  const int folder = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return false;
  const bool locked = flock(folder, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  close(folder);
  return locked;
}

Result<RunFolder> RunFolder::Open(const std::filesystem::path& path,
                                  const std::vector<uint32_t>& owners) {
  RunFolder folder(path);
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return Error{
        fmt::format("cannot make the run folder {}: {}", path.string(), std::strerror(errno))};
  }
  folder.folder_ = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder.folder_ < 0) {
    return Error{
        fmt::format("cannot open the run folder {}: {}", path.string(), std::strerror(errno))};
  }
  struct stat info;
  if (fstat(folder.folder_, &info) != 0) {
    return Error{fmt::format("{}: {}", path.string(), std::strerror(errno))};
  }
  if (std::find(owners.begin(), owners.end(), info.st_uid) == owners.end()) {
    return Error{
        fmt::format("the run folder {} belongs to user {}, who is not served: remove it "
                    "or give another with --run-dir",
                    path.string(), info.st_uid)};
  }
  if ((info.st_mode & 077) != 0) {
    return Error{fmt::format("the run folder {} has mode {:03o}, others may enter: chmod 700 it",
                             path.string(), info.st_mode & 0777)};
  }
  bool locked = flock(folder.folder_, LOCK_EX | LOCK_NB) == 0;
  for (int i = 0; i < 10 && !locked; ++i) {  // IsDrained may be looking
    usleep(2000);
    locked = flock(folder.folder_, LOCK_EX | LOCK_NB) == 0;
  }
  if (!locked) {
    return Error{
        fmt::format("another collector already drains the run folder {}: stop it, or give "
                    "another folder with --run-dir",
                    path.string())};
  }
  folder.notify_ = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  if (folder.notify_ >= 0) {
    inotify_add_watch(folder.notify_, path.c_str(), IN_CREATE | IN_MOVED_TO);
  }
  return folder;
}

RunFolder::RunFolder(RunFolder&& other) noexcept
    : path_(std::move(other.path_)),
      folder_(std::exchange(other.folder_, -1)),
      notify_(std::exchange(other.notify_, -1)) {}

RunFolder::~RunFolder() {
  if (notify_ >= 0) close(notify_);
  if (folder_ >= 0) close(folder_);
}

void RunFolder::ClearNotice() const {
  char events[4096];
  while (notify_ >= 0 && read(notify_, events, sizeof(events)) > 0) {
  }
}

std::vector<RunFolder::Note> RunFolder::TakeNotes() const {
  std::vector<Note> notes = NotesIn(path_);
  for (const Note& note : notes) unlink(note.path.c_str());
  return notes;
}

std::vector<RunFolder::Note> RunFolder::NotesIn(const std::filesystem::path& folder) {
  std::vector<Note> notes;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    const std::filesystem::path& path = it->path();
    struct stat info;
    if (path.extension() != kNoteSuffix || lstat(path.c_str(), &info) != 0 ||
        !S_ISLNK(info.st_mode)) {
      continue;
    }
    char why[512];
    const ssize_t bytes = readlink(path.c_str(), why, sizeof(why));
    const std::string name = path.stem().string();
    const size_t dot = name.find('.');
    if (bytes > 0 && dot != std::string::npos) {
      notes.push_back({path, PlainText(name.substr(0, dot)), PlainText(name.substr(dot + 1)),
                       PlainText({why, static_cast<size_t>(bytes)}),
                       int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec});
    }
  }
  return notes;
}

std::vector<std::filesystem::path> RunFolder::SessionsIn(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> found;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    if (it->path().extension() == kSessionSuffix) found.push_back(it->path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

Result<StoreLock> StoreLock::Take(const std::filesystem::path& store) {
  const int fd = open(store.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) {
    return Error{fmt::format("cannot open the store {} for writing: {}", store.string(),
                             std::strerror(errno))};
  }
  StoreLock lock(fd);
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    return Error{
        fmt::format("another collector already writes the store {}: stop it, or give "
                    "another store",
                    store.string())};
  }
  return lock;
}

bool StoreLock::Holds(const std::filesystem::path& store) const {
  struct stat locked;
  struct stat named;
  return fstat(fd_, &locked) == 0 && stat(store.c_str(), &named) == 0 &&
         locked.st_dev == named.st_dev && locked.st_ino == named.st_ino;
}

StoreLock::~StoreLock() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace poolscope
