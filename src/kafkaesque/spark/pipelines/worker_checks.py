"""Whether the Python of Spark's workers has what transformations and the connector need."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from kafkaesque import __version__
from kafkaesque.spark.pipelines.errors import RunFailed
from kafkaesque.spark.pipelines.sentences import sentence_of

#: Tasks of the check: more than a cluster for trying has cores, so that all executors have some.
_TASKS = 16
_TIMEOUT_S = 60
_ROOM_TIMEOUT_S = 120.0
_NEEDED = "kafkaesque, pyarrow, pyspark"
_HINT = (
    "install kafkaesque-broker[spark] of this version in that Python, or name another one by"
    " PYSPARK_PYTHON or --conf spark.pyspark.python=PATH"
)
_NO_PROGRAM = re.compile(r"Cannot run program \"([^\"]+)\"")


def check_local_python(python: str) -> None:
    """Check the Python of workers on this machine.

    Raises:
        RunFailed: there is none, or it lacks something.
    """
    if python == sys.executable:
        return
    words = f"import {_NEEDED}; print(kafkaesque.__version__)"
    try:
        done = subprocess.run(
            [python, "-c", words], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        raise RunFailed(f"there is no Python at {python} for Spark's workers", _HINT) from None
    if done.returncode:
        raise RunFailed(f"{sentence_of(done.stderr)} ({python})", _HINT)
    _check_version(done.stdout.strip(), python)


def check_workers(spark: Any) -> None:
    """Have tasks say what their Python has.

    Raises:
        RunFailed: an executor's Python lacks something or has another version; says where.
    """

    def report(batches: Iterator[Any]) -> Iterator[Any]:
        # Whatever it needs it imports by itself: where it runs, Kafkaesque may be missing.
        import socket
        import sys

        import pyarrow

        try:
            from kafkaesque import __version__ as version
        except ImportError:
            version = ""
        for _ in batches:
            found = {"host": [socket.gethostname()], "python": [sys.executable]}
            yield pyarrow.RecordBatch.from_pydict({**found, "version": [version]})

    schema = "host string, python string, version string"
    tasks = spark.range(0, _TASKS, 1, _TASKS).mapInArrow(report, schema)
    for host, python, version in _collect(spark, tasks.distinct()):
        _check_version(version, f"{python} on {host}")


def _collect(spark: Any, table: Any) -> list[Any]:
    """Return the rows; a cluster that has no room for the query would have us wait for good."""
    answer: SimpleQueue[list[Any] | Exception] = SimpleQueue()

    def collect() -> None:
        try:
            answer.put(table.collect())
        except Exception as error:
            answer.put(error)

    Thread(target=collect, daemon=True).start()
    try:
        found = answer.get(timeout=_ROOM_TIMEOUT_S)
    except Empty:
        spark.interruptAll()
        raise RunFailed(
            f"Spark's master has given no executor within {_ROOM_TIMEOUT_S:g} s",
            "free cores and memory of its workers, or ask for less: --conf"
            " spark.executor.memory=512m --conf spark.cores.max=1",
        ) from None
    if isinstance(found, list):
        return found
    program = _NO_PROGRAM.search(str(found))
    if program is not None:
        raise RunFailed(f"Spark's workers have no Python at {program[1]}", _HINT)
    raise RunFailed(f"Spark's workers cannot run Python: {sentence_of(found)}", _HINT)


def _check_version(version: str, where: str) -> None:
    if not version:
        raise RunFailed(f"there is no kafkaesque in the Python of Spark's workers ({where})", _HINT)
    if version != __version__:
        raise RunFailed(
            f"the Python of Spark's workers has kafkaesque {version}, and this is {__version__}"
            f" ({where})",
            _HINT,
        )
