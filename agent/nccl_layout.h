#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

// What NCCL hands to a profiler plugin, version by version (NCCL 2.23 to 2.31, plugin API v1 to
// v7), and the one form in which the agent looks at it. In every version a descriptor is a type, a
// parent's handle, a rank, and at kDetailsAt what the type says.

namespace poolscope::agent::nccl {

enum EventType : uint64_t {
  kGroup = 1 << 0,     // what one kernel does is enqueued
  kColl = 1 << 1,      // a collective was enqueued
  kP2p = 1 << 2,       // a send or receive was enqueued
  kProxyOp = 1 << 3,   // a proxy moves data for it
  kKernelCh = 1 << 6,  // a channel of its kernel runs; from v3
  kCeColl = 1 << 12,   // a collective by copy engine was enqueued; from v6
};
inline constexpr int kKernelChStop = 22;  // state: the channel stopped, with its time from v4

inline constexpr size_t kDetailsAt = 24;
struct HeadV1 {  // to v4
  uint8_t type;
  void* parent;
  int rank;
};
struct HeadV5 {
  uint64_t type;
  void* parent;
  int rank;
};
static_assert(offsetof(HeadV1, parent) == 8 && offsetof(HeadV1, rank) == 16);
static_assert(offsetof(HeadV5, parent) == 8 && offsetof(HeadV5, rank) == 16);

struct CollV1 {
  const char* name;
  uint64_t communicator;
  uint64_t sequence;
  uint8_t function;
  const void* send;
  void* receive;
  size_t count;
  int root;
  uint8_t datatype;
  uint32_t operation;
  size_t traffic_bytes;
  uint8_t channels, warps, algorithm, protocol;
  int is_collnet, is_nvls;
};
struct CollV2 {
  const char* name;
  uint64_t communicator;
  uint64_t sequence;
  const char* function;
  const void* send;
  void* receive;
  size_t count;
  int root;
  const char* datatype;
  size_t traffic_bytes;
  uint8_t channels, warps;
  const char* algorithm;
  const char* protocol;
};
struct CollV4 {  // later versions add to its end; kCeColl begins as far as the datatype like it
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
};
struct CollV3 {
  const char* name;
  uint64_t communicator;
  CollV4 rest;
};
struct CollV5 {
  CollV4 rest;
  void* group;  // before, it is the parent
};
struct P2pV1 {
  const char* name;
  uint64_t communicator;
  uint8_t function;
  void* buffer;
  uint8_t datatype;
  size_t count;
  int peer;
};
struct P2pV2 {  // and v3
  const char* name;
  uint64_t communicator;
  const char* function;
  void* buffer;
  const char* datatype;
  size_t count;
  int peer;
};
struct P2pV4 {  // later versions add to its end
  const char* function;
  void* buffer;
  const char* datatype;
  size_t count;
  int peer;
  uint8_t channels;
};
struct P2pV5 {
  P2pV4 rest;
  void* group;
};
struct ProxyOp {
  pid_t pid;
  uint8_t channel;
  int peer, steps, chunk_bytes, is_send;
};
struct KernelChV4 {  // of v3 the channel alone
  uint8_t channel;
  uint64_t timer;  // GPU's globaltimer, ns; 0: none
};
static_assert(offsetof(CollV1, traffic_bytes) == 72 && offsetof(CollV1, channels) == 80 &&
              sizeof(CollV1) == 96);
static_assert(offsetof(CollV2, channels) == 80 && offsetof(CollV2, protocol) == 96);
static_assert(offsetof(CollV3, rest) == 16);
static_assert(offsetof(CollV4, datatype) == 48 && offsetof(CollV4, channels) == 56 &&
              offsetof(CollV4, protocol) == 72);
static_assert(offsetof(P2pV1, datatype) == 32 && offsetof(P2pV1, peer) == 48);
static_assert(offsetof(P2pV2, datatype) == 32 && offsetof(P2pV2, peer) == 48);
static_assert(offsetof(P2pV4, count) == 24 && offsetof(P2pV4, channels) == 36);
static_assert(offsetof(CollV5, group) == 80 && offsetof(P2pV5, group) == 40);
static_assert(offsetof(ProxyOp, channel) == 4 && offsetof(ProxyOp, peer) == 8);
static_assert(offsetof(KernelChV4, timer) == 8);

// What a descriptor of any version says. Texts are NCCL's own, null where it says none.
struct Descriptor {
  uint64_t type = 0;
  void* parent = nullptr;
  int rank = 0;
  const char* communicator_name = nullptr;  // to v3, where init does not say it
  uint64_t communicator = 0;
  const char* function = nullptr;
  const char* datatype = nullptr;
  const char* algorithm = nullptr;
  const char* protocol = nullptr;
  uint64_t count = 0;     // elements
  uint64_t sequence = 0;  // kColl and kCeColl
  int root_or_peer = 0;
  void* group = nullptr;  // handle of the group it was enqueued with
  uint32_t channels = 0;  // that its kernel runs on; 0: not known
  pid_t pid = 0;          // kProxyOp
  uint64_t timer = 0;     // kKernelCh
  uint8_t channel = 0;    // kKernelCh
};

// `descriptor` is NCCL's of API `version`. Types that the agent does not look at give their type
// alone.
Descriptor Read(int version, const void* descriptor);

// Bytes of one element, 0 where the type is not known.
uint32_t ElementBytes(const char* datatype);

}  // namespace poolscope::agent::nccl
