#include "cli/group_signals.h"

#include <linux/close_range.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <new>

namespace poolscope {
namespace {

constexpr long kPatienceNs = 20'000'000;

}  // namespace

struct GroupSignals::Counts {
  std::atomic<int> of[65];
};

GroupSignals::~GroupSignals() {
  if (witness_ > 0) {
    kill(witness_, SIGKILL);
    while (waitpid(witness_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  if (counts_ != nullptr) munmap(counts_, sizeof(Counts));
}

Status GroupSignals::Start(const sigset_t& signals) {
  void* shared =
      mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return Error{std::strerror(errno)};
  counts_ = new (shared) Counts();
  const pid_t parent = getpid();
  witness_ = fork();
  if (witness_ < 0) return Error{std::strerror(errno)};
  if (witness_ > 0) return {};
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_NAME, "poolscope-sig");
  if (getppid() != parent) _exit(0);
  close_range(0, ~0U, 0);  // holds no end of the job's pipes
  while (true) {
    const int number = sigwaitinfo(&signals, nullptr);
    if (number > 0 && number < 65) counts_->of[number].fetch_add(1);
  }
}

bool GroupSignals::HasGroup(int number) {
  if (witness_ <= 0 || number < 0 || number >= 65) return false;
  sigset_t same;
  sigemptyset(&same);
  sigaddset(&same, number);
  timespec patience{0, kPatienceNs};
  nanosleep(&patience, nullptr);
  const timespec none{0, 0};
  while (sigtimedwait(&same, nullptr, &none) == number) {
  }
  const int count = counts_->of[number].load();
  if (count == known_[number]) return false;
  known_[number] = count;
  return true;
}

}  // namespace poolscope
