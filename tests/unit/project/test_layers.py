"""The layer contracts in pyproject.toml must be able to fail: each planted import is found."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import grimp
import pytest

from tests.documentation.table import blocks_run_by, this_file

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "src" / "kafkaesque"

# Where an import is planted, what it imports, and how the linter names it.
PLANTED = [
    ("model", "kafkaesque.env", "kafkaesque.model.planted -> kafkaesque.env"),
    ("raft", "kafkaesque.storage", "kafkaesque.raft.planted -> kafkaesque.storage"),
    ("broker", "kafkaesque.runtime", "kafkaesque.broker.planted -> kafkaesque.runtime"),
    ("gateway", "kafkaesque.server", "kafkaesque.gateway.planted -> kafkaesque.server"),
    ("server", "kafkaesque.sim", "kafkaesque.server.planted -> kafkaesque.sim"),
    ("broker", "asyncio", "kafkaesque.broker.planted -> asyncio"),
    ("groups", "time", "kafkaesque.groups.planted -> time"),
    ("routing", "random", "kafkaesque.routing.planted -> random"),
    ("routing", "kafkaesque.protocols", "kafkaesque.routing.planted -> kafkaesque.protocols"),
    ("storage", "os.path", "kafkaesque.storage.planted -> os"),
    ("raft", "random", "kafkaesque.raft.planted -> random"),
    ("membership", "socket", "kafkaesque.membership.planted -> socket"),
    ("access", "kafkaesque.groups", "kafkaesque.access.planted -> kafkaesque.groups"),
    ("access", "secrets", "kafkaesque.access.planted -> secrets"),
    ("spark", "kafkaesque.access", "kafkaesque.spark.planted -> kafkaesque.access"),
    ("membership", "kafkaesque.raft", "kafkaesque.membership.planted -> kafkaesque.raft"),
    (
        "protocols/text",
        "kafkaesque.protocols.kafka",
        "kafkaesque.protocols.text.planted -> kafkaesque.protocols.kafka",
    ),
    ("server", "rich.table", "kafkaesque.server.planted -> rich"),
    ("console", "kafkaesque.broker", "kafkaesque.console.planted -> kafkaesque.broker"),
    ("admin", "kafkaesque.console", "kafkaesque.admin.planted -> kafkaesque.console"),
    ("client", "kafkaesque.queues", "kafkaesque.client.planted -> kafkaesque.queues"),
    ("client", "kafkaesque.gateway", "kafkaesque.client.planted -> kafkaesque.gateway"),
    ("spark", "kafkaesque.broker", "kafkaesque.spark.planted -> kafkaesque.broker"),
    ("spark", "kafkaesque.storage", "kafkaesque.spark.planted -> kafkaesque.storage"),
    ("model", "pyarrow", "kafkaesque.model.planted -> pyarrow"),
]


def rooms() -> list[Path]:
    return sorted(path.parent.relative_to(PACKAGE) for path in PACKAGE.rglob("__init__.py"))


@pytest.fixture
def empty_rooms(tmp_path: Path) -> Path:
    """A package with all our rooms and nothing in them, which keeps every contract."""
    for room in rooms():
        folder = tmp_path / "kafkaesque" / room
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "__init__.py").touch()
    return tmp_path


def lint(folder: Path) -> tuple[int, str]:
    """Runs our contracts over the package in that folder; returns the exit code and the words."""
    linter = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run(
        [linter, "--no-logo", "--no-cache", "--config", ROOT / "pyproject.toml"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_rooms_with_nothing_in_them_keep_the_contracts(empty_rooms: Path) -> None:
    code, words = lint(empty_rooms)
    assert code == 0, words


def test_every_planted_import_is_found(empty_rooms: Path) -> None:
    for room, imported, _ in PLANTED:
        with (empty_rooms / "kafkaesque" / room / "planted.py").open("a") as module:
            module.write(f"import {imported}\n")
    code, words = lint(empty_rooms)
    assert code == 1, words
    assert [named for _, _, named in PLANTED if named not in words] == []


def test_a_room_that_stands_in_no_layer_is_refused(empty_rooms: Path) -> None:
    (empty_rooms / "kafkaesque" / "attic").mkdir()
    (empty_rooms / "kafkaesque" / "attic" / "__init__.py").touch()
    code, words = lint(empty_rooms)
    assert code == 1, words
    assert "attic" in words


def layers(contract: str) -> list[set[str]]:
    """Return the rooms of each line of one of our contracts, from above; those that there are."""
    table = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = table["tool"]["importlinter"]["contracts"]
    (found,) = (each for each in contracts if each["id"] == contract)
    (container,) = found["containers"]
    place = ROOT / "src" / container.replace(".", "/")
    names = {path.stem for path in place.iterdir()}
    return [names & set(re.findall(r"\w+", line)) for line in found["layers"]]


def drawn(text: str, names: set[str]) -> list[set[str]]:
    """Return the names at the beginning of each line that has some."""
    found = (set(takewhile(names.__contains__, line.split())) for line in text.splitlines())
    return [each for each in found if each]


def test_the_documentation_draws_the_layers() -> None:
    blocks = blocks_run_by(this_file(__file__), "docs/architecture.md")
    for block, contract in zip(blocks, ("layers", "broker-layers"), strict=True):
        lines = layers(contract)
        assert drawn(block.content, set().union(*lines)) == lines, block


def circles(imports: dict[str, set[str]]) -> list[list[str]]:
    """Return the groups of modules that reach one another, by Tarjan's algorithm."""
    found: list[list[str]] = []
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    on_path: set[str] = set()
    for root in sorted(imports):
        work = [(root, iter(sorted(imports[root])))] if root not in number else []
        while work:
            module, left = work[-1]
            if module not in number:
                number[module] = low[module] = len(number)
                path.append(module)
                on_path.add(module)
            for other in left:
                if other not in number:
                    work.append((other, iter(sorted(imports[other]))))
                    break
                if other in on_path:
                    low[module] = min(low[module], number[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[module])
                if low[module] == number[module]:
                    at = path.index(module)
                    group = path[at:]
                    del path[at:]
                    on_path.difference_update(group)
                    if len(group) > 1:
                        found.append(sorted(group))
    return found


def test_circles_are_found() -> None:
    imports = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": {"e"}, "e": {"d"}, "f": {"a"}}
    assert sorted(circles(imports)) == [["a", "b", "c"], ["d", "e"]]


def test_no_files_import_one_another_in_a_circle() -> None:
    """Imports for types count, too: who needs whom is a line and no ring."""
    graph = grimp.build_graph("kafkaesque", cache_dir=None)
    imports = {
        module: set(graph.find_modules_directly_imported_by(module)) for module in graph.modules
    }
    assert circles(imports) == []


#: From the chassis down. Above it, messages of Kafka are read as what their version says.
TYPED = (
    "model env tables raft storage groups transactions queues routing membership broker chassis"
).split()


def untyped(module: ast.Module) -> Iterator[str]:
    """Yield the public names of a module whose types say `Any`."""

    def says_any(*types: ast.expr | None) -> bool:
        nodes = (node for each in types if each is not None for node in ast.walk(each))
        return any(isinstance(node, ast.Name) and node.id == "Any" for node in nodes)

    def look(body: list[ast.stmt]) -> Iterator[str]:
        for node in body:
            match node:
                case ast.ClassDef(name=name) if not name.startswith("_"):
                    yield from look(node.body)
                case ast.FunctionDef(name=name) if not name.startswith("_") or name == "__init__":
                    given = node.args
                    arguments = [*given.posonlyargs, *given.args, *given.kwonlyargs]
                    arguments += [each for each in (given.vararg, given.kwarg) if each is not None]
                    if says_any(node.returns, *(each.annotation for each in arguments)):
                        yield name
                case ast.AnnAssign(target=ast.Name(id=name)) if not name.startswith("_"):
                    if says_any(node.annotation):
                        yield name
                case ast.Assign(targets=[ast.Name(id=name)]) if not name.startswith("_"):
                    if says_any(node.value):
                        yield name

    return look(module.body)


@pytest.mark.parametrize(
    "source",
    ["def f(a: Any): ...", "class A:\n b: list[Any]", "C = Callable[[Any], None]"],
)
def test_what_is_not_typed_is_found(source: str) -> None:
    assert list(untyped(ast.parse(source))) != []


def test_nothing_that_a_room_shows_is_without_a_type() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}: {name}"
        for room in TYPED
        for path in sorted((PACKAGE / room).rglob("*.py"))
        for name in untyped(ast.parse(path.read_text()))
    ]
    assert found == []
