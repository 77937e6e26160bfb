#pragma once

#include <signal.h>
#include <spawn.h>
#include <sys/types.h>
#include <sys/wait.h>

#include <cstdint>
#include <vector>

namespace poolscope {

// A process that sleeps, with that environment and no other, for as long as the object lives.
class ChildProcess {
 public:
  explicit ChildProcess(std::vector<const char*> environment) {
    const char* const arguments[] = {"sleep", "100", nullptr};
    environment.push_back(nullptr);
    posix_spawn(&pid_, "/bin/sleep", nullptr, nullptr, const_cast<char**>(arguments),
                const_cast<char**>(environment.data()));
  }
  ~ChildProcess() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  uint32_t pid() const { return static_cast<uint32_t>(pid_); }

 private:
  pid_t pid_ = 0;
};

}  // namespace poolscope
