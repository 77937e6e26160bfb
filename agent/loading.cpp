// A program that was linked with the agent, or that had it preloaded, has it before NVTX, CUDA and
// NCCL look for their tools: this tells them where it is.

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/single_threaded.h>

namespace poolscope::agent {
namespace {

constexpr const char* kVariables[] = {"NVTX_INJECTION64_PATH", "CUDA_INJECTION64_PATH",
                                      "NCCL_PROFILER_PLUGIN"};

// Sets the variables that are not set, for this process and its children. Where one of them names
// this library, whoever set it chose what is to be seen; once there are other threads, they may be
// reading the environment. In both cases it is left as it is.
__attribute__((constructor)) void TellLibraries() {
  Dl_info own;
  char path[PATH_MAX];
  if (!__libc_single_threaded || dladdr(kVariables, &own) == 0 ||
      realpath(own.dli_fname, path) == nullptr) {
    return;
  }
  for (const char* name : kVariables) {
    char named[PATH_MAX];
    const char* value = getenv(name);
    if (value != nullptr && realpath(value, named) != nullptr && strcmp(named, path) == 0) return;
  }
  for (const char* name : kVariables) setenv(name, path, 0);
}

}  // namespace
}  // namespace poolscope::agent
