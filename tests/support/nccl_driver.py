"""NCCL's side of its profiler plugin, for jobs that tests run: loads the library that
NCCL_PROFILER_PLUGIN names as NCCL does (RTLD_NOW | RTLD_LOCAL), and speaks one version of the
API. Where each field lies was computed with offsetof from NVIDIA's headers, not from the agent's.
"""

import ctypes
import os
import struct
import _ctypes

GROUP, COLL, P2P, PROXY_OP, KERNEL_CH, CE_COLL = 1, 2, 4, 8, 64, 1 << 12
KERNEL_CH_STOP = 22
SIZE = 160  # more than any version's descriptor

_NAMED = {"name": 24, "communicator": 32, "sequence": 40, "function": 48, "count": 72, "root": 80}
_P2P_NAMED = {"name": 24, "communicator": 32, "function": 40, "datatype": 56, "count": 64,
              "peer": 72}
_COLL_V4 = {"sequence": 24, "function": 32, "count": 56, "root": 64, "datatype": 72,
            "channels": 80, "algorithm": 88, "protocol": 96}
_P2P_V4 = {"function": 24, "datatype": 40, "count": 48, "peer": 56, "channels": 60}
OFFSETS = {
    1: {"coll": dict(_NAMED, datatype=84, channels=104, algorithm=106, protocol=107),
        "p2p": _P2P_NAMED},
    2: {"coll": dict(_NAMED, datatype=88, channels=104, algorithm=112, protocol=120),
        "p2p": _P2P_NAMED},
    3: {"coll": dict(_NAMED, datatype=88, channels=96, algorithm=104, protocol=112),
        "p2p": _P2P_NAMED},
}
for _version in (4, 5, 6, 7):
    OFFSETS[_version] = {"coll": _COLL_V4, "p2p": _P2P_V4}
# The group that an operation is enqueued with: to v4 its parent.
GROUP_AT = {"coll": 104, "p2p": 64}

# Version 1 says these by number.
FUNCTIONS = ["Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce", "SendRecv", "Send",
             "Recv"]
DATATYPES = ["ncclInt8", "ncclUint8", "ncclInt32", "ncclUint32", "ncclInt64", "ncclUint64",
             "ncclFloat16", "ncclFloat32", "ncclFloat64", "ncclBfloat16"]
ALGORITHMS = ["Tree", "Ring"]
PROTOCOLS = ["LL", "LL128", "Simple"]

_pointer, _int, _u64 = ctypes.c_void_p, ctypes.c_int, ctypes.c_uint64


class _Plugin(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("init", _pointer), ("start", _pointer),
                ("stop", _pointer), ("record", _pointer), ("finalize", _pointer)]


class Nccl:
    """One load of the plugin. Every call's result must be ncclSuccess."""

    def __init__(self, version, path=None):
        self.version = version
        self.library = ctypes.CDLL(path or os.environ["NCCL_PROFILER_PLUGIN"],
                                   mode=os.RTLD_NOW | os.RTLD_LOCAL)
        plugin = _Plugin.in_dll(self.library, f"ncclProfiler_v{version}")
        self.name = plugin.name.decode()
        if version < 4:
            arguments = [_pointer, _pointer]
        elif version == 4:
            arguments = [_pointer, _pointer, ctypes.c_char_p, _u64, _int, _int, _int, _pointer]
        else:
            arguments = [_pointer, _u64, _pointer, ctypes.c_char_p, _int, _int, _int, _pointer]
        self._init = ctypes.CFUNCTYPE(_int, *arguments)(plugin.init)
        self._start = ctypes.CFUNCTYPE(_int, _pointer, _pointer, _pointer)(plugin.start)
        self._stop = ctypes.CFUNCTYPE(_int, _pointer)(plugin.stop)
        self._record = ctypes.CFUNCTYPE(_int, _pointer, _int, _pointer)(plugin.record)
        self._finalize = ctypes.CFUNCTYPE(_int, _pointer)(plugin.finalize)
        self.mask = ctypes.c_int(-1)
        self.kept = []  # texts that descriptors point to

    def communicator(self, name, communicator, rank, ranks):
        context = _pointer()
        out, mask = ctypes.byref(context), ctypes.byref(self.mask)
        name = name.encode() if name else None
        if self.version < 4:
            assert self._init(out, mask) == 0
        elif self.version == 4:
            assert self._init(out, mask, name, communicator, 1, ranks, rank, None) == 0
        else:
            assert self._init(out, communicator, mask, name, 1, ranks, rank, None) == 0
        return Communicator(self, context.value, name, communicator, rank)

    def stop(self, handle):
        if handle:  # NCCL makes no further calls for a null handle
            assert self._stop(handle) == 0

    def stop_channel(self, handle, timer):
        if not handle:
            return
        if self.version >= 4:
            arguments = struct.pack("Q", timer)
            assert self._record(handle, KERNEL_CH_STOP, arguments) == 0
        self.stop(handle)

    def unload(self):
        _ctypes.dlclose(self.library._handle)


class Communicator:
    def __init__(self, nccl, context, name, communicator, rank):
        self.nccl, self.context, self.name = nccl, context, name
        self.communicator, self.rank = communicator, rank

    def _begin(self, event_type, parent):
        descriptor = bytearray(b"\xcc" * SIZE)
        struct.pack_into("<Q" if self.nccl.version >= 5 else "<B", descriptor, 0, event_type)
        struct.pack_into("<Qi", descriptor, 8, parent or 0, self.rank)
        return descriptor

    def _text(self, descriptor, offset, text):
        kept = ctypes.create_string_buffer(text.encode()) if text else None
        self.nccl.kept.append(kept)
        struct.pack_into("<Q", descriptor, offset, ctypes.addressof(kept) if kept else 0)

    def _named(self, descriptor, offsets, key, text, numbers):
        if self.nccl.version == 1:
            descriptor[offsets[key]] = numbers.index(text)
        else:
            self._text(descriptor, offsets[key], text)

    def _identity(self, descriptor, offsets):
        if "communicator" in offsets:
            kept = ctypes.create_string_buffer(self.name) if self.name else None
            self.nccl.kept.append(kept)
            struct.pack_into("<QQ", descriptor, offsets["name"],
                             ctypes.addressof(kept) if kept else 0, self.communicator)

    def _grouped(self, descriptor, kind, group):
        at = 8 if self.nccl.version < 5 else GROUP_AT[kind]
        struct.pack_into("<Q", descriptor, at, group or 0)

    def _call(self, descriptor):
        handle = _pointer(0xdead)
        buffer = (ctypes.c_char * SIZE).from_buffer(descriptor)
        assert self.nccl._start(self.context, ctypes.byref(handle), ctypes.byref(buffer)) == 0
        return handle.value

    def coll(self, function, count, datatype="ncclFloat32", algorithm="Ring", protocol="Simple",
             channels=2, sequence=0, root=0, event_type=COLL, group=None):
        descriptor = self._begin(event_type, None)
        if event_type == COLL:
            self._grouped(descriptor, "coll", group)
        at = OFFSETS[self.nccl.version]["coll"]
        self._identity(descriptor, at)
        self._named(descriptor, at, "function", function, FUNCTIONS)
        self._named(descriptor, at, "datatype", datatype, DATATYPES)
        if event_type == COLL:
            self._named(descriptor, at, "algorithm", algorithm, ALGORITHMS)
            self._named(descriptor, at, "protocol", protocol, PROTOCOLS)
            descriptor[at["channels"]] = channels
        struct.pack_into("<Q", descriptor, at["sequence"], sequence)
        struct.pack_into("<Qi", descriptor, at["count"], count, root)
        return self._call(descriptor)

    def p2p(self, function, count, peer, datatype="ncclFloat32", channels=1, group=None):
        descriptor = self._begin(P2P, None)
        self._grouped(descriptor, "p2p", group)
        at = OFFSETS[self.nccl.version]["p2p"]
        self._identity(descriptor, at)
        self._named(descriptor, at, "function", function, FUNCTIONS)
        self._named(descriptor, at, "datatype", datatype, DATATYPES)
        struct.pack_into("<Qi", descriptor, at["count"], count, peer)
        if "channels" in at:
            descriptor[at["channels"]] = channels
        return self._call(descriptor)

    def channel(self, parent, channel, timer=0):
        descriptor = self._begin(KERNEL_CH, parent)
        descriptor[24] = channel
        struct.pack_into("<Q", descriptor, 32, timer)
        return self._call(descriptor)

    def proxy(self, parent, pid=None):
        descriptor = self._begin(PROXY_OP, parent)
        struct.pack_into("<iBxxxi", descriptor, 24, pid or os.getpid(), 0, 1)
        return self._call(descriptor)

    def group(self):
        return self._call(self._begin(GROUP, None))

    def other(self, event_type):
        return self._call(self._begin(event_type, None))

    def close(self):
        assert self.nccl._finalize(self.context) == 0
