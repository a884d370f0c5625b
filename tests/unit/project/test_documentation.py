"""The documentation does not point into nothing: links, their anchors, and files by their names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.documentation.table import blocks_run_by, this_file

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "src" / "kafkaesque"
PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "examples/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
CODE_BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
#: A row of the rooms' table: the room, what is in it, the files to read first.
ROOM = re.compile(r"^\| `(\w+)` \|.*\|([^|]*)\|$", re.MULTILINE)
FILE = re.compile(r"`([\w/]+\.py)`")
#: In the drawing: a file with its folder, or a gateway's module without its suffix.
DRAWN = re.compile(r"\b((?:runtime|protocols|gateway|broker|storage)/[\w/]+)(?:\.py)?\b")
#: A script, a test, a page or a source file that is named with its folder.
NAMED = re.compile(r"`((?:scripts|docs|src|tests|bench|codegen|examples)/[\w./-]+)")

#: A test that is named with its file.
TEST = re.compile(r"`(test_\w+)::(test_\w+)`")


def anchors(page: Path) -> set[str]:
    """Return what the headings of a page are linked by."""
    words = (re.sub(r"[^\w\- ]", "", each.lower()) for each in HEADING.findall(page.read_text()))
    return {each.strip().replace(" ", "-") for each in words}


def broken_links(page: Path) -> Iterator[str]:
    """Yields the links to files or headings that are not there."""
    for link in LINK.findall(CODE_BLOCK.sub("", page.read_text())):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            yield f"{page.relative_to(ROOT)}: {link}"


def test_every_relative_link_leads_somewhere() -> None:
    assert len(PAGES) > 10
    assert sum(len(LINK.findall(page.read_text())) for page in PAGES) > 10
    assert [each for page in PAGES for each in broken_links(page)] == []


def test_every_file_that_is_named_with_its_folder_exists() -> None:
    named = {(page, name) for page in PAGES for name in NAMED.findall(page.read_text())}
    assert len(named) > 10
    missing = [f"{page.name}: {name}" for page, name in named if not (ROOT / name).exists()]
    assert missing == []


def test_every_test_that_is_named_with_its_file_exists() -> None:
    named = {name for page in PAGES for name in TEST.findall(page.read_text())}
    assert len(named) > 10
    files = [(path.stem, path.read_text()) for path in (ROOT / "tests").rglob("test_*.py")]
    missing = [
        f"{file}::{test}"
        for file, test in named
        if not any(file == stem and f"def {test}(" in text for stem, text in files)
    ]
    assert missing == []


def test_the_rooms_and_what_is_to_be_read_in_them_exist() -> None:
    rooms = ROOM.findall((ROOT / "docs" / "architecture.md").read_text())
    on_disk = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert {room for room, _ in rooms} == on_disk
    files = [SOURCE / room / name for room, cell in rooms for name in FILE.findall(cell)]
    assert len(files) >= len(rooms)
    assert [str(path) for path in files if not path.exists()] == []


def test_the_way_of_a_message_leads_through_files_that_exist() -> None:
    (block,) = blocks_run_by(this_file(__file__), "docs/architecture.md")
    drawn = DRAWN.findall(block.content)
    assert len(drawn) > 8
    paths = [SOURCE / name for name in drawn]
    missing = [path for path in paths if not (path.exists() or path.with_suffix(".py").exists())]
    assert missing == []
