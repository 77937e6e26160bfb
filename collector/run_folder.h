#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "trace/result.h"

namespace poolscope {

// Where a user's processes put their session files when POOLSCOPE_RUN_DIR is not set.
std::filesystem::path DefaultRunFolder(uint32_t user);

// What `poolscope run` makes for itself where --run-dir is not given: <this><random>.
std::string PrivateRunFolderPrefix(uint32_t user);

// Removes private run folders of this user that a killed `poolscope run` left behind: nobody
// collects from them, no process of theirs lives, and nothing is in them that a collector did not
// store, or it is older than a day (as SweepRunDirectory of trace/run_directory.h).
void SweepPrivateRunFolders();

// Whether a collector drains the folder now.
bool IsDrained(const std::filesystem::path& folder);

// Watches one folder of session files. Not thread-safe.
class RunFolder {
 public:
  // Makes the folder (0700) where it is missing and takes the collector's lock on it. Refuses a
  // link, a folder of a user that is not in `owners` or that others may enter, and one that another
  // collector drains.
  static Result<RunFolder> Open(const std::filesystem::path& path,
                                const std::vector<uint32_t>& owners);
  RunFolder(RunFolder&& other) noexcept;
  RunFolder& operator=(RunFolder&&) = delete;
  ~RunFolder();

  const std::filesystem::path& path() const { return path_; }
  int notify_fd() const { return notify_; }  // readable when a file came; -1: not watched
  void ClearNotice() const;
  // Names that end as session files do, in order.
  std::vector<std::filesystem::path> Sessions() const { return SessionsIn(path_); }
  // What processes without a session left: why (trace/run_directory.h). Taking them removes them.
  struct Note {
    std::filesystem::path path;
    std::string run_id;  // "-": none
    std::string pid;
    std::string why;
    int64_t epoch_ns = 0;
  };
  std::vector<Note> TakeNotes() const;
  static std::vector<Note> NotesIn(const std::filesystem::path& folder);
  static std::vector<std::filesystem::path> SessionsIn(const std::filesystem::path& folder);

 private:
  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {}

  std::filesystem::path path_;
  int folder_ = -1;  // locked
  int notify_ = -1;
};

// An exclusive hold on a store for one collector, by flock() on the database file itself (SQLite
// locks by fcntl(), which flock() does not meet). Makes the file when there is none. Keep it longer
// than the Store: closing the descriptor would drop SQLite's own locks of this process.
class StoreLock {
 public:
  static Result<StoreLock> Take(const std::filesystem::path& store);
  StoreLock(StoreLock&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  StoreLock& operator=(StoreLock&&) = delete;
  ~StoreLock();

  // Whether `store` still names the file that is locked: it may be removed or renamed meanwhile.
  bool Holds(const std::filesystem::path& store) const;

 private:
  explicit StoreLock(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace poolscope
