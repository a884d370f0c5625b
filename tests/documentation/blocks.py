"""The blocks of code on the pages of the documentation, in their order."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: The site's pages, and those of the README that are no part of it.
PAGES = tuple(
    str(each.relative_to(ROOT))
    for each in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
)
_FENCE = "```"


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """What stands between two fences."""

    page: str
    #: Of the first fence.
    line: int
    #: Empty: none is named.
    language: str
    content: str
    #: What stands between the block before it and this one.
    before: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.first_line}"

    @property
    def first_line(self) -> str:
        return self.content.partition("\n")[0]

    @property
    def is_session(self) -> bool:
        """Whether it has commands behind a prompt, and what they print."""
        return self.first_line.startswith("$ ")


@cache
def blocks_of(page: str) -> tuple[Block, ...]:
    """Return the blocks of a page, by its path in the checkout."""
    found: list[Block] = []
    prose: list[str] = []
    code: list[str] | None = None
    begin, language = 0, ""
    for number, line in enumerate((ROOT / page).read_text().splitlines(), start=1):
        if not line.lstrip().startswith(_FENCE):
            (prose if code is None else code).append(line)
        elif code is None:
            code, begin, language = [], number, line.strip().removeprefix(_FENCE)
        else:
            # A block of a list is indented.
            content = textwrap.dedent("".join(f"{each}\n" for each in code))
            found.append(
                Block(
                    page=page,
                    line=begin,
                    language=language,
                    content=content,
                    before="\n".join(prose),
                )
            )
            prose, code = [], None
    if code is not None:
        raise ValueError(f"{page}:{begin}: the block has no end")
    return tuple(found)
