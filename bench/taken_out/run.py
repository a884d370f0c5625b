"""Takes checks out, one at a time, and finds out whether the tests notice."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Final, TypeVar

from bench.taken_out.table import Row
from bench.taken_out.tree import Result, TestsDidNotRun, Tree

#: Failures that say nothing of the check: what was put in its place does not work.
BROKEN: Final = (
    "ImportError",
    "IndentationError",
    "ModuleNotFoundError",
    "NameError",
    "SyntaxError",
    "UnboundLocalError",
)

ResultT = TypeVar("ResultT")
#: Tests that say nothing, and why.
Faults = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What came of a row."""

    row: Row
    is_caught: bool
    #: By what; or why it was not.
    words: str
    seconds: float = 0.0


OnVerdict = Callable[[Verdict], None]


def run_rows(
    rows: Iterable[Row], root: Path, directory: Path, *, jobs: int, limit_s: int, say: OnVerdict
) -> list[Verdict]:
    """Take each row's check out of a copy of `src` and run its tests; return what came of all.

    `directory` is for the copies. `say` is told of each as it is there. The tests of rows are
    first run with every check in place, those of one file together: those that fail then say
    nothing.
    """
    trees: SimpleQueue[Tree] = SimpleQueue()
    for number in range(jobs):
        tree = Tree(root, directory / f"copy-{number}")
        tree.check_is_used()
        trees.put(tree)
    by_file: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        by_file.setdefault(row.test_files, []).append(row)

    def with_tree(judge: Callable[[Tree], ResultT]) -> ResultT:
        tree = trees.get()
        try:
            return judge(tree)
        finally:
            trees.put(tree)

    def judge_one(row: Row, faults: Future[Faults]) -> Verdict:
        verdict = judge_row(row, faults.result(), lambda: with_tree(partial(_judge, row, limit_s)))
        say(verdict)
        return verdict

    with ThreadPoolExecutor(jobs) as pool:
        begun = []
        for together in by_file.values():
            tests = list(dict.fromkeys(test for row in together for test in row.tests))
            faults = pool.submit(with_tree, partial(find_faults, tests, limit_s))
            begun.append((together, faults))
        waiting = [
            pool.submit(judge_one, row, faults) for together, faults in begun for row in together
        ]
        return [each.result() for each in waiting]


def judge_row(row: Row, faults: Faults, judge: Callable[[], tuple[bool, str]]) -> Verdict:
    """Return what comes of a row; nothing if one of its tests says nothing."""
    fault = next((faults[each] for each in row.tests if each in faults), None)
    if fault is not None:
        return Verdict(row=row, is_caught=False, words=fault)
    begun = time.monotonic()
    is_caught, words = judge()
    return Verdict(row=row, is_caught=is_caught, words=words, seconds=time.monotonic() - begun)


def find_faults(tests: Sequence[str], limit_s: int, tree: Tree) -> Faults:
    """Return which tests do not pass with every check in place, and why."""
    try:
        found = tree.run(tests, limit_s)
    except TestsDidNotRun as error:
        return dict.fromkeys(tests, f"its tests do not run: {error}")
    return {
        name: f"{name} fails with the check in place: {result.reason}"
        for name, result in found.items()
        if result.has_failed
    }


def _judge(row: Row, limit_s: int, tree: Tree) -> tuple[bool, str]:
    try:
        with tree.without(row):
            found = tree.run(row.tests, limit_s)
    except TestsDidNotRun as error:
        return False, f"its tests do not run without it: {error}"
    for name, result in found.items():
        if not result.has_failed:
            return False, f"{name} passes without it"
        if is_broken(result):
            return False, f"what stands in its place does not work: {result.reason}"
    return True, "; ".join(f"{name} ({result.reason})" for name, result in found.items())


def is_broken(result: Result) -> bool:
    """Tell whether a test has failed by what was put in the place of a check."""
    return result.reason.startswith(BROKEN)
