"""docs/architecture.md lists the files of a broker: those of simulated ones, and no others."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from kafkaesque.sim.disk import SimDisk
from kafkaesque.sim.options import SimOptions
from kafkaesque.sim.runner import run_seed
from kafkaesque.storage.directory import STRAY_SUFFIX
from kafkaesque.storage.key_index import KEY_INDEX_SUFFIX
from tests.documentation.table import blocks_run_by, this_file

#: What the page writes for numbers and names.
STANDS_FOR = {
    "NNNNNNNNNN": r"\d{10}",
    "<base offset>": r"\d{20}",
    "<topic>-<partition>": r"[\w.-]+-\d+",
    "<number>": r"\d+",
    "*": r"[\w.-]+",
}
#: A reader of few keys makes the one, a disk of another broker the other: they are not simulated.
OTHERS = (f"orders-0/{0:020d}{KEY_INDEX_SUFFIX}", f"orders-0{STRAY_SUFFIX}")
OPTIONS = SimOptions(
    activities=("commits", "compaction", "deletions", "topics", "transactions"),
    duration_ms=4_000,
    snapshot_records=10,
)


def written(line: str) -> Iterator[str]:
    """Yield the names that begin a line; of `.index|.timeindex` the second has the first's stem."""
    names = re.split(r" {2,}", line.strip())[0].removeprefix("<data>/").rstrip("/").split("|")
    for name in names:
        yield re.sub(r"\.\w+$", name, names[0]) if name.startswith(".") else name


def patterns() -> dict[str, re.Pattern[str]]:
    """Return what matches each name of the page, as it is written there."""
    (block,) = blocks_run_by(this_file(__file__), "docs/architecture.md")
    found: dict[str, re.Pattern[str]] = {}
    directory = ""
    for line in block.content.splitlines():
        if not line.startswith(" "):
            directory = ""
        for name in written(line):
            words = re.split(r"(" + "|".join(map(re.escape, STANDS_FOR)) + ")", directory + name)
            pattern = "".join(STANDS_FOR.get(each, re.escape(each)) for each in words)
            # Those of any name are in any directory.
            found[directory + name] = re.compile(rf"(.*/)?{pattern}" if name[0] == "*" else pattern)
        if line.split("  ")[0].endswith("/"):
            directory = line.split("  ")[0].removeprefix("<data>/")
    return found


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Names of all files that a run makes, and of directories that it renames."""
    found = set(OTHERS)
    opens, renames = SimDisk.open, SimDisk.rename

    def open_(self: SimDisk, path: str, *, create: bool = False) -> object:
        found.update([path] if create else [])
        return opens(self, path, create=create)

    def rename(self: SimDisk, old: str, new: str) -> None:
        found.add(new)
        renames(self, old, new)

    monkeypatch.setattr(SimDisk, "open", open_)
    monkeypatch.setattr(SimDisk, "rename", rename)
    return found


@pytest.mark.extended
def test_the_page_lists_what_brokers_write(seen: set[str]) -> None:
    for seed in (3, 4):
        assert run_seed(seed, OPTIONS).ok
    listed = patterns()
    unlisted = [each for each in seen if not any(one.fullmatch(each) for one in listed.values())]
    assert sorted(unlisted) == []
    files = {name: each for name, each in listed.items() if not name.endswith("<partition>")}
    unseen = [name for name, each in files.items() if not any(map(each.fullmatch, seen))]
    assert unseen == []
