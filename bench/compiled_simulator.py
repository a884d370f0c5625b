"""Compile what is simulated, for long runs of the simulator: they take half the time.

    .venv/bin/python -m bench.compiled_simulator DIRECTORY [--compare 10]
    DIRECTORY/kafkaesque sim run --seeds 200 --faults all --results seeds.jsonl

mypyc compiles a copy of the rooms that a run of the simulator imports; five minutes of two cores.
The histories are the same, byte for byte: `--compare` runs so many seeds both ways and says so.
Results carry the name of the sources that were compiled, so that they stand beside those of
`kafkaesque sim run`. A process keeps some 15 MB of each seed that it has run: run a few hundred
seeds at a time, with `--first`, into one file.

What mypyc does not take as it is, is changed in the copy:

- Compiled classes have no `__slots__`; they have no room for more attributes as it is.
- A name that several `except` clauses of a function bind gets one type.
- Modules with classes of msgspec are not compiled, except those `WITH_STRUCTS`: there, the classes
  go to a module beside it. Some others are `NOT_COMPILED`.
- A class that extends one of C's is an ordinary one (`NOT_NATIVE`).
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import kafkaesque

ROOMS_NOT_COMPILED = (
    "cli",
    "server",
    "spark",
    "testing",
    "registry",
    "gateway/registry",
    "protocols/amqp",
    "protocols/kafka",
)
#: mypyc refuses these, compiles them wrongly, or makes classes of which others cannot make theirs.
#: Modules that have classes of msgspec are found, and not named here.
NOT_COMPILED = (
    "routing/transformations/rules.py",
    "routing/exchanges/records.py",
    "admin/api/router.py",
    "admin/api/openapi.py",
    "admin/api/fan_out.py",
    "access/state.py",
    "access/audit.py",
    "env/network.py",
    "admin/series.py",
    "broker/coordinators/groups.py",
    "broker/coordinators/table_host.py",
    "broker/coordinators/table_hosts.py",
    "broker/coordinators/transactions.py",
    "broker/partitions/partition_tables.py",
    "groups/consumer/classic_members.py",
    "model/histogram.py",
    "model/log_line.py",
    "tables/log_table.py",
    "model/record_errors.py",
    # It reads the types of its fields, of which compiled classes keep less.
    "queues/decisions.py",
    "sim/faults.py",
    "sim/namesakes/transactor.py",
    # Its report goes from process to process.
    "sim/runner.py",
)
#: These have classes of msgspec among what is called often: those go to a module beside it.
WITH_STRUCTS = (
    "broker/metadata/cluster_state.py",
    "broker/peers/messages.py",
    "broker/replication/raft_replica.py",
)
NOT_NATIVE = {
    "broker/partitions/partition_sealing.py": "OpenedBatches",
    "env/network.py": "NameUnknown",
    "runtime/framing.py": "FrameRefused",
    "sim/dice.py": "Chance",
}
REPLACED = {
    # mypyc looks for the names of types among a module's own.
    "    payload: memoryview\n": '    payload: "memoryview"\n',
    # C has no such letters.
    r'"\ud800" <= each <= "\udfff"': "0xD800 <= ord(each) <= 0xDFFF",
}
#: The sources that were compiled, of which results carry the name.
AS_THEY_WERE = "sources"
FIRST_COMPARED = 941

_SETUP = """\
from concurrent.futures import ThreadPoolExecutor

# First of all: it stands in for the interpreter's own.
from setuptools import setup
from distutils.ccompiler import CCompiler
from mypyc.build import mypycify


def compile_beside(self, sources, output_dir=None, macros=None, include_dirs=None, debug=0,
                   extra_preargs=None, extra_postargs=None, depends=None):
    macros, objects, extra, pp, build = self._setup_compile(
        output_dir, macros, include_dirs, sources, depends, extra_postargs)
    words = self._get_cc_args(pp, debug, extra_preargs)
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda o: self._compile(o, *build[o], words, extra, pp), build))
    return objects


CCompiler.compile = compile_beside
files = open("modules.txt").read().split()
options = ["--config-file", "mypy.ini", "--explicit-package-bases", "--namespace-packages"]
extensions = mypycify(
    [*options, *files], opt_level="3", multi_file=True, target_dir="c", group_name="simulated")
setup(name="simulated", package_dir={"": "src"}, packages=[], ext_modules=extensions)
"""

#: Says of each module that a run imports where it is, and whether it makes classes of msgspec.
_LIST_MODULES = """\
import sys
import msgspec
import kafkaesque.sim.runner


def makes_structs(module):
    for each in vars(module).values():
        if isinstance(each, type) and each.__module__ == module.__name__:
            if issubclass(each, msgspec.Struct):
                return True
    return False


for name, module in sorted(sys.modules.items()):
    if name.startswith("kafkaesque."):
        print(module.__file__, makes_structs(module), sep="\\t")
"""

_MYPY = "[mypy]\nmypy_path = src\nfollow_imports = silent\nignore_missing_imports = True\n"

_LAUNCHER = """\
#!{python}
import os
import sys
from pathlib import Path

# The processes that run seeds find it, too.
os.environ["PYTHONPATH"] = {compiled!r}
sys.path[0] = {compiled!r}

import kafkaesque.cli.sim_results as results
from kafkaesque.cli.app import main

if __name__ == "__main__":
    results.PACKAGE = Path({sources!r})
    sys.exit(main())
"""

_SLOTS_OPTION = re.compile(r"(?m)^(@dataclass\(.*?)(?:, slots=True|slots=True, |slots=True)(.*\))$")


def simulated_modules() -> Iterator[str]:
    """Yield, relative to the package, the modules that a run imports and that can be compiled."""
    said = subprocess.run(
        [sys.executable, "-c", _LIST_MODULES], check=True, capture_output=True, text=True
    )
    package = Path(kafkaesque.__file__).parent
    for line in sorted(said.stdout.splitlines()):
        file, has_structs = line.split("\t")
        path = Path(file)
        name = path.relative_to(package).as_posix()
        is_left_out = name in NOT_COMPILED or name.startswith(ROOMS_NOT_COMPILED)
        if has_structs == "True" and name not in WITH_STRUCTS:
            is_left_out = True
        if path.suffix == ".py" and path.name != "__init__.py" and not is_left_out:
            yield name


def without_slots(text: str) -> str:
    """Return a module whose classes do not name their attributes."""
    text = _SLOTS_OPTION.sub(r"\1\2", text)
    text = text.replace("in self.__slots__:", "in self.__dataclass_fields__:")
    lines = text.splitlines(keepends=True)
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.ClassDef):
            continue
        for each in node.body:
            if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "__slots__":
                for at in range(each.lineno - 1, each.end_lineno or each.lineno):
                    lines[at] = ""
                if len(node.body) == 1:
                    lines[each.lineno - 1] = " " * each.col_offset + "pass\n"
    return "".join(lines)


def with_declared_errors(text: str) -> str:
    """Return a module in which a name that several clauses bind has one type in its function."""
    lines, added = text.splitlines(keepends=True), list[tuple[int, str]]()
    for function in ast.walk(ast.parse(text)):
        if not isinstance(function, ast.FunctionDef):
            continue
        kinds = dict[str, set[str]]()
        for node in ast.walk(function):
            if isinstance(node, ast.ExceptHandler) and node.name and node.type is not None:
                kinds.setdefault(node.name, set()).add(ast.unparse(node.type))
        for name, types in kinds.items():
            if len(types) > 1:
                first = function.body[1 if ast.get_docstring(function) else 0]
                added.append((first.lineno - 1, f"{' ' * first.col_offset}{name}: BaseException\n"))
    for at, line in sorted(added, reverse=True):
        lines.insert(at, line)
    return "".join(lines)


def with_found_in_lists(text: str) -> str:
    """Return a module that looks for nothing in `(*these, that)`, where mypyc breaks off."""
    lines = text.splitlines(keepends=True)
    found = [
        each
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Compare)
        for each in node.comparators
        if isinstance(each, ast.Tuple) and any(isinstance(part, ast.Starred) for part in each.elts)
    ]
    # From behind: what is inserted moves what follows. Offsets count bytes.
    for each in sorted(found, key=lambda each: (each.lineno, each.col_offset), reverse=True):
        at, end = each.lineno - 1, (each.end_lineno or 0) - 1
        for line, offset, word in (
            (end, each.end_col_offset or 0, ")"),
            (at, each.col_offset, "tuple("),
        ):
            data = lines[line].encode()
            lines[line] = (data[:offset] + word.encode() + data[offset:]).decode()
    return "".join(lines)


def split_structs(path: Path, module: str) -> None:
    """Move a module's classes of msgspec to one of their own beside it."""
    text = path.read_text("utf-8")
    lines = text.splitlines(keepends=True)
    imports, structs, names = list[ast.stmt](), list[ast.ClassDef](), {"msgspec.Struct"}
    for node in ast.parse(text).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports.append(node)
        elif isinstance(node, ast.ClassDef) and {ast.unparse(base) for base in node.bases} & names:
            structs.append(node)
            names.add(node.name)

    def cut(nodes: Sequence[ast.stmt]) -> list[str]:
        return ["".join(lines[node.lineno - 1 : node.end_lineno]) for node in nodes]

    apart = path.with_name(f"{path.stem}_structs.py")
    apart.write_text("\n".join([*cut(imports), *cut(structs)]), "utf-8")
    for struct in reversed(structs):
        del lines[struct.lineno - 1 : struct.end_lineno]
    moved = ", ".join(struct.name for struct in structs)
    lines.insert(imports[-1].end_lineno or 0, f"from {module}_structs import {moved}\n")
    path.write_text("".join(lines), "utf-8")


def make_ordinary(text: str, name: str) -> str:
    """Return a module of which one class is not compiled to one of C's."""
    changed = text.replace(f"\nclass {name}(", f"\n@mypyc_attr(native_class=False)\nclass {name}(")
    assert changed != text, f"there is no class {name}"
    at = re.search(r"(?m)^(from|import) (?!__future__)", changed)
    assert at is not None
    return f"{changed[: at.start()]}from mypy_extensions import mypyc_attr\n{changed[at.start() :]}"


def prepare(directory: Path) -> None:
    """Copy the sources, and change in the copy what mypyc does not take."""
    package = directory / "src" / "kafkaesque"
    names = list(simulated_modules())
    for copy in (package, directory / AS_THEY_WERE):
        shutil.copytree(
            Path(kafkaesque.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__")
        )
    # Packages are not compiled, and this one has a class that every door is reached by.
    (package / "env" / "__init__.py").rename(package / "env" / "whole.py")
    (package / "env" / "__init__.py").write_text("from kafkaesque.env.whole import Env as Env\n")
    names.append("env/whole.py")
    for name in names:
        path = package / name
        text = with_declared_errors(without_slots(path.read_text("utf-8")))
        text = with_found_in_lists(text)
        if name in NOT_NATIVE:
            text = make_ordinary(text, NOT_NATIVE[name])
        for old, new in REPLACED.items():
            text = text.replace(old, new)
        path.write_text(text, "utf-8")
        if name in WITH_STRUCTS:
            split_structs(path, f"kafkaesque.{name[:-3].replace('/', '.')}")
    (directory / "modules.txt").write_text("\n".join(f"src/kafkaesque/{name}" for name in names))
    (directory / "mypy.ini").write_text(_MYPY)
    (directory / "setup.py").write_text(_SETUP)


def has_compiler() -> bool:
    """Tell whether there is a C compiler."""
    return shutil.which(os.environ.get("CC", "cc")) is not None


def compile_in(directory: Path) -> None:
    """Compile the copy; what is compiled is imported before what it was compiled from."""
    flags = {"CFLAGS": "-march=native -DNDEBUG -fwrapv"}
    words = [sys.executable, "setup.py", "-q", "build_ext", "--build-lib", "src"]
    with (directory / "build.log").open("w") as log:
        subprocess.run(
            words,
            cwd=directory,
            env={**os.environ, **flags},
            check=True,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    launcher = directory / "kafkaesque"
    launcher.write_text(
        _LAUNCHER.format(
            python=sys.executable,
            compiled=str(directory / "src"),
            sources=str(directory / AS_THEY_WERE),
        )
    )
    launcher.chmod(0o755)


def compare(directory: Path, count: int) -> bool:
    """Run seeds both ways; tell whether all that is told of them is the same."""
    ours = Path(sys.executable).with_name("kafkaesque")
    is_same = True
    for seed in range(FIRST_COMPARED, FIRST_COMPARED + count):
        words = ["sim", "run", "--seed", str(seed), "--faults", "all"]
        told = [
            subprocess.run([each, *words], capture_output=True, text=True, check=False).stdout
            for each in (ours, directory / "kafkaesque")
        ]
        is_same = is_same and told[0] == told[1] != ""
        print(f"seed {seed}: {'the same' if told[0] == told[1] else 'ANOTHER HISTORY'}", flush=True)
    return is_same


def main() -> int:
    if not has_compiler():
        raise SystemExit("bench.compiled_simulator: there is no C compiler; install gcc")
    parser = argparse.ArgumentParser(prog="bench.compiled_simulator", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("directory", type=Path, help="to be made; must not be there")
    parser.add_argument("--compare", type=int, default=0, metavar="SEEDS")
    arguments = parser.parse_args()
    directory: Path = arguments.directory.resolve()
    directory.mkdir(parents=True)
    prepare(directory)
    compile_in(directory)
    print(f"compiled: {directory}/kafkaesque sim run ...", flush=True)
    return 0 if compare(directory, arguments.compare) else 1


if __name__ == "__main__":
    sys.exit(main())
