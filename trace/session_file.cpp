#include "trace/session_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "trace/limits.h"
#include "trace/run_directory.h"

namespace poolscope {
namespace {

constexpr uint32_t kAgentVersion = 0u << 16 | 1u << 8 | 0u;

// What a session cannot do without: the header, some definitions, slots, and one smallest ring.
constexpr uint64_t kLeastBytes = kDefinitionsAt + (256u << 10) + kMinRingBytes;
// On a tmpfs that states no size.
constexpr uint64_t kBudgetOfUnlimited = uint64_t{256} << 20;

ssize_t ReadFile(const char* path, char* buffer, size_t bytes) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return -1;
  const ssize_t got = read(file, buffer, bytes);
  close(file);
  return got;
}

// Field 22 of /proc/self/stat, 0 where it cannot be read. The name in field 2 may hold anything.
uint64_t ProcessStart() {
  char text[1024];
  const ssize_t got = ReadFile("/proc/self/stat", text, sizeof(text) - 1);
  if (got <= 0) return 0;
  text[got] = '\0';
  const char* at = strrchr(text, ')');
  for (int field = 2; at != nullptr && field < 22; ++field) {
    at = strchr(at + 1, ' ');
  }
  return at == nullptr ? 0 : strtoull(at + 1, nullptr, 10);
}

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool ParseId(const char* text, uint8_t (&id)[16]) {
  if (text == nullptr || strlen(text) != 32) return false;
  for (int i = 0; i < 16; ++i) {
    const int high = HexValue(text[2 * i]);
    const int low = HexValue(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    id[i] = static_cast<uint8_t>(high << 4 | low);
  }
  return true;
}

bool WithinFileLimit(uint64_t end) {
  rlimit limit;
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
         (limit.rlim_cur == RLIM_INFINITY || end <= limit.rlim_cur);
}

uint64_t FreeBytes(const struct statfs& system) {
  return static_cast<uint64_t>(system.f_bavail) * static_cast<uint64_t>(system.f_bsize);
}

}  // namespace

bool SessionFile::Create(uint64_t ring_area, ClockKind clock, Reason* why) {
  directory_ = OpenRunDirectory(why);
  if (directory_ < 0) return false;
  SweepRunDirectory(directory_);
  bool made = LookAtSpace(why) && Open(why);
  if (made) {
    mapped_bytes_ = kRingsAt + ring_area;
    void* mapped = MAP_FAILED;
    while (mapped == MAP_FAILED && mapped_bytes_ >= kRingsAt + kMinRingBytes) {
      mapped = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
      if (mapped == MAP_FAILED) mapped_bytes_ = PageUp(kRingsAt + (mapped_bytes_ - kRingsAt) / 2);
    }
    made = mapped != MAP_FAILED;
    if (made) {
      base_ = static_cast<uint8_t*>(mapped);
      made = Reserve(0, sizeof(SessionHeader));
    }
    if (made) {
      FillHeader(clock);
    } else {
      why->Set("no memory for a session file: %s", strerror(errno));
      unlinkat(directory_, name_, 0);
      Abandon();
    }
  }
  close(directory_);
  directory_ = -1;
  return made;
}

bool SessionFile::LookAtSpace(Reason* why) {
  struct statfs system;
  if (fstatfs(directory_, &system) != 0) {
    why->Set("cannot ask the run folder for its free space: %s", strerror(errno));
    return false;
  }
  budget_ =
      system.f_blocks == 0
          ? kBudgetOfUnlimited
          : static_cast<uint64_t>(static_cast<double>(FreeBytes(system)) * kMaxShareOfFreeTmpfs) &
                ~uint64_t{4095};
  if (budget_ < kLeastBytes) {
    why->Set(
        "a quarter of the %llu bytes that the run folder's tmpfs has free is less than the "
        "%llu that a session needs: free some, or set POOLSCOPE_RUN_DIR",
        static_cast<unsigned long long>(FreeBytes(system)),
        static_cast<unsigned long long>(kLeastBytes));
    return false;
  }
  if (!WithinFileLimit(kRingsAt + kMinRingBytes)) {
    why->Set("the file size limit (ulimit -f) is under the %llu bytes that a session needs",
             static_cast<unsigned long long>(kRingsAt + kMinRingBytes));
    return false;
  }
  return true;
}

bool SessionFile::Open(Reason* why) {
  if (getrandom(session_id_, sizeof(session_id_), 0) != ssize_t{sizeof(session_id_)}) {
    why->Set("no random bytes for a session id: %s", strerror(errno));
    return false;
  }
  if (!run_id_known_) {
    if (!ParseId(secure_getenv("POOLSCOPE_RUN_ID"), run_id_)) {
      memcpy(run_id_, session_id_, sizeof(run_id_));
      run_id_[0] ^= 0xff;
    }
    run_id_known_ = true;
  }
  char* at = name_;
  for (const uint8_t byte : session_id_) at += snprintf(at, 3, "%02x", byte);
  memcpy(at, kSessionSuffix, sizeof(kSessionSuffix));
  file_ = openat(directory_, name_, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file_ < 0) {
    why->Set("cannot make session file %s: %s", name_, strerror(errno));
    return false;
  }
  struct stat info;
  if (fstat(file_, &info) == 0) {
    device_ = info.st_dev;
    inode_ = info.st_ino;
  }
  // The lock belongs to the open file, which the mapping keeps open: it holds until the process is
  // gone even if the job closes every descriptor that it finds.
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  if (fcntl(file_, F_OFD_SETLK, &lock) != 0) {
    why->Set("cannot lock session file %s: %s", name_, strerror(errno));
    unlinkat(directory_, name_, 0);
    Abandon();
    return false;
  }
  return true;
}

void SessionFile::FillHeader(ClockKind clock) {
  SessionHeader* header = this->header();
  header->format_version = kSessionFormatVersion;
  header->header_bytes = sizeof(SessionHeader);
  memcpy(header->session_id, session_id_, sizeof(session_id_));
  memcpy(header->run_id, run_id_, sizeof(run_id_));
  header->pid = static_cast<uint32_t>(getpid());
  header->parent_pid = static_cast<uint32_t>(getppid());
  struct stat info;
  header->pid_namespace = stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
  header->process_start = ProcessStart();
  header->clock = clock;
  header->agent_version = kAgentVersion;
  gethostname(header->host, sizeof(header->host) - 1);
  const ssize_t got = ReadFile("/proc/self/cmdline", header->command, sizeof(header->command) - 1);
  for (ssize_t i = 0; i + 1 < got; ++i) {
    if (header->command[i] == '\0') header->command[i] = ' ';
  }
}

// A job may close descriptors that it did not open, and get the number again for a file of its own.
bool SessionFile::FileIsOurs() {
  struct stat info;
  if (file_ >= 0 && fstat(file_, &info) == 0 && info.st_dev == device_ && info.st_ino == inode_) {
    return true;
  }
  Reason unused;
  file_ = -1;
  const int directory = OpenRunDirectory(&unused);
  if (directory < 0) return false;
  const int file = openat(directory, name_, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  close(directory);
  if (file < 0) return false;
  if (fstat(file, &info) == 0 && info.st_dev == device_ && info.st_ino == inode_) {
    file_ = file;
    return true;
  }
  close(file);
  return false;
}

bool SessionFile::Reserve(uint64_t offset, uint64_t bytes) {
  const uint64_t begin = offset & ~uint64_t{4095};
  const uint64_t end = PageUp(offset + bytes);
  const uint64_t size = end - begin;
  if (end > mapped_bytes_ || size > budget_ || !WithinFileLimit(end) || !FileIsOurs()) return false;
  struct statfs system;
  if (fstatfs(file_, &system) != 0 ||
      (system.f_blocks != 0 && size > FreeBytes(system) / 2)) {  // others came; leave them room
    return false;
  }
  const int failed = posix_fallocate(file_, static_cast<off_t>(begin), static_cast<off_t>(size));
  if (failed != 0) {
    errno = failed;
    return false;
  }
  budget_ -= size;
  return true;
}

void SessionFile::Discard() {
  Reason unused;
  const int directory = OpenRunDirectory(&unused);
  if (directory >= 0) {
    unlinkat(directory, name_, 0);
    close(directory);
  }
  Abandon();
}

void SessionFile::Abandon() {
  if (base_ != nullptr) munmap(base_, mapped_bytes_);
  struct stat info;
  if (file_ >= 0 && fstat(file_, &info) == 0 && info.st_dev == device_ && info.st_ino == inode_) {
    close(file_);
  }
  base_ = nullptr;
  file_ = -1;
  mapped_bytes_ = 0;
  budget_ = 0;
}

}  // namespace poolscope
