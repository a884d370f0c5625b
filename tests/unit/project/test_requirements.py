"""Requirements are exact, hashed, and name no address: where packages come from is the user's."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PINS = sorted((ROOT / "requirements").glob("*.txt"))
ADDRESS = re.compile(r"://|--(extra-)?index-url|--find-links|-f\s|@\s*file|^/", re.MULTILINE)


def test_what_is_pinned_for_brokers_is_what_the_package_depends_on() -> None:
    """The scripts install what is pinned, and pip what the package names: each is enough."""
    lines = (ROOT / "requirements" / "runtime.in").read_text().splitlines()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    # It is a dependency of one, and is asked for to be pinned alike everywhere.
    assert names(project["dependencies"]) == names(lines) - {"typing-extensions"}


def names(lines: Iterable[str]) -> set[str]:
    """Return the packages that lines of requirements name."""
    return {found[0] for line in lines if (found := re.match(r"[a-z][a-z0-9-]*", line))}


@pytest.mark.parametrize("path", PINS, ids=lambda path: path.name)
def test_every_requirement_is_exact_and_hashed(path: Path) -> None:
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    text = "\n".join(lines)
    assert ADDRESS.search(text) is None
    entries = text.replace("\\\n", " ").splitlines()
    assert entries
    for entry in entries:
        assert re.match(r"[a-z0-9.-]+==\S+", entry), entry
        assert "--hash=sha256:" in entry, entry


def test_pins_of_one_package_agree() -> None:
    """One package has the same pins in all files; it may have one for each of some Pythons."""
    seen: dict[str, set[frozenset[str]]] = {}
    for path in PINS:
        pins: dict[str, set[str]] = {}
        for pin in re.findall(r"^[a-z0-9.-]+==[^\\\n]+", path.read_text(), re.MULTILINE):
            pins.setdefault(pin.split("==")[0], set()).add(pin.strip())
        for name, versions in pins.items():
            # Where it is needed may differ: what one file needs only on Windows, another always.
            plain = frozenset(each.partition(" ; ")[0] for each in versions)
            seen.setdefault(name, set()).add(plain)
            assert len(versions) == 1 or all(" ; " in pin for pin in versions), versions
    assert {name: versions for name, versions in seen.items() if len(versions) > 1} == {}


@pytest.mark.parametrize(
    ("folder", "package"), [("tests/clients/node", "kafkajs"), ("console", "svelte")]
)
def test_a_node_lock_has_hashes_and_no_addresses(folder: str, package: str) -> None:
    lock = json.loads((ROOT / folder / "package-lock.json").read_text())
    packages = {name: entry for name, entry in lock["packages"].items() if name}
    assert f"node_modules/{package}" in packages
    for name, entry in packages.items():
        assert "resolved" not in entry, name
        assert entry["integrity"].startswith("sha512-"), name


@pytest.mark.parametrize("path", PINS, ids=lambda path: path.name)
def test_every_package_that_is_asked_for_has_its_licence_and_reason_on_record(path: Path) -> None:
    page = (ROOT / "docs" / "dependencies.md").read_text()
    asked_for = re.findall(r"^([a-z0-9-]+)", path.with_suffix(".in").read_text(), re.MULTILINE)
    asked_for = [name for name in asked_for if not name.startswith("-")]
    assert asked_for
    assert [name for name in asked_for if not re.search(rf"[| ]{name}\b", page)] == []


def test_every_package_of_the_console_has_its_licence_and_reason_on_record() -> None:
    page = (ROOT / "docs" / "dependencies.md").read_text()
    package = json.loads((ROOT / "console" / "package.json").read_text())
    asked_for = [*package["dependencies"], *package["devDependencies"]]
    assert "uplot" in asked_for
    assert [name for name in asked_for if not re.search(rf"[| ]{re.escape(name)}\b", page)] == []
    for version in {**package["dependencies"], **package["devDependencies"]}.values():
        assert re.fullmatch(r"[0-9.]+", version)
