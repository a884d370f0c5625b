"""Prints what a page of the console shows, by Chromium without a head.

`python tests/documentation/console_page.py URL WORDS`: a page that does not show WORDS is opened
again, as it may have asked too early.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from html.parser import HTMLParser

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run")
TRIES = 5
#: What the page may do before it is printed; what it waits for does not count.
BUDGET_MS = 4_000
TIMEOUT_S = 60
#: Others stand within a line.
_INLINE = ("a", "span", "code", "b", "button")


class _Text(HTMLParser):
    """The words of a page, each element that is not within a line in a line of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.words = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.words += "" if tag in _INLINE else "\n"

    def handle_endtag(self, tag: str) -> None:
        self.words += "" if tag in _INLINE else "\n"

    def handle_data(self, data: str) -> None:
        self.words += " ".join(("", *data.split(), "")[not data[:1].isspace() :])


def shown(url: str) -> list[str]:
    """Return the lines that a page shows, without empty ones."""
    with tempfile.TemporaryDirectory() as profile:
        done = subprocess.run(
            [
                *(CHROMIUM, *FLAGS, f"--user-data-dir={profile}"),
                *("--dump-dom", f"--virtual-time-budget={BUDGET_MS}", url),
            ],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=True,
        )
    text = _Text()
    text.feed(done.stdout)
    return [" ".join(each.split()) for each in text.words.splitlines() if each.strip()]


def main(url: str, words: str) -> int:
    """Print the page, whether it shows the words or not."""
    lines: list[str] = []
    for _ in range(TRIES):
        lines = shown(url)
        if any(words in each for each in lines):
            break
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
