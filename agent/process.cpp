#include "agent/process.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/cupti_source.h"
#include "agent/lanes.h"
#include "agent/nccl_operations.h"
#include "agent/registry.h"
#include "trace/run_directory.h"

namespace poolscope::agent {

constinit SessionWriter session;
constinit thread_local ThreadWriter* current_writer = nullptr;
constinit thread_local bool is_inside = false;

namespace {

enum class State { kFresh, kOn, kOff };

std::atomic<State> state{State::kFresh};
pthread_key_t exit_key;
pthread_once_t init_once = PTHREAD_ONCE_INIT;

// With no slot to be had, a thread asks again only after this long.
constexpr uint64_t kRetryNs = 1'000'000;
constinit thread_local uint64_t retry_at_ns = 0;

void ThreadExits(void* writer) {
  if (writer != current_writer) return;  // a forked child's copy of the parent's value
  const Registering registering;
  current_writer = nullptr;
  session.Detach(static_cast<ThreadWriter*>(writer));
}

// A signal handler that forks upon a thread inside the agent, which may hold the locks: then the
// child is left as it is, but switched off. It leaves a note; the session is its parent's.
void BeforeFork() {
  if (is_inside) return;
  nccl::LockOperations();
  LockLanes();
  LockRegistry();
  session.LockForFork();
}

void AfterForkInParent() {
  if (is_inside) return;
  session.UnlockInParent();
  UnlockRegistry();
  UnlockLanes();
  nccl::UnlockOperations();
}

void AfterForkInChild() {
  if (is_inside) {
    state.store(State::kOff, std::memory_order_relaxed);
    return LeaveNote("forked by a signal handler that came upon the agent at work");
  }
  session.ForgetInChild();
  ResetRegistryLock();
  ResetLanesLock();
  nccl::ForgetOperationsInChild();
  cupti::ForgetInChild();
  current_writer = nullptr;
  retry_at_ns = 0;
  pthread_setspecific(exit_key, nullptr);
}

void ProcessEnds() { session.MarkEnded(); }

void Init() {
  if (!session.Init()) return SwitchOff("no memory for the table of names");
  if (pthread_key_create(&exit_key, ThreadExits) != 0) {
    return SwitchOff("the process has no pthread key left");
  }
  if (pthread_atfork(BeforeFork, AfterForkInParent, AfterForkInChild) != 0 ||
      at_quick_exit(ProcessEnds) != 0) {
    return SwitchOff("no memory for the fork and exit handlers");
  }
  state.store(State::kOn, std::memory_order_release);
}

__attribute__((destructor)) void AtExit() { ProcessEnds(); }

void CountMissing(bool counts) {
  if (counts) session.Lose(LossCause::kNoRing);
}

ThreadWriter* AttachThread() {
  if (!session.started()) {
    Reason why;
    if (!session.Start(&why)) {
      SwitchOff(why.text);
      return nullptr;
    }
  }
  if (retry_at_ns != 0 && static_cast<uint64_t>(MonotonicNs()) < retry_at_ns) return nullptr;
  ThreadWriter* writer = session.Attach();
  if (writer != nullptr && pthread_setspecific(exit_key, writer) != 0) {
    session.Detach(writer);
    writer = nullptr;
  }
  retry_at_ns = writer != nullptr ? 0 : static_cast<uint64_t>(MonotonicNs()) + kRetryNs;
  return writer;
}

}  // namespace

bool InitProcess() {
  pthread_once(&init_once, Init);
  return state.load(std::memory_order_acquire) == State::kOn;
}

void Say(const char* what, const char* why) {
  const char* log = getenv("POOLSCOPE_AGENT_LOG");
  if (log == nullptr || strcmp(log, "1") != 0) return;
  char line[640];
  const int bytes = snprintf(line, sizeof(line), "poolscope agent: %s: %s\n", what, why);
  if (write(STDERR_FILENO, line, static_cast<size_t>(bytes)) < 0) return;
}

void SwitchOff(const char* why, AgentOff mark) {
  if (state.exchange(State::kOff) == State::kOff) return;
  session.MarkAgentOff(mark);
  if (!session.started()) LeaveNote(why);
  Say("off", why);
}

ThreadWriter* EnterSlowly(bool counts) {
  if (state.load(std::memory_order_relaxed) != State::kOn) return nullptr;
  if (is_inside) {
    CountMissing(counts);
    return nullptr;
  }
  is_inside = true;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  ThreadWriter* writer = AttachThread();
  current_writer = writer;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  is_inside = false;
  if (writer == nullptr) CountMissing(counts);
  return writer;
}

}  // namespace poolscope::agent
