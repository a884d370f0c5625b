"""Which test runs each block of the documentation; for the others, why none does.

`python -m tests.documentation.table` counts them.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.documentation.blocks import PAGES, ROOT, Block, blocks_of

_TABLE = Path(__file__).with_name("table.toml")
_TESTS = "tests"
#: What stands for all blocks of a page that no other row is for.
_ALL = "*"
#: Languages of what is run; the others are output and files.
_RUN = ("sh", "bash", "python", "js", "sql", "session")
#: What a row may say instead of a test, with a reason behind a colon.
#: `parsed`: commands and their options are looked up; the commands are not run.
#: `fragment`: a part of a program or of a file, in a language that is parsed.
#: `shown`: it is no command and no program.
KINDS = ("parsed", "fragment", "shown")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What becomes of the blocks of a page that begin in one way."""

    page: str
    #: Empty: all that no other row of the page is for.
    begins: str
    #: The path of the test that runs them; empty: none does.
    test: str = ""
    #: One of `KINDS`; empty where a test runs them.
    kind: str = ""
    reason: str = ""


@cache
def rows() -> tuple[Row, ...]:
    """Return the table.

    Raises:
        ValueError: a row names no test, and gives no reason.
    """
    table = tomllib.loads(_TABLE.read_text())
    names = table.pop(_TESTS)
    return tuple(
        _row(page, "" if begins == _ALL else begins, said, names)
        for page, said_of in table.items()
        for begins, said in said_of.items()
    )


def _row(page: str, begins: str, said: str, names: dict[str, str]) -> Row:
    if said in names:
        return Row(page=page, begins=begins, test=names[said])
    kind, _, reason = said.partition(": ")
    if kind not in KINDS or not reason:
        raise ValueError(
            f"{page}, {begins!r}: {said!r} is no test, and no reason why there is none"
        )
    return Row(page=page, begins=begins, kind=kind, reason=reason)


def rows_of(block: Block) -> list[Row]:
    """Return the rows for a block, of which there should be one."""
    of_page = [each for each in rows() if each.page == block.page]
    found = [each for each in of_page if each.begins and block.content.startswith(each.begins)]
    return found or [each for each in of_page if not each.begins]


def blocks_run_by(test: str, page: str) -> list[Block]:
    """Return the blocks of a page that a test has to run, by the table.

    `test` is the path of its file in the checkout.
    """
    return [each for each in blocks_of(page) if any(row.test == test for row in rows_of(each))]


def this_file(path: str) -> str:
    """Return how the table names a test, by its `__file__`."""
    return str(Path(path).relative_to(ROOT))


def pages_run_by(test: str) -> list[str]:
    """Return the pages of which a test has to run blocks."""
    return [each for each in PAGES if blocks_run_by(test, each)]


def counts() -> Counter[str]:
    """Return how many blocks are run, are compared, and are of each of `KINDS`."""
    found: Counter[str] = Counter()
    for block in (each for page in PAGES for each in blocks_of(page)):
        is_run = block.is_session or block.language in _RUN
        found.update(row.kind or ("run" if is_run else "compared") for row in rows_of(block))
    return found


if __name__ == "__main__":
    print(f"{counts().total()} blocks:", ", ".join(f"{n} {kind}" for kind, n in counts().items()))
