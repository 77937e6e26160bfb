#include "agent/cupti_library.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#include <initializer_list>

namespace poolscope::agent::cupti {
namespace {

struct Entry {
  const char* name;
  void** at;
  bool needed;
};

bool Fill(void* handle, Library* library, Reason* why) {
  library->handle = handle;
  const auto at = [](auto* member) { return reinterpret_cast<void**>(member); };
  const Entry entries[] = {
      {"cuptiGetVersion", at(&library->get_version), true},
      {"cuptiGetTimestamp", at(&library->get_timestamp), true},
      {"cuptiSetThreadIdType", at(&library->set_thread_id_type), true},
      {"cuptiActivitySetAttribute", at(&library->set_attribute), true},
      {"cuptiActivityRegisterCallbacks", at(&library->register_callbacks), true},
      {"cuptiActivityEnable", at(&library->enable), true},
      {"cuptiActivityFlushAll", at(&library->flush_all), true},
      {"cuptiActivityGetNextRecord", at(&library->next_record), true},
      {"cuptiActivityGetNumDroppedRecords", at(&library->dropped_records), true},
      {"cuptiSubscribe", at(&library->subscribe), true},
      {"cuptiEnableCallback", at(&library->enable_callback), true},
      {"cuptiGetCallbackName", at(&library->callback_name), true},
      {"cuptiActivityRegisterTimestampCallback", at(&library->register_timestamp), false},
      {"cuptiSubscribe_v2", at(&library->subscribe_named), false},
  };
  for (const Entry& entry : entries) {
    *entry.at = dlsym(handle, entry.name);
    if (*entry.at == nullptr && entry.needed) {
      why->Set("libcupti has no %s", entry.name);
      return false;
    }
  }
  return true;
}

void* Open(const char* path, int more = 0) {
  return dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE | more);
}

// A library of the process by how its file's name begins.
struct Loaded {
  const char* beginning;
  char path[PATH_MAX];
};

int FindLoaded(dl_phdr_info* info, size_t, void* argument) {
  auto* wanted = static_cast<Loaded*>(argument);
  const char* slash = strrchr(info->dlpi_name, '/');
  const char* name = slash != nullptr ? slash + 1 : info->dlpi_name;
  if (strncmp(name, wanted->beginning, strlen(wanted->beginning)) != 0) return 0;
  if (strlen(info->dlpi_name) >= sizeof(wanted->path)) return 0;
  strcpy(wanted->path, info->dlpi_name);
  return 1;
}

bool Find(const char* beginning, Loaded* loaded) {
  loaded->beginning = beginning;
  return dl_iterate_phdr(FindLoaded, loaded) != 0;
}

constexpr const char* kNames[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8",
                                  "libcupti.so"};

// CUDA's folders, seen from the one of libcudart: a toolkit's (new, old), a Python wheel's.
void* OpenBesideRuntime() {
  Loaded runtime;
  if (!Find("libcudart.so", &runtime)) return nullptr;
  char* slash = strrchr(runtime.path, '/');
  if (slash == nullptr) return nullptr;
  *slash = '\0';
  for (const char* folder : {"", "/../extras/CUPTI/lib64", "/../../cuda_cupti/lib"}) {
    for (const char* name : kNames) {
      char path[PATH_MAX + 64];
      snprintf(path, sizeof(path), "%s%s/%s", runtime.path, folder, name);
      if (void* handle = Open(path); handle != nullptr) return handle;
    }
  }
  return nullptr;
}

void* OpenSomewhere() {
  for (const char* name : kNames) {
    if (void* handle = Open(name); handle != nullptr) return handle;
  }
  return nullptr;
}

}  // namespace

bool LoadLibrary(Library* library, Reason* why) {
  const char* chosen = getenv("POOLSCOPE_CUPTI");
  if (chosen != nullptr && chosen[0] != '\0') {
    void* handle = Open(chosen);
    if (handle != nullptr) return Fill(handle, library, why);
    why->Set("POOLSCOPE_CUPTI: %s", dlerror());
    return false;
  }
  Loaded loaded;
  void* handle = Find("libcupti.so", &loaded) ? Open(loaded.path, RTLD_NOLOAD) : nullptr;
  if (handle == nullptr) handle = OpenBesideRuntime();
  if (handle == nullptr) handle = OpenSomewhere();
  if (handle != nullptr) return Fill(handle, library, why);
  why->Set("no libcupti found: set POOLSCOPE_CUPTI to its path");
  return false;
}

}  // namespace poolscope::agent::cupti
