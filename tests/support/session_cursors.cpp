// session_cursors FOLDER: prints what the session files of a folder hold, one line per thread slot
// that was ever used: file, slot, incarnation, tid, write_position, read_position. A second, raw
// reading of trace/session_format.h for tests that check the collector's.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "trace/session_format.h"

int main(int argc, char** argv) {
  using namespace poolscope;
  if (argc != 2) return 2;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    if (entry.path().extension() != kSessionSuffix) continue;
    const int fd = open(entry.path().c_str(), O_RDONLY);
    if (fd < 0) continue;
    void* file = mmap(nullptr, kRingsAt, PROT_READ, MAP_SHARED, fd, 0);
    if (file == MAP_FAILED) return 1;
    const auto* header = static_cast<const SessionHeader*>(file);
    const auto* slots = reinterpret_cast<const ThreadSlot*>(static_cast<char*>(file) + kSlotsAt);
    for (uint32_t i = 0; i < header->slots_used.load() && i < kMaxThreads; ++i) {
      std::printf("%s %u %u %u %llu %llu\n", entry.path().stem().c_str(), i,
                  slots[i].incarnation.load(), slots[i].tid,
                  static_cast<unsigned long long>(slots[i].write_position.load()),
                  static_cast<unsigned long long>(slots[i].read_position.load()));
    }
    munmap(file, kRingsAt);
    close(fd);
  }
}
