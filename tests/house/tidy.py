"""Style as a test: what the repository promises about itself, checked over a tree.

  tidy.py ROOT          checks; prints one line per fault, exit 1 if there is one
  tidy.py --self-test   plants one fault of each kind in a scratch tree and expects it to be found
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

# Who may include whom: DESIGN's arrows. A folder may always include itself.
ARROWS = {
    "trace": set(),
    "agent": {"trace"},
    "store": {"trace"},
    "advisor": {"store", "trace"},
    "collector": {"store", "advisor", "trace"},
    "viewer": {"store", "advisor", "trace"},
    "reference-trainer": set(),
    "cli": {"trace", "store", "advisor", "collector", "viewer", "interchange"},
}
CODE = (".cpp", ".h", ".cu", ".cuh", ".c")
SCRIPTS = (".py",)
VAGUE_NAMES = ("util", "utils", "common", "helper", "helpers", "manager", "misc")
DOC_PATH = re.compile(
    r"`((?:trace|agent|store|collector|advisor|viewer|reference-trainer|cli|tests|docs|scripts"
    r"|cmake|python)/[\w./-]+)`")


def files(root, suffixes):
    top = [root / name for name in list(ARROWS) + ["tests", "scripts", "cmake", "python"]]
    for folder in top:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.suffix in suffixes:
                yield path


def include_arrows(root):
    for folder, allowed in ARROWS.items():
        for path in files(root, CODE):
            if path.relative_to(root).parts[0] != folder:
                continue
            for number, line in enumerate(path.read_text().splitlines(), 1):
                found = re.match(r'\s*#\s*include\s*"([\w-]+)/', line)
                if found and found[1] in ARROWS.keys() - allowed - {folder}:
                    yield f"{path.relative_to(root)}:{number}: {folder} must not include {found[1]}"
        listing = root / folder / "CMakeLists.txt"
        text = listing.read_text() if listing.exists() else ""
        if folder != "agent" and re.search(r"link_libraries\([^)]*\bpoolscope_agent\b", text):
            yield f"{folder}/CMakeLists.txt: nothing links the agent"
        if folder == "agent" and re.search(r"SQLite|sqlite", text):
            yield "agent/CMakeLists.txt: the agent never links SQLite"


def tests_in_targets(root):
    listed = "\n".join(p.read_text() for p in (root / "tests").rglob("CMakeLists.txt"))
    for path in (root / "tests").rglob("*_test.cpp"):
        if path.name not in listed:
            yield f"{path.relative_to(root)}: in no target of tests/**/CMakeLists.txt"


def line_length(root):
    for path in files(root, CODE + SCRIPTS):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if len(line) > 100:
                yield f"{path.relative_to(root)}:{number}: {len(line)} columns, at most 100"


def file_length(root):
    for path in files(root, CODE):
        count = len(path.read_text().splitlines())
        if count > 500:
            yield f"{path.relative_to(root)}: {count} lines; over 500 usually hides two ideas"


def names(root):
    for path in files(root, CODE + SCRIPTS):
        if path.stem in VAGUE_NAMES:
            yield f"{path.relative_to(root)}: name it after its idea, not '{path.stem}'"


def doc_paths(root):
    documents = list((root / "docs").rglob("*.md")) + list(root.glob("*.md"))
    for document in documents:
        for number, line in enumerate(document.read_text().splitlines(), 1):
            for path in DOC_PATH.findall(line):
                if not (root / path).exists() and not list(root.glob(path + "*")):
                    yield f"{document.relative_to(root)}:{number}: no such path {path}"


def formatting(root):
    tool = shutil.which("clang-format-14") or shutil.which("clang-format")
    if tool is None:
        yield "clang-format-14 is not installed: run scripts/setup"
        return
    sources = [str(p) for p in files(root, CODE)]
    for i in range(0, len(sources), 50):
        done = subprocess.run([tool, "--dry-run", "-Werror", *sources[i:i + 50]],
                              stderr=subprocess.PIPE, text=True, cwd=root)
        for name in sorted({line.split(":")[0] for line in done.stderr.splitlines()
                            if "clang-format-violations" in line}):
            yield f"{pathlib.Path(name).relative_to(root)}: run {tool.split('/')[-1]} -i on it"


def scripts_parse(root):
    candidates = [p for p in (root / "scripts").glob("*")] + [root / ".ci" / "run"]
    for path in candidates:
        if path.is_file() and path.read_text().startswith("#!/usr/bin/env bash"):
            if subprocess.run(["bash", "-n", str(path)], stderr=subprocess.DEVNULL).returncode:
                yield f"{path.relative_to(root)}: bash cannot parse it"


CHECKS = (include_arrows, tests_in_targets, line_length, file_length, names, doc_paths, formatting,
          scripts_parse)


def check(root):
    faults = [fault for run in CHECKS for fault in run(root)]
    for fault in faults:
        print(fault)
    return faults


# One planted fault per check: file, its text, what the fault's line must contain.
PLANTED = {
    include_arrows: ("trace/up.h", '#include "store/store.h"\n', "must not include"),
    tests_in_targets: ("tests/trace/lost_test.cpp", "int lost;\n", "in no target"),
    line_length: ("trace/wide.h", "#pragma once\n\n// " + "x" * 110 + "\n", "113 columns"),
    file_length: ("trace/long.h", "#pragma once\n" + "\n" * 600, "601 lines"),
    names: ("trace/utils.h", "#pragma once\n", "not 'utils'"),
    doc_paths: ("docs/x.md", "see `trace/nowhere.h`\n", "no such path trace/nowhere.h"),
    formatting: ("trace/ugly.h", "#pragma once\n\nint   a ;\n", "-i on it"),
    scripts_parse: ("scripts/broken", "#!/usr/bin/env bash\nif\n", "cannot parse"),
}


def self_test():
    here = pathlib.Path(__file__).resolve().parents[2]
    for run in CHECKS:
        with tempfile.TemporaryDirectory() as scratch:
            root = pathlib.Path(scratch)
            for folder in list(ARROWS) + ["tests/trace", "docs", "scripts", ".ci"]:
                (root / folder).mkdir(parents=True)
            shutil.copy(here / ".clang-format", root)
            if list(run(root)):
                print(f"{run.__name__}: finds a fault in an empty tree")
                return 1
            name, text, expected = PLANTED[run]
            (root / name).write_text(text)
            if not any(expected in fault for fault in run(root)):
                print(f"{run.__name__}: did not find the planted fault in {name}")
                return 1
    return 0


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        sys.exit(self_test())
    sys.exit(1 if check(pathlib.Path(sys.argv[1]).resolve()) else 0)
