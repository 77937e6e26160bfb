#include "reference-trainer/model/optimizer_state.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <utility>
#include <vector>

namespace poolscope::trainer {
namespace {

constexpr size_t kArrays = 3;

size_t PageBytes() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

size_t WholePages(size_t bytes) {
  const size_t page = PageBytes();
  return (bytes + page - 1) / page * page;
}

[[noreturn]] void Refuse(const std::string& what, int error) {
  throw std::runtime_error(fmt::format("{}: {}", what, std::strerror(error)));
}

// Closes itself.
struct File {
  int descriptor;
  ~File() { close(descriptor); }
};

// Gives [to, to + bytes), which is mapped already, to a new nameless file in `folder`.
void MapFile(const std::string& folder, const std::vector<std::pair<std::byte*, size_t>>& places) {
  std::string path = folder + "/poolscope-optimizer-XXXXXX";
  const File file{mkostemp(path.data(), O_CLOEXEC)};
  if (file.descriptor < 0) {
    Refuse(fmt::format("cannot write optimizer state to --offload-dir {}", folder), errno);
  }
  unlink(path.c_str());
  size_t bytes = 0;
  for (const auto& [to, size] : places) bytes += size;
  // Reserved now: a full disk would kill the process with SIGBUS later.
  if (const int error = posix_fallocate(file.descriptor, 0, static_cast<off_t>(bytes)); error) {
    Refuse(fmt::format("cannot reserve {} bytes of optimizer state in --offload-dir {}, free some "
                       "or give another folder",
                       bytes, folder),
           error);
  }
  off_t offset = 0;
  for (const auto& [to, size] : places) {
    if (mmap(to, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file.descriptor, offset) ==
        MAP_FAILED) {
      Refuse(fmt::format("cannot map optimizer state in --offload-dir {}", folder), errno);
    }
    offset += static_cast<off_t>(size);
  }
}

size_t ResidentOf(size_t count, const OffloadOptions& options) {
  return count - SizesOfState(count, options).offloaded_parameters;
}

}  // namespace

const char* OffloadName(Offload offload) {
  return offload == Offload::kNone ? "none" : offload == Offload::kHost ? "host" : "file";
}

StateSizes SizesOfState(uint64_t parameters, const OffloadOptions& offload) {
  StateSizes sizes{parameters, 0};
  if (offload.to == Offload::kNone) return sizes;
  const double resident = offload.resident_fraction * static_cast<double>(parameters);
  sizes.offloaded_parameters = parameters - static_cast<uint64_t>(std::llround(resident));
  return sizes;
}

// Each array: its resident part, then, from the next page on, so that a file can be mapped there,
// its offloaded part. To be contiguous the resident part ends at the end of a page.
OptimizerState::OptimizerState(size_t count, const OffloadOptions& options)
    : count_(count), resident_(ResidentOf(count, options)), file_(options.to == Offload::kFile) {
  const size_t head = WholePages(resident_ * sizeof(float));
  const size_t tail = WholePages((count_ - resident_) * sizeof(float));
  bytes_ = kArrays * (head + tail);
  if (bytes_ == 0) return;
  memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory_ == MAP_FAILED) Refuse(fmt::format("no memory for {} bytes of state", bytes_), errno);
  std::vector<std::pair<std::byte*, size_t>> tails;
  for (size_t i = 0; i < kArrays; ++i) {
    std::byte* const split = static_cast<std::byte*>(memory_) + i * (head + tail) + head;
    at_[i] = reinterpret_cast<float*>(split) - resident_;
    tails.emplace_back(split, tail);
  }
  if (!file_ || tail == 0) return;
  try {
    MapFile(
        options.folder.empty() ? std::filesystem::temp_directory_path().string() : options.folder,
        tails);
  } catch (...) {
    munmap(memory_, bytes_);
    throw;
  }
}

OptimizerState::~OptimizerState() {
  if (bytes_ > 0) munmap(memory_, bytes_);
}

void OptimizerState::Release(size_t begin, size_t end) const {
  if (!file_) return;
  for (float* const array : at_) {
    const auto page = static_cast<uintptr_t>(PageBytes());
    const auto from = reinterpret_cast<uintptr_t>(array + begin) / page * page;
    const auto to = reinterpret_cast<uintptr_t>(array + end);
    if (to > from) madvise(reinterpret_cast<void*>(from), to - from, MADV_DONTNEED);
  }
}

}  // namespace poolscope::trainer
