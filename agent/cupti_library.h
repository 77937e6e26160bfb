#pragma once

#include <cstdint>

#include "agent/cupti_layout.h"
#include "trace/reason.h"

namespace poolscope::agent::cupti {

// What of libcupti is used. Results are CUptiResult; those at the end are null in versions that
// lack them.
struct Library {
  void* handle;
  int (*get_version)(uint32_t* version);
  int (*get_timestamp)(uint64_t* timestamp);
  int (*set_thread_id_type)(uint32_t type);
  int (*set_attribute)(int attribute, size_t* bytes, void* value);
  int (*register_callbacks)(void (*request)(uint8_t** buffer, size_t* bytes, size_t* most_records),
                            void (*complete)(void* context, uint32_t stream, uint8_t* buffer,
                                             size_t bytes, size_t valid_bytes));
  int (*enable)(Kind kind);
  int (*flush_all)(uint32_t flags);
  int (*next_record)(uint8_t* buffer, size_t valid_bytes, const uint32_t** record);
  int (*dropped_records)(void* context, uint32_t stream, size_t* dropped);
  int (*subscribe)(void** subscriber, void (*callback)(void*, uint32_t, uint32_t, const void*),
                   void* user);
  int (*enable_callback)(uint32_t enable, void* subscriber, uint32_t domain, uint32_t callback);
  int (*callback_name)(uint32_t domain, uint32_t callback, const char** name);
  // Optional.
  int (*register_timestamp)(uint64_t (*now_ns)());
  int (*subscribe_named)(void** subscriber,
                         void (*callback)(void*, uint32_t, uint32_t, const void*), void* user,
                         SubscriberParameters* parameters);
};

// Fills it from the library that POOLSCOPE_CUPTI names, else the one in the process, else the one
// beside the process's libcudart, else one that the loader finds. False: why there is none. It
// stays loaded.
bool LoadLibrary(Library* library, Reason* why);

}  // namespace poolscope::agent::cupti
