"""Compiles `load.c` and runs it: the client behind all throughput and latency figures."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.maven import cache_directory

SOURCE = Path(__file__).with_name("load.c")
HEADER = Path(__file__).with_name("load.h")
COMPILE_OPTIONS = ("-O2", "-std=gnu11", "-Wall", "-Wextra")
LIBRARIES = ("-lrdkafka", "-lpthread")
RUN_TIMEOUT_S = 600.0


class LoadError(RuntimeError):
    """The load could not be compiled, or a run of it failed; the message says why."""


def compile_load() -> Path:
    """Return the path of the compiled program; compiles unless this source has been already.

    Raises:
        LoadError: there is no C compiler, or no librdkafka to compile against.
    """
    needs = "it needs the package librdkafka-dev of Debian or Ubuntu"
    return compile_program(SOURCE, LIBRARIES, needs)


def compile_program(source: Path, libraries: Sequence[str] = (), needs: str = "") -> Path:
    """Return the path of a compiled program in C; compiles unless this source has been already.

    Raises:
        LoadError: there is no C compiler, or what it `needs` is missing.
    """
    digest = hashlib.sha256(source.read_bytes() + HEADER.read_bytes()).hexdigest()[:16]
    target = cache_directory() / f"{source.stem}-{digest}"
    if target.exists():
        return target
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise LoadError("the load is written in C: install gcc")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        made = Path(work) / source.stem
        command = [compiler, *COMPILE_OPTIONS, "-o", str(made), str(source), *libraries]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise LoadError(
                f"{source.name} does not compile; {needs}:\n{done.stderr.strip()[-2000:]}"
            )
        made.replace(target)
    return target


class Load:
    """One run of the program, possibly still under way."""

    def __init__(
        self, mode: str, brokers: str, topic: str, options: Mapping[str, object] | None = None
    ) -> None:
        """Start it; `options` are those of load.c and any of librdkafka's."""
        given = {"brokers": brokers, "topic": topic, **(options or {})}
        command = [str(compile_load()), mode, *(f"{key}={value}" for key, value in given.items())]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def wait_until_started(self) -> None:
        """Wait for the line that says that the first message has been acknowledged (failover)."""
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "started\n":
            self.result()

    def is_running(self) -> bool:
        return self._process.poll() is None

    def result(self) -> dict[str, float]:
        """Wait for the end and return the figures.

        Raises:
            LoadError: it failed, or took too long.
        """
        try:
            printed, complaints = self._process.communicate(timeout=RUN_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            printed, complaints = self._process.communicate()
        if self._process.returncode != 0:
            raise LoadError(f"the load failed: {complaints.strip()[-1000:]}")
        figures: dict[str, float] = json.loads(printed.strip().splitlines()[-1])
        return figures


def run_load(mode: str, brokers: str, topic: str, **options: object) -> dict[str, float]:
    """Run the program to its end; options are named with _ for the dots of librdkafka's."""
    named = {key.replace("_", "."): value for key, value in options.items()}
    return Load(mode, brokers, topic, named).result()
