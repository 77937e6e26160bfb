// nvtx_fork --before N --after N --children N: makes N ranges, forks children that each make N more
// on the stack of handles inherited from the parent, makes N more itself, waits, exits.
#include <nvtx3/nvToolsExt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static long Value(int argc, char** argv, const char* name) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (strcmp(argv[i], name) == 0) return atol(argv[i + 1]);
  }
  exit(2);
}

static void MakeRanges(nvtxDomainHandle_t domain, nvtxStringHandle_t name, long count) {
  nvtxEventAttributes_t attributes;
  memset(&attributes, 0, sizeof(attributes));
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  attributes.message.registered = name;
  for (long i = 0; i < count; ++i) {
    nvtxDomainRangePushEx(domain, &attributes);
    nvtxDomainRangePop(domain);
    if (i % 500 == 0) usleep(1000);  // slow enough that no ring fills
  }
}

int main(int argc, char** argv) {
  const long before = Value(argc, argv, "--before");
  const long after = Value(argc, argv, "--after");
  const long children = Value(argc, argv, "--children");
  nvtxDomainHandle_t domain = nvtxDomainCreateA("fork");
  nvtxStringHandle_t name = domain ? nvtxDomainRegisterStringA(domain, "inherited") : NULL;
  MakeRanges(domain, name, before);
  for (long i = 0; i < children; ++i) {
    if (fork() == 0) {
      MakeRanges(domain, name, after);
      exit(0);
    }
  }
  MakeRanges(domain, name, after);
  while (wait(NULL) > 0) {
  }
  return 0;
}
