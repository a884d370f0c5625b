"""What MkDocs is told of the checkout beside docs/: see mkdocs.yml.

README.md is the site's first page; CHANGELOG.md and examples/README.md are pages, too. Links
between them and docs/ are written for a reader of the checkout; here they are made to fit the site.
"""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
#: Pages of the site, by their places in the checkout.
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "examples/README.md": "examples/README.md",
}
#: They are shown as they are.
FILES = ("LICENSE", *(str(each.relative_to(ROOT)) for each in sorted(ROOT.glob("examples/*.py"))))
DECISIONS = sorted((DOCS / "adr").glob("[0-9]*.md"))
#: The address of a link, without its anchor.
_LINK = re.compile(r"(\]\()([^)#\s]+)([^)]*\))")
_CELL = re.compile(r"<td.*?</td>", re.DOTALL)
#: A name, such as that of an option: nothing with a space.
_CODE = re.compile(r"<code>[\w.-]+</code>")


def on_config(config: Any) -> Any:
    """Add the decisions to what the site lists."""
    decisions = [f"adr/{each.name}" for each in DECISIONS]
    config.nav.append({"Decisions": ["adr/README.md", *decisions]})
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add what lies beside docs/."""
    for source, target in PAGES.items():
        content = (ROOT / source).read_text()
        files.append(File.generated(config, target, content=content))
    files.append(File.generated(config, "adr/README.md", content=_list_of_decisions()))
    for name in FILES:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    return files


def _list_of_decisions() -> str:
    """Return the page that links to `docs/adr/` lead to: in a checkout, that is the directory."""
    titles = {each.name: each.read_text().splitlines()[0].lstrip("# ") for each in DECISIONS}
    return "# Decisions\n\n" + "\n".join(f"- [{title}]({name})" for name, title in titles.items())


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn links to places in the checkout into links to pages."""
    site_place = page.file.src_uri
    place = next((source for source, target in PAGES.items() if target == site_place), None)
    return _LINK.sub(lambda found: _fitting(found, site_place, place), markdown)


def on_post_page(output: str, **_: Any) -> str:
    """Let names in tables be broken behind their dots, and nowhere else (see docs/site.css)."""
    return _CELL.sub(lambda cell: _CODE.sub(_with_breaks, cell[0]), output)


def _with_breaks(found: re.Match[str]) -> str:
    return found[0].replace(".", ".<wbr>")


def _fitting(found: re.Match[str], site_place: str, place: str | None) -> str:
    before, address, after = found.groups()
    if "://" in address or address.startswith(("mailto:", "#", "<")):
        return found[0]
    origin = ROOT / place if place is not None else DOCS / site_place
    target = (origin.parent / address).resolve()
    if not target.is_relative_to(ROOT):
        return found[0]
    if target.is_dir():
        target /= "README.md"
    name = str(target.relative_to(ROOT))
    name = PAGES.get(name, name.removeprefix("docs/"))
    depth = site_place.count("/")
    return f"{before}{'../' * depth}{name}{after}"
