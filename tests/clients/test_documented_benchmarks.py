"""Each benchmark that docs/performance.md names measures: what it prints is no matter here."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from bench.load import LoadError, compile_load
from bench.maven import cache_directory
from tests.documentation.benchmark_steps import SMALLER
from tests.documentation.blocks import ROOT
from tests.documentation.own_checkout import lacks_pins, make_checkout
from tests.documentation.table import blocks_run_by, pages_run_by, this_file

THIS = this_file(__file__)
TIMEOUT_S = 600
#: Other brokers, and clients, by a word of the commands that need them, and where they are kept.
FETCHED = {
    "bench.secured": "server-*",
    "bench.sqs": "elasticmq-*",
    "bench.amqp ": "perf-test-*",
}


def lines() -> Iterator[str]:
    """Yield the commands of the page, as they stand there, without what is said of them."""
    for page in pages_run_by(THIS):
        for block in blocks_run_by(THIS, page):
            for line in block.content.splitlines():
                if command := line.partition("#")[0].strip():
                    yield command


def smaller(command: str) -> str:
    """Return the key of `SMALLER` for a command; empty: there is none."""
    begins = [each for each in SMALLER if f"{command} ".startswith(f"{each} ")]
    return max(begins, key=len, default="")


@cache
def lacks_load() -> str:
    """Return why the load of most benchmarks cannot be compiled."""
    try:
        compile_load()
    except LoadError as error:
        return str(error)
    return ""


def lacks_for(command: str) -> str:
    """Return what is missing here for a command; empty: nothing."""
    for word, name in FETCHED.items():
        if word in command and not list(cache_directory().glob(name)):
            return f"{name} has not been fetched"
    if "scripts/test-console" in command and not (ROOT / "console/node_modules/.stamp").exists():
        return "scripts/test-console has not installed the packages of the console"
    if "scripts/bench-spark" in command:
        return lacks_pins("spark")
    return lacks_pins("runtime", "build", "test") or lacks_load()


def test_each_command_of_the_page_has_a_smaller_one_and_each_of_those_is_on_the_page() -> None:
    asked = list(lines())
    assert len(asked) > 40
    assert [each for each in asked if not smaller(each)] == []
    assert set(SMALLER) == {smaller(each) for each in asked}


@pytest.mark.extended
@pytest.mark.timeout(TIMEOUT_S + 60)
@pytest.mark.parametrize("command", dict.fromkeys(map(smaller, lines())))
def test_a_benchmark_measures(command: str, tmp_path: Path) -> None:
    if reason := lacks_for(SMALLER[command]):
        pytest.skip(reason)
    checkout = make_checkout(tmp_path / "checkout")
    # Chromium puts a socket there, and a socket's path is short.
    with tempfile.TemporaryDirectory() as directory:
        done = subprocess.run(
            ["bash", "-c", SMALLER[command]],
            cwd=checkout,
            env={**os.environ, "TMPDIR": directory},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    assert done.returncode == 0, f"{SMALLER[command]}\n{done.stdout}{done.stderr}"
    assert re.search(r"\d", done.stdout), done.stderr
