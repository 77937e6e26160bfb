#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "tests/support/nvtx_session_view.h"

namespace poolscope::support {

struct JobResult {
  int exit_code = -1;  // -signal when it was killed
  std::string out, err;
};

// Real programs under the agent, with a run folder of their own under /dev/shm.
class Jobs {
 public:
  Jobs();
  ~Jobs();
  Jobs(const Jobs&) = delete;
  Jobs& operator=(const Jobs&) = delete;

  std::string run_directory;             // removed with everything in it
  std::vector<std::string> environment;  // NAME=value beside the usual
  void (*before_exec)() = nullptr;       // in the child
  bool attach = true;                    // false: no tool at all

  JobResult Run(const std::string& program, const std::vector<std::string>& arguments);
  std::vector<SessionView> Sessions() const { return ViewSessions(run_directory); }
  SessionView OnlySession() const;

  // A job that goes on while the test looks: Say writes a line to its input and waits for a line
  // of output.
  void Start(const std::string& program, const std::vector<std::string>& arguments);
  std::string Say(const std::string& line);
  int Finish();  // closes its input; the exit code
  pid_t pid() const { return pid_; }

 private:
  pid_t Spawn(const std::string& program, const std::vector<std::string>& arguments, int in,
              int out, int err);

  pid_t pid_ = -1;
  int to_job_ = -1;
  int from_job_ = -1;
};

}  // namespace poolscope::support
