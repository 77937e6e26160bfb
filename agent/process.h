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

// One line on stderr if POOLSCOPE_AGENT_LOG=1: "poolscope agent: <what>: <why>".
void Say(const char* what, const char* why);

// Stops recording for good, and says why: in a note where there is no session yet, else as `mark`
// in the session.
void SwitchOff(const char* why, AgentOff mark = AgentOff::kCheckFailed);

// The calling thread's writer, null before its first event, and whether it is inside the agent.
// Initial-exec TLS (see CMakeLists.txt) is what makes them cheap; of that a library that is loaded
// late may have a few words.
extern constinit thread_local ThreadWriter* current_writer;
extern constinit thread_local bool is_inside;

// Finds the writer of a thread that has none, starting the session if need be. Null: the agent is
// off, or there is no room, or a signal handler came upon a thread inside; then, if `counts`, the
// event is counted as missing.
ThreadWriter* EnterSlowly(bool counts);

// A thread's stay in the agent for one event.
class Inside {
 public:
  explicit Inside(bool counts) : writer_(current_writer) {
    if (writer_ == nullptr || is_inside) [[unlikely]]
      writer_ = EnterSlowly(counts);
    if (writer_ == nullptr) [[unlikely]]
      return;
    is_inside = true;
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  ~Inside() {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (writer_ != nullptr) is_inside = false;
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

// A thread's stay for a registration, which takes locks. False: a signal handler came upon a thread
// inside, which may hold them.
class Registering {
 public:
  Registering() : allowed_(!is_inside) {
    if (allowed_) is_inside = true;
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  ~Registering() {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (allowed_) is_inside = false;
  }
  Registering(const Registering&) = delete;
  Registering& operator=(const Registering&) = delete;

  explicit operator bool() const { return allowed_; }

 private:
  bool allowed_;
};

}  // namespace poolscope::agent
