"""Each page of the console has a picture, made by `scripts/test-console --screenshots`."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "docs" / "screenshots"
PAGE = ROOT / "docs" / "console.md"
SCRIPT = ROOT / "console" / "tests" / "screenshots.mjs"
APP = ROOT / "console" / "src" / "App.svelte"
#: They are part of every checkout.
BYTES_MAX = 2_000_000


def made() -> dict[str, str]:
    """Return the addresses that pictures are taken of, by the pictures' names."""
    return dict(re.findall(r"^  \['([a-z-]+)', '([^']*)', ", SCRIPT.read_text(), re.MULTILINE))


def test_each_page_has_a_picture() -> None:
    pages = set(re.findall(r"\{ name: '([a-z]*)', title: ", APP.read_text()))
    assert len(pages) > 10
    taken = {address.partition("?")[0].partition("/")[0] for address in made().values()}
    assert taken == pages
    details = re.findall(r"^    ([a-z]+): \(\) => import", APP.read_text(), re.MULTILINE)
    with_names = {address.partition("/")[0] for address in made().values() if "/" in address}
    assert with_names == set(details)


def test_the_pictures_are_those_that_the_script_makes_and_the_page_shows() -> None:
    there = {each.stem for each in FOLDER.glob("*.webp")}
    assert there == set(made())
    assert there == set(re.findall(r"\(screenshots/([a-z-]+)\.webp\)", PAGE.read_text()))


def test_the_pictures_are_small() -> None:
    assert sum(each.stat().st_size for each in FOLDER.iterdir()) < BYTES_MAX
