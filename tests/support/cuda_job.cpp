// cuda_job LINE...: a job on a device that is not there. Plays CUDA's driver, which loads the
// library that CUDA_INJECTION64_PATH names, and lets the stand-in libcupti play the device's part.
//   cuda                initialises CUDA
//   driver              loads CUDA's driver, a stand-in that knows the UUIDs of devices
//   push NAME, pop      NVTX ranges
//   thread LINE         that line on a thread of its own
//   fork                goes on in a child alone, which must end well
//   wait MS, _exit
// All else is the stand-in's; see standin_cupti.cpp. Given lines are separated by ";" as well.

#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <thread>

#include "tests/support/standin_cupti.h"

namespace {

bool InitialiseCuda() {
  const char* path = getenv("CUDA_INJECTION64_PATH");
  if (path == nullptr) return true;
  void* library = dlopen(path, RTLD_NOW);
  auto* entry = library != nullptr
                    ? reinterpret_cast<int (*)()>(dlsym(library, "InitializeInjection"))
                    : nullptr;
  if (entry != nullptr) return entry() == 1;
  fprintf(stderr, "cuda_job: %s\n", dlerror());
  return false;
}

bool Play(const std::string& line) {
  std::istringstream words(line);
  std::string word, rest;
  words >> word;
  std::getline(words >> std::ws, rest);
  if (word == "cuda") return InitialiseCuda();
  if (word == "driver") return dlopen(STANDIN_CUDA, RTLD_NOW) != nullptr;
  if (word == "push") return nvtxRangePushA(rest.c_str()) >= -2;
  if (word == "pop") return nvtxRangePop() >= -2;
  if (word == "wait") return usleep(static_cast<useconds_t>(atoi(rest.c_str()) * 1000)) == 0;
  if (word == "_exit") _exit(0);
  if (word == "thread") {
    bool done = false;
    std::thread([&] { done = Play(rest); }).join();
    return done;
  }
  if (word == "fork") {
    const pid_t child = fork();
    if (child == 0) return true;
    int status = 0;
    waitpid(child, &status, 0);
    exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
  }
  static auto* standin = reinterpret_cast<decltype(&standin_cupti_line)>(
      dlsym(dlopen(STANDIN_CUPTI, RTLD_NOW), "standin_cupti_line"));
  return standin(line.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    std::istringstream lines(argv[i]);
    for (std::string line; std::getline(lines >> std::ws, line, ';');) {
      if (!line.empty() && !Play(line)) return 2;
    }
  }
  return 0;
}
