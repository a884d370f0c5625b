"""Checks a built site: python codegen/site_links.py DIRECTORY.

Every link leads somewhere, with its anchor, and nothing that a browser fetches by itself is on
another host. MkDocs checks what is written in Markdown; this looks at what came of it.
"""

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: What a browser fetches by itself.
FETCHED = {
    ("script", "src"),
    ("img", "src"),
    ("link", "href"),
    ("source", "src"),
    ("iframe", "src"),
}
#: `rel` of links by which nothing is fetched.
UNFETCHED = {"canonical", "next", "prev"}


class Page(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """See `HTMLParser`."""
        found = dict(attrs)
        self.anchors |= {each for each in (found.get("id"), found.get("name")) if each}
        for name, value in attrs:
            if (tag, name) == ("a", "href") and value:
                self.links.append(value)
            elif (tag, name) in FETCHED and value and found.get("rel") not in UNFETCHED:
                self.fetched.append(value)


def faults(root: Path) -> Iterator[str]:
    """Yield a sentence for each link that leads nowhere, and each file of another host."""
    pages = {path.resolve(): Page(path) for path in sorted(root.rglob("*.html"))}
    if not pages:
        yield f"there is no page in {root}"
    for path, page in pages.items():
        name = path.relative_to(root.resolve())
        if name.name == "404.html":
            continue  # Its links begin at the root of whatever host shows it.
        for address in page.fetched:
            if urlsplit(address).scheme in ("http", "https") or address.startswith("//"):
                yield f"{name} fetches {address}"
        for address in [*page.links, *page.fetched]:
            yield from _fault(name, path, address, pages)


def _fault(name: Path, path: Path, address: str, pages: dict[Path, Page]) -> Iterator[str]:
    where = urlsplit(address)
    if where.scheme or where.netloc:
        return
    target = (path.parent / unquote(where.path)).resolve() if where.path else path
    if target.is_dir():
        target /= "index.html"
    if not target.exists():
        yield f"{name} leads to {address}, which is not there"
    elif where.fragment and target in pages:
        anchor = unquote(where.fragment)
        if anchor not in pages[target].anchors and not anchor.startswith("__"):
            yield f"{name} leads to {address}, and there is no {anchor}"


def main() -> int:
    """Print all faults; return how the process ends."""
    found = list(faults(Path(sys.argv[1])))
    for each in found:
        print(each, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
