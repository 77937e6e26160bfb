// A shared object with its own copy of NVTX, for nvtx_probe two_libraries.

#include <poolscope/annotate.h>

__attribute__((visibility("default"))) void nvtx_plugin_record(void);

void nvtx_plugin_record(void) {
  nvtxDomainHandle_t domain = nvtxDomainCreateA("shared domain");
  nvtxEventAttributes_t attr;
  memset(&attr, 0, sizeof(attr));
  attr.version = NVTX_VERSION;
  attr.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attr.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attr.message.ascii = "from the library";
  nvtxDomainRangePushEx(domain, &attr);
  nvtxDomainRangePop(domain);
  poolscope_begin(POOLSCOPE_INPUT, poolscope_name("load"));
  poolscope_end();
}
