"""python -m poolscope [--pool NAME] [--role ROLE] FILE | -m MODULE [ARGUMENT...]

Runs a Python program as python itself would, with marks at its optimizer steps, data loading,
collectives and queues, for `poolscope run` or `poolscope collect` to see. A thread that trains
becomes a worker of the pool (default: trainer); with --pool the main thread is one from the start.
"""

import os
import runpy
import sys
import types

from . import automatic
from .activity import become_worker

_ROLES = ("compute", "update", "rollout", "trainer", "other")


def _fail(why):
    sys.stderr.write(f"poolscope: {why} (see python -m poolscope --help)\n")
    sys.exit(2)


def _options(words):
    """(options, rest): what stands before the program's name."""
    options = {}
    while words and words[0].startswith("-") and words[0] != "-m":
        option, equals, value = words.pop(0).partition("=")
        if option in ("-h", "--help"):
            print(__doc__.strip())
            sys.exit(0)
        if option not in ("--pool", "--role"):
            _fail(f"there is no option {option}")
        if not equals:
            if not words:
                _fail(f"{option} needs a value")
            value = words.pop(0)
        options[option[2:]] = value
    if options.get("role", "other") not in _ROLES:
        _fail(f"there is no role {options['role']}, only {', '.join(_ROLES)}")
    pool = options.get("pool", "trainer")
    if not pool or any(c.isspace() for c in pool):
        _fail(f"a pool's name is one word, not {pool!r}")
    return options, words


def _hide_own_frames():
    """Tracebacks begin with the program, as they do without this."""
    show = sys.excepthook

    def shown(kind, error, trace):
        own = (__file__, runpy.__file__, "<frozen runpy>")
        while trace is not None and trace.tb_frame.f_code.co_filename in own:
            trace = trace.tb_next
        show(kind, error.with_traceback(trace), trace)

    sys.excepthook = shown


def _run_file(path, arguments):
    try:
        with open(path, "rb") as file:
            source = file.read()
    except OSError as error:
        _fail(f"can't open {path}: {error.strerror}")
    sys.argv = [path, *arguments]
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = os.path.dirname(os.path.realpath(path))
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=path, __builtins__=__builtins__, __package__=None,
                           __cached__=None)
    sys.modules["__main__"] = module
    exec(compile(source, path, "exec", dont_inherit=True), module.__dict__)


def main():
    options, words = _options(sys.argv[1:])
    if not words or words == ["-m"]:
        _fail("which program?")
    pool = options.get("pool", "trainer")
    automatic.install(pool, options.get("role", pool if pool in _ROLES else "other"))
    if "pool" in options:
        become_worker()
    _hide_own_frames()
    if words[0] == "-m":
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        _run_file(words[0], words[1:])


main()
