"""Which script a browser loads for each page of the console, by what Vite's chunks import."""

from __future__ import annotations

import gzip
import re
from collections.abc import Mapping
from typing import NamedTuple

_STATIC = re.compile(r'(?:import|from)\s*"\./([\w.-]+\.js)"')
_LATER = re.compile(r'import\("\./([\w.-]+\.js)"\)|import\(`\./([\w.-]+\.js)`\)')


class PageScript(NamedTuple):
    """Compressed bytes of script that one page needs."""

    #: Until it is painted for the first time.
    first: int
    #: With what it loads by itself afterwards, such as plots.
    all: int


def page_scripts(files: Mapping[str, bytes], entry: str) -> dict[str, PageScript]:
    """Returns what each page needs, by its chunk; a page is what the entry loads on demand."""
    texts = {name: data.decode() for name, data in files.items() if name.endswith(".js")}
    sizes = {
        name: len(gzip.compress(data, compresslevel=9, mtime=0))
        for name, data in files.items()
        if name in texts
    }
    shell = _closure(entry, texts)
    found = {}
    for page in sorted(_later(texts[entry])):
        first = shell | _closure(page, texts)
        later = {each for name in first - shell for each in _later(texts[name])}
        every = first.union(*(_closure(each, texts) for each in later))
        found[page] = PageScript(sum(sizes[e] for e in first), sum(sizes[e] for e in every))
    return found


def _closure(name: str, texts: Mapping[str, str]) -> set[str]:
    found, left = set[str](), [name]
    while left:
        each = left.pop()
        if each not in found:
            found.add(each)
            left += _STATIC.findall(texts[each])
    return found


def _later(text: str) -> set[str]:
    return {one or other for one, other in _LATER.findall(text)}
