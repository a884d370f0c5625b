"""Each page of docs/concepts is short, has one picture, and is listed by the first of them."""

from __future__ import annotations

import re
from pathlib import Path

CONCEPTS = Path(__file__).parents[3] / "docs" / "concepts"
PAGES = {each.stem: each.read_text() for each in CONCEPTS.glob("*.md")}
CONCEPT_PAGES = {name: text for name, text in PAGES.items() if name != "README"}
#: With a description for who does not see it.
PICTURE = re.compile(r"^!\[[^\]]{40,}\]\((\w+)\.svg\)$", re.MULTILINE)
LINES_MAX = 80


def test_each_concept_has_one_picture() -> None:
    assert len(CONCEPT_PAGES) > 10
    shown = {name: PICTURE.findall(text) for name, text in CONCEPT_PAGES.items()}
    assert shown == {name: [name] for name in CONCEPT_PAGES}
    assert {each.stem for each in CONCEPTS.glob("*.svg")} == set(CONCEPT_PAGES)


def test_each_concept_is_on_one_short_page() -> None:
    lengths = {name: len(text.splitlines()) for name, text in PAGES.items()}
    assert {name: lines for name, lines in lengths.items() if lines > LINES_MAX} == {}


def test_the_first_page_names_all_others() -> None:
    assert set(re.findall(r"\((\w+)\.md\)", PAGES["README"])) == set(CONCEPT_PAGES)


def test_pictures_tell_what_they_show_and_fetch_nothing() -> None:
    for path in CONCEPTS.glob("*.svg"):
        text = path.read_text()
        assert "<title" in text, path.name
        assert "<desc" in text, path.name
        assert "prefers-color-scheme: dark" in text, path.name
        assert re.findall(r"href|url\(|@import|https?://(?!www\.w3\.org/2000/svg)", text) == []
