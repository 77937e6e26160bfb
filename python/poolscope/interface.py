"""The C interface of the agent (poolscope/agent.h), where this process has or may load the agent.

Elsewhere every function does nothing and gives 0.
"""

import ctypes
import math
import os
import types

NO_VALUE = 2**64 - 1  # a number that does not apply

_VARIABLES = ("NVTX_INJECTION64_PATH", "CUDA_INJECTION64_PATH", "NCCL_PROFILER_PLUGIN")
_LIBRARY = "libpoolscope_agent.so"

_u32, _u64, _text, _double = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_char_p, ctypes.c_double
Words = _u64 * 11  # struct poolscope_transfer

# Result, arguments; the functions of agent.h without their prefix.
_FUNCTIONS = {
    "attached": (ctypes.c_int,),
    "name": (_u64, _text),
    "worker": (None, _text, _u32, _text),
    "link": (None, _text, _text, _text, _u64, _u64),
    "setting": (None, _text, _text),
    "push": (None, _u64),
    "pop": (None,),
    "begin": (None, _u32, _u64),
    "end": (None,),
    "end_work": (None, _u64, _u64, _u64, _u64, _u64),
    "end_wait": (None, _u64, _u64),
    "end_transfer": (None, Words),
    "queue_begin": (_u64, _u64, Words),
    "queue_end": (None, _u64),
    "discard": (None, _u64, Words),
    "fault": (None, _u64, _u64, _u64, _u64, _u64, _u64),
    "step": (None, _u64, _u64, _u64, _u64, _u64, _double),
    "counter": (_u64, _text),
    "sample": (None, _u64, _double),
}
_PLAIN = ("attached", "name", "push", "pop", "begin", "end")  # are given what this module made


def _number(value):
    """Numbers of NumPy and PyTorch too; what is none does not apply."""
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return NO_VALUE


def _real(value):
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def words(*values):
    try:
        return Words(*values)
    except TypeError:
        return Words(*map(_number, values))


def _forgiving(function):
    """A mark never fails: what C's types refuse is converted, where that can be."""
    converters = [_number if kind in (_u32, _u64) else _real if kind is _double else lambda v: v
                  for kind in function.argtypes]

    def called(*arguments):
        try:
            return function(*arguments)
        except ctypes.ArgumentError:
            return function(*(convert(v) for convert, v in zip(converters, arguments)))

    return called


def _libraries():
    """Where the agent may be: in the process already, or where a variable names it."""
    yield None
    for variable in _VARIABLES:
        path = os.environ.get(variable, "")
        if os.path.basename(path) == _LIBRARY:
            yield path


def _load():
    # PyDLL: the calls take some ten nanoseconds, less than giving up the interpreter's lock.
    for path in _libraries():
        try:
            library = ctypes.PyDLL(path)
            functions = {}
            for name, (result, *arguments) in _FUNCTIONS.items():
                function = getattr(library, "poolscope_agent_" + name)
                function.restype, function.argtypes = result, arguments
                functions[name] = function if name in _PLAIN else _forgiving(function)
            return types.SimpleNamespace(**functions)
        except (OSError, AttributeError):  # not there, or of another version
            continue
    return types.SimpleNamespace(**{name: lambda *_: 0 for name in _FUNCTIONS})


agent = _load()

# Called where a thread begins to say what it does: `python -m poolscope` adds nothing there then.
own = types.SimpleNamespace(marks=lambda: None)

_names = {}


def encoded(text):
    return text.encode("utf-8", "replace")


def name_of(text):
    """The number of a name."""
    number = _names.get(text)
    if number is None:
        number = agent.name(encoded(text))
        if len(_names) < 65536:
            _names[text] = number
    return number
