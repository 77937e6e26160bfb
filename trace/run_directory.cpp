#include "trace/run_directory.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include <cstddef>

#include "trace/limits.h"
#include "trace/session_format.h"

namespace poolscope {
namespace {

constexpr int64_t kDrainedAgeSeconds = 600;
constexpr int64_t kAnyAgeSeconds = 24 * 3600;
constexpr int kMaxNames = 1024;

bool HasSuffix(const char* name, const char* suffix) {
  const size_t bytes = strlen(name);
  const size_t tail = strlen(suffix);
  return bytes > tail && strcmp(name + bytes - tail, suffix) == 0;
}

bool WriterLives(int file) {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return fcntl(file, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

// Everything that was recorded is committed by a collector. The file's writer is gone.
bool Drained(int file) {
  alignas(SessionHeader) unsigned char header_bytes[sizeof(SessionHeader)];
  if (pread(file, header_bytes, sizeof(header_bytes), 0) != ssize_t{sizeof(header_bytes)}) {
    return false;
  }
  const auto* header = reinterpret_cast<const SessionHeader*>(header_bytes);
  if (header->magic != kSessionMagic || header->format_version != kSessionFormatVersion ||
      header->ring_mode.load() != static_cast<uint32_t>(RingMode::kDropNewest)) {
    return false;
  }
  const uint32_t used = header->slots_used.load();
  if (used > kMaxThreads) return false;
  for (uint32_t i = 0; i < used; ++i) {
    alignas(ThreadSlot) unsigned char slot_bytes[offsetof(ThreadSlot, open)];
    const off_t at = static_cast<off_t>(kSlotsAt + i * sizeof(ThreadSlot));
    if (pread(file, slot_bytes, sizeof(slot_bytes), at) != ssize_t{sizeof(slot_bytes)}) {
      return false;
    }
    const auto* slot = reinterpret_cast<const ThreadSlot*>(slot_bytes);
    if (slot->read_position.load() != slot->write_position.load()) return false;
  }
  return true;
}

void SweepFile(int directory, const char* name) {
  const int file = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return;
  struct stat info;
  if (fstat(file, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid() &&
      !WriterLives(file)) {
    const int64_t age = int64_t{time(nullptr)} - info.st_mtime;
    if (age > kAnyAgeSeconds || (age > kDrainedAgeSeconds && Drained(file))) {
      unlinkat(directory, name, 0);
    }
  }
  close(file);
}

void SweepNote(int directory, const char* name) {
  struct stat info;
  if (fstatat(directory, name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
      int64_t{time(nullptr)} - info.st_mtime > kAnyAgeSeconds) {
    unlinkat(directory, name, 0);
  }
}

struct DirectoryEntry {  // what getdents64 gives
  uint64_t inode;
  int64_t next;
  uint16_t bytes;
  uint8_t type;
  char name[1];
};

}  // namespace

int OpenRunDirectory(Reason* why) {
  char path[256];
  const char* given = secure_getenv("POOLSCOPE_RUN_DIR");
  const int length = given != nullptr && given[0] != '\0'
                         ? snprintf(path, sizeof(path), "%s", given)
                         : snprintf(path, sizeof(path), "/dev/shm/poolscope-%u", geteuid());
  if (length >= static_cast<int>(sizeof(path))) {
    why->Set("the run folder's name is longer than %zu bytes: set a shorter POOLSCOPE_RUN_DIR",
             sizeof(path) - 1);
    return -1;
  }
  if (mkdir(path, 0700) != 0 && errno != EEXIST) {
    why->Set("cannot make the run folder %s: %s; set POOLSCOPE_RUN_DIR to a folder in tmpfs", path,
             strerror(errno));
    return -1;
  }
  const int directory = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (directory < 0) {
    why->Set("cannot open the run folder %s: %s; it must be a folder of yours, not a link", path,
             strerror(errno));
    return -1;
  }
  struct stat info;
  struct statfs system;
  if (fstat(directory, &info) != 0 || fstatfs(directory, &system) != 0) {
    why->Set("cannot look at the run folder %s: %s", path, strerror(errno));
  } else if (info.st_uid != geteuid()) {
    why->Set("the run folder %s belongs to user %u, not to %u: remove it or set POOLSCOPE_RUN_DIR",
             path, info.st_uid, geteuid());
  } else if ((info.st_mode & 077) != 0) {
    why->Set("the run folder %s has mode %03o: chmod 700 it", path, info.st_mode & 0777);
  } else if (system.f_type != TMPFS_MAGIC) {
    why->Set("the run folder %s is not in tmpfs: set POOLSCOPE_RUN_DIR to a folder under /dev/shm",
             path);
  } else {
    return directory;
  }
  close(directory);
  return -1;
}

void LeaveNote(const char* why) {
  Reason unused;
  const int directory = OpenRunDirectory(&unused);
  if (directory < 0) return;
  const char* run = secure_getenv("POOLSCOPE_RUN_ID");
  char name[64];
  snprintf(name, sizeof(name), "%.32s.%d%s",
           run != nullptr && strchr(run, '/') == nullptr ? run : "-", getpid(), kNoteSuffix);
  if (symlinkat(why, directory, name) != 0) {
    char cut[100];  // tmpfs keeps a short one beside its name
    snprintf(cut, sizeof(cut), "%s", why);
    if (symlinkat(cut, directory, name) != 0) errno = 0;
  }
  close(directory);
}

void SweepRunDirectory(int directory) {
  const int listing = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (listing < 0) return;
  alignas(DirectoryEntry) char entries[4096];
  int names = 0;
  while (names < kMaxNames) {
    const long got = syscall(SYS_getdents64, listing, entries, sizeof(entries));
    if (got <= 0) break;
    for (long at = 0; at < got; ++names) {
      const auto* entry = reinterpret_cast<const DirectoryEntry*>(entries + at);
      if (HasSuffix(entry->name, kSessionSuffix)) SweepFile(directory, entry->name);
      if (HasSuffix(entry->name, kNoteSuffix)) SweepNote(directory, entry->name);
      at += entry->bytes;
    }
  }
  close(listing);
}

}  // namespace poolscope
