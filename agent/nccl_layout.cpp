#include "agent/nccl_layout.h"

#include <string.h>

#include <iterator>

namespace poolscope::agent::nccl {
namespace {

// The numbers of v1 (nccl.h and NCCL 2.23's enumerations).
constexpr const char* kFunctions[] = {"Broadcast", "Reduce",   "AllGather", "ReduceScatter",
                                      "AllReduce", "SendRecv", "Send",      "Recv"};
constexpr const char* kAlgorithms[] = {"Tree",      "Ring", "CollnetDirect", "CollnetChain", "NVLS",
                                       "NVLS_Tree", "PAT"};
constexpr const char* kProtocols[] = {"LL", "LL128", "Simple"};
struct Datatype {
  const char* name;
  uint32_t bytes;
};
constexpr Datatype kDatatypes[] = {
    {"ncclInt8", 1},    {"ncclUint8", 1},    {"ncclInt32", 4},      {"ncclUint32", 4},
    {"ncclInt64", 8},   {"ncclUint64", 8},   {"ncclFloat16", 2},    {"ncclFloat32", 4},
    {"ncclFloat64", 8}, {"ncclBfloat16", 2}, {"ncclFloat8e4m3", 1}, {"ncclFloat8e5m2", 1}};

template <size_t n>
const char* Named(const char* const (&names)[n], uint8_t number) {
  return number < n ? names[number] : nullptr;
}

template <typename T>
const T& Details(const void* descriptor) {
  return *reinterpret_cast<const T*>(static_cast<const char*>(descriptor) + kDetailsAt);
}

// What kColl of v2 and later have in common.
template <typename C>
void TakeColl(const C& coll, Descriptor& out) {
  out.sequence = coll.sequence;
  out.function = coll.function;
  out.count = coll.count;
  out.root_or_peer = coll.root;
  out.datatype = coll.datatype;
  out.channels = coll.channels;
  out.algorithm = coll.algorithm;
  out.protocol = coll.protocol;
}

void ReadColl(int version, const void* descriptor, Descriptor& out) {
  const auto named = [&](const auto& coll) {
    out.communicator_name = coll.name;
    out.communicator = coll.communicator;
  };
  if (version == 1) {
    const auto& coll = Details<CollV1>(descriptor);
    named(coll);
    out.sequence = coll.sequence;
    out.function = Named(kFunctions, coll.function);
    out.count = coll.count;
    out.root_or_peer = coll.root;
    out.datatype = coll.datatype < std::size(kDatatypes) ? kDatatypes[coll.datatype].name : nullptr;
    out.channels = coll.channels;
    out.algorithm = Named(kAlgorithms, coll.algorithm);
    out.protocol = Named(kProtocols, coll.protocol);
  } else if (version == 2) {
    named(Details<CollV2>(descriptor));
    TakeColl(Details<CollV2>(descriptor), out);
  } else if (version == 3) {
    named(Details<CollV3>(descriptor));
    TakeColl(Details<CollV3>(descriptor).rest, out);
  } else {
    TakeColl(Details<CollV4>(descriptor), out);
  }
}

void ReadP2p(int version, const void* descriptor, Descriptor& out) {
  const auto take = [&](const auto& p2p) {
    out.count = p2p.count;
    out.root_or_peer = p2p.peer;
  };
  if (version == 1) {
    const auto& p2p = Details<P2pV1>(descriptor);
    take(p2p);
    out.communicator_name = p2p.name;
    out.communicator = p2p.communicator;
    out.function = Named(kFunctions, p2p.function);
    out.datatype = p2p.datatype < std::size(kDatatypes) ? kDatatypes[p2p.datatype].name : nullptr;
  } else if (version <= 3) {
    const auto& p2p = Details<P2pV2>(descriptor);
    take(p2p);
    out.communicator_name = p2p.name;
    out.communicator = p2p.communicator;
    out.function = p2p.function;
    out.datatype = p2p.datatype;
  } else {
    const auto& p2p = Details<P2pV4>(descriptor);
    take(p2p);
    out.function = p2p.function;
    out.datatype = p2p.datatype;
    out.channels = p2p.channels;
  }
}

}  // namespace

Descriptor Read(int version, const void* descriptor) {
  Descriptor out;
  const auto* old = static_cast<const HeadV1*>(descriptor);
  out.type = version < 5 ? old->type : static_cast<const HeadV5*>(descriptor)->type;
  out.parent = old->parent;
  out.rank = old->rank;
  if (version < 5) out.group = out.parent;
  switch (out.type) {
    case kColl:
      ReadColl(version, descriptor, out);
      if (version >= 5) out.group = Details<CollV5>(descriptor).group;
      break;
    case kP2p:
      ReadP2p(version, descriptor, out);
      if (version >= 5) out.group = Details<P2pV5>(descriptor).group;
      break;
    case kProxyOp:
      out.pid = Details<ProxyOp>(descriptor).pid;
      break;
    case kKernelCh:
      out.channel = Details<KernelChV4>(descriptor).channel;
      if (version >= 4) out.timer = Details<KernelChV4>(descriptor).timer;
      break;
    case kCeColl: {
      const auto& coll = Details<CollV4>(descriptor);
      out.sequence = coll.sequence;
      out.function = coll.function;
      out.count = coll.count;
      out.root_or_peer = coll.root;
      out.datatype = coll.datatype;
      break;
    }
    default:
      break;
  }
  return out;
}

uint32_t ElementBytes(const char* datatype) {
  if (datatype == nullptr) return 0;
  for (const Datatype& each : kDatatypes) {
    if (strcmp(each.name, datatype) == 0) return each.bytes;
  }
  return 0;
}

}  // namespace poolscope::agent::nccl
