#pragma once

#include <cstdint>

#include "agent/nccl_layout.h"

// NCCL's operations from their call to their completion, on communicators of this process.
//
// NCCL stops a collective when it is enqueued. It is complete when, after that, every channel of
// its kernel has stopped, or, where NCCL does not show those, the last proxy operation. What comes
// for an operation afterwards (a replayed graph) makes it run again.
// Any thread may call anything. All memory is static; what finds no room is counted as missing.

namespace poolscope::agent::nccl {

struct Communicator;

// The communicator of `hash` in which this process is `rank` of `ranks` (0: not known), to be
// closed again. `name` may be null. Null: there are too many.
Communicator* OpenCommunicator(const char* name, uint64_t hash, int rank, int ranks);
// For API versions that name the communicator in each operation instead.
Communicator* OpenNamelessCommunicator();
void CloseCommunicator(Communicator* communicator);

// Handles are numbers, never null for what is recorded; an outdated one is known as such.
void* Start(Communicator* communicator, const Descriptor& descriptor);
void Stop(void* handle);
void StopChannel(void* handle, uint64_t timer);  // kKernelChStop; timer 0: not known

// Which parts NCCL was asked to show, so that completion waits for them (some seconds at most).
void Expect(bool channels, bool proxies);

// For fork.
void LockOperations();
void UnlockOperations();
void ForgetOperationsInChild();

}  // namespace poolscope::agent::nccl
