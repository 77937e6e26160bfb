#pragma once

#include <atomic>

#include "trace/session_writer.h"

// The agent in its process: one session, switched off for good when something is wrong, started
// anew in a forked child. Events enter through Inside.

namespace poolscope::agent {

// Of the process, for ever: never destroyed, since events come until the very end.
extern SessionWriter session;

// Sets up what every later call needs; once per process, any thread. False: the agent stays off.
bool InitProcess();

// Stops recording for good, says why on stderr if POOLSCOPE_AGENT_LOG=1.
void SwitchOff(const char* why);

// The calling thread's writer, null before its first event. Initial-exec TLS (see CMakeLists.txt) is
// what makes it cheap; of that a library that is loaded late may have a few words.
extern constinit thread_local ThreadWriter* current_writer;

// Finds the writer of a thread that has none, starting the session if need be. Null: the agent is
// off, or there is no room, or the thread was interrupted while inside; then, if `counts`, the
// event is counted as missing.
ThreadWriter* EnterSlowly(bool counts);

// A thread's stay in the agent for one event.
class Inside {
 public:
  explicit Inside(bool counts) : writer_(current_writer) {
    if (writer_ == nullptr || writer_->busy) [[unlikely]]
      writer_ = EnterSlowly(counts);
    if (writer_ == nullptr) [[unlikely]]
      return;
    writer_->busy = true;
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  ~Inside() {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (writer_ != nullptr) writer_->busy = false;
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

  explicit operator bool() const { return writer_ != nullptr; }
  ThreadWriter& operator*() const { return *writer_; }
  ThreadWriter* operator->() const { return writer_; }
  ThreadWriter* get() const { return writer_; }

 private:
  ThreadWriter* writer_;
};

}  // namespace poolscope::agent
