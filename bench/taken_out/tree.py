"""A copy of the sources, in which a check can be taken out, and tests run against it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from bench.taken_out.table import Row

#: For the start of Python, and for what tests set up and clean up.
START_S = 120


class TestsDidNotRun(Exception):
    """pytest has no results: it could not collect the tests, or was ended."""

    __test__ = False


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one named test, with all its parameters."""

    has_failed: bool
    #: What the first failure says, in a line.
    reason: str = ""


class Tree:
    """One copy; one run of tests at a time."""

    def __init__(self, root: Path, directory: Path) -> None:
        """Copy `src` of `root` into `directory`, which must not have one."""
        self._root = root
        self._sources = directory / "src"
        self._report = directory / "report.xml"
        shutil.copytree(root / "src", self._sources)
        path = os.pathsep.join((str(self._sources), str(root)))
        # With CI, Hypothesis looks at the same examples each time.
        self._environment = {**os.environ, "PYTHONPATH": path, "CI": "1"}
        # Each run imports all: a third of its time is what is compiled once.
        self._environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def check_is_used(self) -> None:
        """See that whatever imports the package gets the copy.

        Raises:
            TestsDidNotRun: it gets another one.
        """
        command = [sys.executable, "-c", "import kafkaesque; print(kafkaesque.__file__)"]
        found = subprocess.run(
            command,
            env=self._environment,
            cwd=self._root,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        if not Path(found).is_relative_to(self._sources):
            raise TestsDidNotRun(f"tests would import {found}, and not the copy")

    @contextmanager
    def without(self, row: Row) -> Iterator[None]:
        """Have the check of a row be missing for a while.

        Raises:
            RowRefused: it is not there exactly once.
        """
        path = self._sources / "kafkaesque" / row.file
        source = path.read_text("utf-8")
        self._write(path, row.without(source))
        try:
            yield
        finally:
            self._write(path, source)

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text, "utf-8")
        # Compiled files go by size and second: both may be the same.
        for each in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            each.unlink()

    def run(self, tests: Sequence[str], limit_s: int) -> dict[str, Result]:
        """Run tests, each for `limit_s` at most; return what came of each.

        Raises:
            TestsDidNotRun: there are no results of some.
        """
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly"]
        command += ["-p", "no:cacheprovider", "--no-header", "--tb=line", f"--timeout={limit_s}"]
        self._report.unlink(missing_ok=True)
        try:
            done = subprocess.run(
                [*command, f"--junit-xml={self._report}", *tests],
                env=self._environment,
                cwd=self._root,
                capture_output=True,
                text=True,
                timeout=limit_s * len(tests) + START_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise TestsDidNotRun("pytest did not end") from None
        if not self._report.exists():
            raise TestsDidNotRun(f"pytest ended with {done.returncode}: {done.stdout[-2_000:]}")
        return read_report(self._report.read_text("utf-8"), tests)


def read_report(report: str, tests: Sequence[str]) -> dict[str, Result]:
    """Return what a report of pytest says of tests.

    Raises:
        TestsDidNotRun: it has nothing of one, or an error in place of a failure.
    """
    cases = list(ElementTree.fromstring(report).iter("testcase"))
    return {
        name: _result_of([each for each in cases if _is_of(each, name)], name) for name in tests
    }


def _result_of(cases: Sequence[ElementTree.Element], name: str) -> Result:
    """Return what came of a test's cases: one that fails is enough, also if its end fails, too."""
    if not cases:
        raise TestsDidNotRun(f"nothing was heard of {name}")
    for case in cases:
        failure = case.find("failure")
        if failure is not None:
            return Result(True, _first_line(failure))
    for case in cases:
        for found in (case.find("error"), case.find("skipped")):
            if found is not None:
                raise TestsDidNotRun(f"{name}: {found.tag}: {_first_line(found)}")
    return Result(False)


def _is_of(case: ElementTree.Element, name: str) -> bool:
    path, _, test = name.partition("::")
    module = path.removesuffix(".py").replace("/", ".")
    found = case.get("name", "")
    return case.get("classname") == module and test in (found, found.partition("[")[0])


def _first_line(told: ElementTree.Element) -> str:
    return (told.get("message", "") or told.text or "").strip().partition("\n")[0]
