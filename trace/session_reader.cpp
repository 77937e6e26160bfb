#include "trace/session_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace poolscope {
namespace {

// One read of a slot without its open stack.
constexpr size_t kSlotHeadBytes = offsetof(ThreadSlot, open);

uint64_t SlotAt(uint32_t index) { return kSlotsAt + uint64_t{index} * sizeof(ThreadSlot); }

}  // namespace

Result<SessionReader> SessionReader::Open(const std::filesystem::path& path,
                                          std::span<const uint32_t> owners) {
  const auto refuse = [&](const std::string& why) { return Error{path.string() + ": " + why}; };
  const int fd = open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    return refuse(errno == ELOOP ? "a link, not a session file" : std::strerror(errno));
  }
  SessionReader reader(fd, path);
  struct stat info;
  if (fstat(fd, &info) != 0) return refuse(std::strerror(errno));
  if (!S_ISREG(info.st_mode)) return refuse("not a plain file");
  if (std::find(owners.begin(), owners.end(), info.st_uid) == owners.end()) {
    return refuse("belongs to user " + std::to_string(info.st_uid) + ", which is not served");
  }
  if ((info.st_mode & 077) != 0) return refuse("others may write to or read it (mode is not 0600)");
  if (info.st_size < static_cast<off_t>(sizeof(SessionHeader))) {
    return refuse("too short for a session");
  }
  std::vector<std::byte> header(sizeof(SessionHeader));
  if (auto read = reader.ReadAt(0, header.data(), header.size()); !read.ok()) return read.error();
  if (auto ok = DecodeUntrusted(header, reader.head_); !ok.ok()) return refuse(ok.error().message);
  return reader;
}

SessionReader::SessionReader(SessionReader&& other) noexcept { *this = std::move(other); }

SessionReader& SessionReader::operator=(SessionReader&& other) noexcept {
  if (this == &other) return *this;
  if (fd_ >= 0) close(fd_);
  fd_ = std::exchange(other.fd_, -1);
  path_ = std::move(other.path_);
  head_ = std::move(other.head_);
  definitions_ = std::move(other.definitions_);
  definitions_read_ = other.definitions_read_;
  definitions_error_ = std::move(other.definitions_error_);
  return *this;
}

SessionReader::~SessionReader() {
  if (fd_ >= 0) close(fd_);
}

Status SessionReader::ReadAt(uint64_t offset, void* to, size_t bytes) const {
  auto* out = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = pread(fd_, out, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      return Error{path_.string() + ": " + (got == 0 ? "shorter than it says" : strerror(errno))};
    }
    out += got;
    offset += static_cast<uint64_t>(got);
    bytes -= static_cast<size_t>(got);
  }
  return {};
}

Status SessionReader::WriteAt(uint64_t offset, const void* from, size_t bytes) const {
  // Never past the end: a truncated file must not grow again under our hand.
  struct stat info;
  if (fstat(fd_, &info) != 0 || static_cast<uint64_t>(info.st_size) < offset + bytes) {
    return Error{path_.string() + ": shorter than it says"};
  }
  if (pwrite(fd_, from, bytes, static_cast<off_t>(offset)) != static_cast<ssize_t>(bytes)) {
    return Error{path_.string() + ": " + strerror(errno)};
  }
  return {};
}

bool SessionReader::WriterAlive() const {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  if (fcntl(fd_, F_GETLK, &lock) != 0) return true;
  return lock.l_type != F_UNLCK;
}

Result<SessionState> SessionReader::State() const {
  std::array<std::byte, sizeof(SessionHeader)> bytes;
  if (auto read = ReadAt(0, bytes.data(), bytes.size()); !read.ok()) return read.error();
  SessionState state;
  if (auto ok = DecodeUntrusted(bytes, state); !ok.ok()) return ok.error();
  struct stat info;
  if (fstat(fd_, &info) != 0) return Error{path_.string() + ": " + strerror(errno)};
  // The slots' part is not there before the first thread has one.
  if (state.slots_used > 0 && static_cast<uint64_t>(info.st_size) < SlotAt(state.slots_used)) {
    return Error{path_.string() + ": shorter than it says"};
  }
  return state;
}

Status SessionReader::ReadDefinitions() {
  if (!definitions_error_.empty()) return Error{definitions_error_};
  uint64_t published = 0;
  if (auto read = ReadAt(offsetof(SessionHeader, definition_bytes), &published, 8); !read.ok()) {
    return read;
  }
  published = std::min<uint64_t>(published, kDefinitionBytes);
  if (published <= definitions_read_) return {};
  std::vector<std::byte> bytes(published - definitions_read_);
  if (auto read = ReadAt(kDefinitionsAt + definitions_read_, bytes.data(), bytes.size());
      !read.ok()) {
    return read;
  }
  definitions_read_ = published;
  if (auto ok = DecodeUntrusted(bytes, definitions_); !ok.ok()) {
    definitions_error_ = path_.string() + ": definition log: " + ok.error().message;
    return Error{definitions_error_};
  }
  return {};
}

Result<SlotView> SessionReader::Slot(uint32_t index) const {
  std::array<std::byte, kSlotHeadBytes> bytes;
  if (index >= kMaxThreads) return Error{path_.string() + ": no such thread slot"};
  if (auto read = ReadAt(SlotAt(index), bytes.data(), bytes.size()); !read.ok()) {
    return read.error();
  }
  SlotView slot;
  if (auto ok = DecodeUntrusted(bytes, slot); !ok.ok()) {
    return Error{path_.string() + ": " + ok.error().message};
  }
  return slot;
}

Result<uint64_t> SessionReader::CopyRing(uint32_t index, const SlotView& slot, uint64_t from,
                                         std::vector<uint64_t>& words) const {
  words.clear();
  const uint64_t to = slot.write_position;
  from = std::max(from, slot.first_position);
  if (slot.ring_offset == 0 || from >= to) return to;
  if (from % 8 != 0 || to - from > slot.ring_bytes) {
    return Error{path_.string() + ": a ring's positions are impossible"};
  }
  words.resize((to - from) / 8);
  const uint64_t begin = from & (slot.ring_bytes - 1);
  const uint64_t head = std::min(to - from, slot.ring_bytes - begin);
  auto* out = reinterpret_cast<char*>(words.data());
  if (auto read = ReadAt(slot.ring_offset + begin, out, head); !read.ok()) return read.error();
  if (auto read = ReadAt(slot.ring_offset, out + head, to - from - head); !read.ok()) {
    return read.error();
  }
  // What the writer overwrote while we copied is garbage, and lies before the new first position.
  uint64_t first = 0;
  if (auto read = ReadAt(SlotAt(index) + offsetof(ThreadSlot, first_position), &first, 8);
      !read.ok()) {
    return read.error();
  }
  if (first > from) {
    if (first % 8 != 0) return Error{path_.string() + ": a ring's positions are impossible"};
    first = std::min(first, to);
    words.erase(words.begin(), words.begin() + static_cast<ptrdiff_t>((first - from) / 8));
    from = first;
  }
  return from;
}

Status SessionReader::ReadOpenStack(uint32_t index, std::vector<OpenRange>& out) {
  out.clear();
  if (index >= kMaxThreads) return Error{path_.string() + ": no such thread slot"};
  std::array<std::byte, sizeof(ThreadSlot)> bytes;
  std::vector<OpenRange> before;
  for (int attempt = 0; attempt < 4; ++attempt) {
    if (auto read = ReadAt(SlotAt(index), bytes.data(), bytes.size()); !read.ok()) return read;
    uint64_t sequence = 0;
    std::memcpy(&sequence, bytes.data() + offsetof(ThreadSlot, open_sequence), 8);
    uint64_t again = 0;
    if (auto read = ReadAt(SlotAt(index) + offsetof(ThreadSlot, open_sequence), &again, 8);
        !read.ok()) {
      return read;
    }
    if (auto defined = ReadDefinitions(); !defined.ok()) return defined;
    before.swap(out);
    if (auto ok = DecodeUntrusted(bytes, definitions_, out); !ok.ok()) continue;
    if (sequence == again && sequence % 2 == 0) return {};
  }
  // The thread never stood still: what two copies agree on was there all the time.
  size_t same = 0;
  while (same < out.size() && same < before.size() && out[same].open_id == before[same].open_id &&
         out[same].start_ticks == before[same].start_ticks) {
    ++same;
  }
  out.resize(same);
  return {};
}

Status SessionReader::ReadProcessRanges(std::vector<OpenProcessRange>& out) {
  // The writer grows the file as it needs the parts: what is not there yet holds nothing.
  out.clear();
  struct stat info;
  if (fstat(fd_, &info) != 0) return Error{path_.string() + ": " + strerror(errno)};
  const auto size = static_cast<uint64_t>(info.st_size);
  if (size < kProcessRangesAt + sizeof(ProcessRange)) return {};
  std::vector<std::byte> bytes(
      std::min<uint64_t>(sizeof(ProcessRange) * kMaxOpenProcessRanges,
                         (size - kProcessRangesAt) / sizeof(ProcessRange) * sizeof(ProcessRange)));
  if (auto read = ReadAt(kProcessRangesAt, bytes.data(), bytes.size()); !read.ok()) return read;
  if (auto defined = ReadDefinitions(); !defined.ok()) return defined;
  return DecodeUntrusted(bytes, definitions_, out);
}

Status SessionReader::SetRingMode(RingMode mode) const {
  return WriteAt(offsetof(SessionHeader, ring_mode), &mode, sizeof(mode));
}

Status SessionReader::SetReadPosition(uint32_t index, uint64_t position) const {
  return WriteAt(SlotAt(index) + offsetof(ThreadSlot, read_position), &position, 8);
}

}  // namespace poolscope
