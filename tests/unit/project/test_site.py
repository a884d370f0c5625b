"""The documentation as a site (`scripts/docs`): what can be checked without building it."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "codegen"))

from site_links import faults  # noqa: E402

NAVIGATION = ROOT / "mkdocs.yml"


def test_each_page_is_in_the_navigation() -> None:
    listed = set(re.findall(r"(?:: |- )([a-zA-Z/-]+\.md)$", NAVIGATION.read_text(), re.MULTILINE))
    pages = {str(each.relative_to(ROOT / "docs")) for each in (ROOT / "docs").rglob("*.md")}
    without = {"index.md", "changelog.md", "examples/README.md"}
    assert {each for each in pages if not each.startswith("adr/")} == listed - without


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ('<a href="b.html#here">', ""),
        ('<a href="b.html">', ""),
        ('<a href="#top"><p id="top">', ""),
        ('<a href="https://example.org/nowhere">', ""),
        ('<a href="c.html">', "a.html leads to c.html, which is not there"),
        ('<a href="b.html#there">', "a.html leads to b.html#there, and there is no there"),
        ('<a href="#there">', "a.html leads to #there, and there is no there"),
        ('<img src="c.png">', "a.html leads to c.png, which is not there"),
        (
            '<script src="https://example.org/x.js">',
            "a.html fetches https://example.org/x.js",
        ),
        ('<link rel="canonical" href="https://example.org/">', ""),
    ],
)
def test_links_that_lead_nowhere_are_found(tmp_path: Path, body: str, fault: str) -> None:
    (tmp_path / "a.html").write_text(body)
    (tmp_path / "b.html").write_text('<h2 id="here">')
    assert list(faults(tmp_path)) == ([fault] if fault else [])


def test_a_site_without_pages_is_none(tmp_path: Path) -> None:
    assert len(list(faults(tmp_path))) == 1
