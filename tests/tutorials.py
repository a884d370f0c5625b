"""Follows the pages of docs/tutorials as a reader does.

A block of a language is a file if the text before it says "save … as `NAME`". A block of `sh` is
typed, line by line; a block of `text` is what the last block of `sh` prints, where nothing else is
printed in it. `kafkaesque up` and `pip install` are the reader's to have done.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "tutorials"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"[Ss]ave (?:this|it) as\s+`([^`]+)`|[Aa]nd this as `([^`]+)`")
_DONE_BEFORE = ("kafkaesque up", "pip install")


class Reader:
    """Follows one page in a directory."""

    def __init__(
        self, page: str, directory: Path, replaced: Mapping[str, str], timeout_s: float
    ) -> None:
        """`replaced` are addresses of the page, and what they are here."""
        self.text = (PAGES / page).read_text()
        self._directory = directory
        self._replaced = dict(replaced)
        self._timeout_s = timeout_s
        self._environment = {
            **os.environ,
            "PATH": f"{_programs(directory)}:{os.environ['PATH']}",
            "KAFKAESQUE_BOOTSTRAP_SERVER": self._here("127.0.0.1:9092"),
        }
        #: What was saved, typed and compared, in numbers.
        self.saved = self.typed = self.compared = 0

    def follow(self) -> None:
        """Do all that the page says.

        Raises:
            AssertionError: something else happens.
        """
        begin, output = 0, ""
        for block in _BLOCK.finditer(self.text):
            before = self.text[begin : block.start()]
            language, content = block[1], block[2]
            begin = block.end()
            names = _NAME.findall(before)
            if names and language not in ("sh", "text"):
                self._save(next(filter(None, names[-1])), content)
            elif language == "sh":
                output = self._type(content)
            elif language == "text":
                self.compared += 1
                assert output == content, f"{self.text[begin - 400 : begin]}\n---\n{output}"
            else:
                raise AssertionError(f"nobody says what to do with\n{content}")

    def _here(self, text: str) -> str:
        for told, real in self._replaced.items():
            text = text.replace(told, real)
        return text

    def _save(self, name: str, content: str) -> None:
        self.saved += 1
        path = self._directory / name
        assert path.parent.is_dir(), f"there is no directory for {name}"
        path.write_text(self._here(content))

    def _type(self, content: str) -> str:
        lines = [each for each in content.splitlines() if not each.startswith(_DONE_BEFORE)]
        if not lines:
            return ""
        self.typed += len(lines)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", self._here("\n".join(lines))],
            cwd=self._directory,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=self._timeout_s,
            check=False,
        )
        assert done.returncode == 0, f"{content}\n{done.stdout}\n{done.stderr}"
        return done.stdout


def _programs(directory: Path) -> Path:
    """Return a directory with the commands of this interpreter, by their plain names."""
    programs = directory / ".programs"
    programs.mkdir()
    (programs / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (programs / "kafkaesque").write_text(
        f'#!/bin/sh\nexec {sys.executable} -m kafkaesque.cli.app "$@"\n'
    )
    for each in programs.iterdir():
        each.chmod(0o755)
    return programs
