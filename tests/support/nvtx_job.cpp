#include "tests/support/nvtx_job.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

namespace poolscope::support {
namespace {

std::string ReadAll(int file) {
  std::string text;
  char part[4096];
  for (ssize_t got; (got = read(file, part, sizeof(part))) > 0;) {
    text.append(part, static_cast<size_t>(got));
  }
  return text;
}

int ExitCode(pid_t pid) {
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace

Jobs::Jobs() {
  char name[] = "/dev/shm/poolscope-test-XXXXXX";
  run_directory = mkdtemp(name);
}

Jobs::~Jobs() {
  if (pid_ > 0) Finish();
  std::error_code ignored;
  std::filesystem::remove_all(run_directory, ignored);
}

pid_t Jobs::Spawn(const std::string& program, const std::vector<std::string>& arguments, int in,
                  int out, int err) {
  const std::string path = std::string(POOLSCOPE_TEST_PROGRAMS) + "/" + program;
  std::vector<std::string> settings = environment;
  settings.push_back("POOLSCOPE_RUN_DIR=" + run_directory);
  settings.push_back("POOLSCOPE_AGENT_LOG=1");
  if (attach) settings.push_back(std::string("NVTX_INJECTION64_PATH=") + POOLSCOPE_TEST_AGENT);
  std::vector<char*> argv = {const_cast<char*>(path.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const pid_t pid = fork();
  if (pid != 0) return pid;
  dup2(in, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  for (std::string& setting : settings) putenv(setting.data());
  if (before_exec != nullptr) before_exec();
  execv(path.c_str(), argv.data());
  _exit(127);
}

JobResult Jobs::Run(const std::string& program, const std::vector<std::string>& arguments) {
  char out_name[] = "/tmp/poolscope-out-XXXXXX";
  char err_name[] = "/tmp/poolscope-err-XXXXXX";
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const int out = mkostemp(out_name, O_CLOEXEC);
  const int err = mkostemp(err_name, O_CLOEXEC);
  unlink(out_name);
  unlink(err_name);
  JobResult result;
  result.exit_code = ExitCode(Spawn(program, arguments, nothing, out, err));
  lseek(out, 0, SEEK_SET);
  lseek(err, 0, SEEK_SET);
  result.out = ReadAll(out);
  result.err = ReadAll(err);
  for (const int file : {nothing, out, err}) close(file);
  return result;
}

SessionView Jobs::OnlySession() const {
  const std::vector<SessionView> sessions = Sessions();
  EXPECT_EQ(sessions.size(), 1u);
  return sessions.empty() ? SessionView() : sessions[0];
}

void Jobs::Start(const std::string& program, const std::vector<std::string>& arguments) {
  int in[2], out[2];
  ASSERT_EQ(pipe2(in, O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(out, O_CLOEXEC), 0);
  pid_ = Spawn(program, arguments, in[0], out[1], STDERR_FILENO);
  close(in[0]);
  close(out[1]);
  to_job_ = in[1];
  from_job_ = out[0];
}

std::string Jobs::Say(const std::string& line) {
  const std::string text = line + "\n";
  if (write(to_job_, text.data(), text.size()) < 0) return "";
  std::string answer;
  for (char c; read(from_job_, &c, 1) == 1 && c != '\n';) answer += c;
  return answer;
}

int Jobs::Finish() {
  close(to_job_);
  const int code = ExitCode(pid_);
  close(from_job_);
  pid_ = -1;
  return code;
}

}  // namespace poolscope::support
