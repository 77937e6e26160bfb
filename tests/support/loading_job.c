// loading_job WHAT...: does what a job's libraries do to load their tool, in the order given.
//   nvtx   an NVTX range; the library is found by NVTX itself
//   cuda   what cuInit does: loads $CUDA_INJECTION64_PATH, calls InitializeInjection; then a kernel
//          by the stand-in libcupti that $POOLSCOPE_CUPTI names
//   nccl   what NCCL 2.28 does with its first communicator: loads $NCCL_PROFILER_PLUGIN, opens and
//          closes a communicator with one all-reduce
//   api    a range by the functions of poolscope/agent.h, in the process or by NVTX's variable
//   fork   goes on in a child, and waits for it
//   exec   goes on in a new image of this program
// Exit code 3: a library that a variable names could not be loaded, or had no entry point.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void* Entry(const char* variable, const char* symbol) {
  const char* path = getenv(variable);
  void* library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
  void* entry = library ? dlsym(library, symbol) : NULL;
  if (entry) return entry;
  fprintf(stderr, "loading_job: no %s by %s\n", symbol, variable);
  exit(3);
}

static void Cuda(void) {
  int (*initialize)(void);
  void* entry = Entry("CUDA_INJECTION64_PATH", "InitializeInjection");
  memcpy(&initialize, &entry, sizeof(entry));
  if (initialize() != 1) exit(4);
  _Bool (*play)(const char*);
  entry = Entry("POOLSCOPE_CUPTI", "standin_cupti_line");
  memcpy(&play, &entry, sizeof(entry));
  if (!play("launch cudaLaunchKernel_v7000 correlation=1") ||
      !play("kernel gemm correlation=1 device=0 context=1 stream=7 at=100 for=50")) {
    exit(4);
  }
}

// ncclProfiler_v5_t and the members that a collective needs, where NCCL's header has them.
struct Profiler {
  const char* name;
  int (*init)(void** context, uint64_t communicator, int* mask, const char* name, int nodes,
              int ranks, int rank, void* log);
  int (*start)(void* context, void** handle, void* descriptor);
  int (*stop)(void* handle);
  int (*record)(void* handle, int state, void* arguments);
  int (*finalize)(void* context);
};
struct Collective {
  uint64_t type;
  void* parent;
  int rank;
  uint64_t sequence;
  const char* function;
  const void* send;
  void* receive;
  size_t count;
  int root;
  const char* datatype;
  uint8_t channels, warps;
  const char* algorithm;
  const char* protocol;
  void* group;
};

static void Nccl(void) {
  const struct Profiler* profiler = Entry("NCCL_PROFILER_PLUGIN", "ncclProfiler_v5");
  struct Collective all_reduce;
  void* context = NULL;
  void* handle = NULL;
  int mask = 0;
  memset(&all_reduce, 0, sizeof(all_reduce));
  all_reduce.type = 1 << 1;
  all_reduce.function = "AllReduce";
  all_reduce.datatype = "ncclFloat32";
  all_reduce.algorithm = "Ring";
  all_reduce.protocol = "Simple";
  all_reduce.count = 1024;
  if (profiler->init(&context, 7, &mask, "world", 1, 1, 0, NULL) != 0) exit(4);
  profiler->start(context, &handle, &all_reduce);
  if (handle) profiler->stop(handle);
  profiler->finalize(context);
}

static void Api(void) {
  uint64_t (*name)(const char*);
  void (*begin)(uint32_t, uint64_t);
  void (*end)(void);
  const char* const symbols[] = {"poolscope_agent_name", "poolscope_agent_begin",
                                 "poolscope_agent_end"};
  void* entries[3];
  for (int i = 0; i < 3; ++i) {
    entries[i] = dlsym(RTLD_DEFAULT, symbols[i]);
    if (!entries[i]) entries[i] = Entry("NVTX_INJECTION64_PATH", symbols[i]);
  }
  memcpy(&name, &entries[0], sizeof(name));
  memcpy(&begin, &entries[1], sizeof(begin));
  memcpy(&end, &entries[2], sizeof(end));
  begin(1, name("called"));
  end();
}

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "nvtx") == 0) {
      nvtxRangePushA("loaded");
      nvtxRangePop();
    } else if (strcmp(argv[i], "cuda") == 0) {
      Cuda();
    } else if (strcmp(argv[i], "nccl") == 0) {
      Nccl();
    } else if (strcmp(argv[i], "api") == 0) {
      Api();
    } else if (strcmp(argv[i], "fork") == 0) {
      int status = 0;
      if (fork() != 0) {
        wait(&status);
        return WEXITSTATUS(status);
      }
    } else if (strcmp(argv[i], "exec") == 0) {
      argv[i] = argv[0];
      execv("/proc/self/exe", argv + i);
      return 5;
    } else {
      return 2;
    }
  }
  return 0;
}
