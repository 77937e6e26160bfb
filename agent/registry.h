#pragma once

#include <cstdint>

#include "agent/nvtx.h"
#include "agent/schema.h"

// What jobs register: domains, schemas, counters. Each NVTX client library registers its own, so
// the same name comes several times and must give the same thing. Registering takes a lock;
// looking up does not. Nothing is ever removed, and a forked child keeps all of it.

namespace poolscope::agent {

// A domain's handle is its index; 0 is NVTX's default domain.
uint32_t RegisterDomain(uint32_t name);  // 0 when there are too many
inline uint32_t DomainOf(nvtxDomainHandle_t handle) {
  const auto index = reinterpret_cast<uintptr_t>(handle);
  return index < kMaxDomains ? static_cast<uint32_t>(index) : 0;
}
inline nvtxDomainHandle_t HandleOfDomain(uint32_t index) {
  return reinterpret_cast<nvtxDomainHandle_t>(uintptr_t{index});
}

uint32_t NameOfDomain(uint32_t index);  // string id, 0 for the default domain

// Give the id that the job passes with its payloads, 0 when there are too many.
uint64_t RegisterSchema(uint32_t domain, const nvtxPayloadSchemaAttr_t& attributes);
uint64_t RegisterEnum(uint32_t domain, const nvtxPayloadEnumAttr_t& attributes);
const Schema* FindSchema(uint32_t domain, uint64_t id);

struct Counter {
  uint32_t domain;
  uint32_t count;  // values in one sample: 1, or the fields of a group; 0: cannot be recorded
  bool is_float;   // of a single counter
  uint32_t bytes;  // of one sample in a batch
  uint64_t clock;  // of the times that come with samples (agent/clocks.h)
  Field time;      // when the sample was taken, where the group has such a member: else 0 bytes
  Field fields[kMaxSchemaFields];  // name: the counter's
};
uint64_t RegisterCounter(uint32_t domain, const nvtxCounterAttr_t& attributes);
const Counter* FindCounter(uint32_t domain, uint64_t id);

// Scopes that jobs register: paths such as "GPU[CUDAID:0]".
uint64_t RegisterScope(uint32_t domain, const nvtxScopeAttr_t& attributes);
uint32_t FindScope(uint32_t domain, uint64_t id);  // the path's string id, 0: none or predefined

// For fork.
void LockRegistry();
void UnlockRegistry();
void ResetRegistryLock();

}  // namespace poolscope::agent
