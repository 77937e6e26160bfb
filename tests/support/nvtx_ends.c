// nvtx_ends SCENARIO: the ways in which processes and threads come and go, each with NVTX calls
// around it. Prints what it does; every push/pop named "kept" is one that a tool must not lose.

#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;
static char* self;

static void Keep(void) {
  nvtxRangePushA("kept");
  nvtxRangePop();
}

static void Say(const char* text) {
  printf("%s\n", text);
  fflush(stdout);
}

static void* Run(void* (*body)(void*)) {
  pthread_t thread;
  void* result = NULL;
  pthread_create(&thread, NULL, body, NULL);
  pthread_join(thread, &result);
  return result;
}

static void WaitForAll(void) {
  int status;
  while (wait(&status) > 0) {
    if (WIFEXITED(status)) printf("child exited %d\n", WEXITSTATUS(status));
    if (WIFSIGNALED(status)) printf("child killed %d\n", WTERMSIG(status));
  }
  fflush(stdout);
}

static void* ExitsTheProcess(void* unused) {
  Keep();
  exit(5);
  return unused;
}

static void* LeavesARangeOpen(void* unused) {
  nvtxRangePushA("left open");
  Keep();
  return unused;
}

static void* WaitsForCancel(void* ready) {
  nvtxRangePushA("left open");
  Keep();
  *(volatile int*)ready = 1;
  while (pause() != 0) {
  }
  return ready;
}

static void* ForksAndExits(void* unused) {
  Keep();
  if (fork() == 0) {
    Keep();
    _exit(3);
  }
  WaitForAll();
  return unused;
}

static void* OutlivesMain(void* unused) {
  usleep(20000);
  Keep();
  Say("the other thread goes on");
  exit(7);
  return unused;
}

static void AtExit(void) {
  Keep();
  Say("exit handler");
}

static volatile sig_atomic_t handled;
static sigjmp_buf back;

static void Handler(int number) {
  handled = number;
  Keep();
}

static void Forks(int number) {
  (void)number;
  if (++handled > 60) return;
  if (fork() == 0) {
    Keep();
    _exit(0);
  }
}

static void JumpsBack(int number) {
  (void)number;
  Keep();
  siglongjmp(back, 1);
}

static void Execute(const char* scenario) {
  char* arguments[] = {self, (char*)scenario, NULL};
  execv(self, arguments);
}

static void Spawn(const char* scenario) {
  char* arguments[] = {self, (char*)scenario, NULL};
  pid_t child;
  posix_spawn(&child, self, NULL, NULL, arguments, environ);
}

static void Plugin(void) {
  void* library = dlopen(NVTX_PROBE_PLUGIN, RTLD_NOW);
  void (*record)(void) = library ? (void (*)(void))dlsym(library, "nvtx_plugin_record") : NULL;
  if (record == NULL) exit(1);
  record();
  dlclose(library);
}

static void Scenario(const char* scenario) {
  const int is_open = strncmp(scenario, "open_", 5) == 0;  // the same inside a range
  const char* end = is_open ? scenario + 5 : scenario;
  Keep();
  fprintf(stderr, "to stderr\n");
  Say(scenario);
  if (is_open) nvtxRangePushA("left open");
  if (strcmp(end, "exit") == 0) exit(4);
  if (strcmp(end, "_exit") == 0) _exit(4);
  if (strcmp(end, "quick_exit") == 0) quick_exit(4);
  if (strcmp(end, "abort") == 0) abort();
  if (strcmp(end, "segv") == 0) *(volatile int*)8 = 0;
  if (strcmp(end, "kill") == 0) raise(SIGKILL);
  if (strcmp(end, "term") == 0) raise(SIGTERM);
  if (strcmp(end, "exit_in_thread") == 0) Run(ExitsTheProcess);
  if (strcmp(end, "thread_in_range") == 0) Run(LeavesARangeOpen);
  if (strcmp(end, "main_exits_first") == 0) {
    pthread_t thread;
    pthread_create(&thread, NULL, OutlivesMain, NULL);
    pthread_exit(NULL);
  }
  if (strcmp(end, "cancel") == 0) {
    static volatile int ready;
    pthread_t thread;
    pthread_create(&thread, NULL, WaitsForCancel, (void*)&ready);
    while (!ready) usleep(1000);
    pthread_cancel(thread);
    pthread_join(thread, NULL);
  }
  if (strcmp(end, "fork") == 0) {
    if (fork() == 0) {
      Keep();
      exit(3);
    }
    WaitForAll();
  }
  if (strcmp(end, "fork_silent") == 0) {  // a child that makes no call
    if (fork() == 0) exit(3);
    WaitForAll();
  }
  if (strcmp(end, "fork_killed") == 0) {
    if (fork() == 0) {
      Keep();
      raise(SIGKILL);
    }
    WaitForAll();
  }
  if (strcmp(end, "fork_in_thread") == 0) Run(ForksAndExits);
  if (strcmp(end, "fork_exec") == 0) {
    if (fork() == 0) Execute("exit");
    WaitForAll();
  }
  if (strcmp(end, "vfork_exec") == 0) {
    if (vfork() == 0) {
      execl(self, self, "exit", (char*)NULL);
      _exit(127);
    }
    WaitForAll();
  }
  if (strcmp(end, "spawn") == 0) {
    Spawn("exit");
    WaitForAll();
  }
  if (strcmp(end, "exec") == 0) Execute("exit");
  if (strcmp(end, "system") == 0) printf("shell exited %d\n", system("exit 6") >> 8);
  if (strcmp(end, "daemon") == 0) {  // its grandchild goes on without it
    int ends[2];
    if (pipe(ends) != 0) exit(1);
    if (fork() == 0) {
      if (fork() != 0) _exit(0);
      setsid();
      Keep();
      close(ends[1]);
      _exit(0);
    }
    close(ends[1]);
    char c;
    while (read(ends[0], &c, 1) > 0) {
    }
    WaitForAll();
  }
  if (strcmp(end, "at_exit") == 0) atexit(AtExit);
  if (strcmp(end, "signal") == 0) {
    signal(SIGUSR1, Handler);
    raise(SIGUSR1);
    printf("handled %d\n", handled == SIGUSR1);
  }
  if (strcmp(end, "fork_in_handler") == 0) {  // wherever the thread is, in the agent too
    const struct sigaction action = {.sa_handler = Forks, .sa_flags = SA_RESTART};
    const struct itimerval often = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};
    Keep();  // NVTX itself cannot be forked while it starts
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    while (handled < 60) {
      nvtxRangePushA("loop");
      nvtxRangePop();
    }
    setitimer(ITIMER_REAL, &never, NULL);
    WaitForAll();
  }
  if (strcmp(end, "segv_handled") == 0) {
    signal(SIGSEGV, JumpsBack);
    if (sigsetjmp(back, 1) == 0) *(volatile int*)8 = 0;
    Keep();
    Say("went on");
  }
  if (strcmp(end, "dlclose") == 0) {
    for (int i = 0; i < 3; ++i) Plugin();
  }
  if (strcmp(end, "close_all") == 0) {
    for (int fd = 3; fd < 256; ++fd) close(fd);
    Run(LeavesARangeOpen);
  }
  Keep();
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  self = argv[0];
  Scenario(argv[1]);
  Say("done");
  return 0;
}
