"""What a Spark needs that this process is about to start: a Java, and workers with our Python."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from kafkaesque import __version__
from kafkaesque.spark.errors import ConnectorError
from kafkaesque.spark.java import ensure_java

_PYTHON = "PYSPARK_PYTHON"
#: Spark's own default.
_PYTHON_DEFAULT = "python3"
_TIMEOUT_S = 60
_QUESTION = "import pyarrow, pyspark, kafkaesque; print(kafkaesque.__version__)"


def prepare_spark() -> None:
    """See to it that Spark finds a Java and starts its Python workers with this Python.

    To be called before a session is made. What the environment says already is left as it is.

    Raises:
        ConnectorError: there is no Java, or PYSPARK_PYTHON names a Python that the connector is not
            installed for, or a Spark runs already with such a one.
    """
    ensure_java()
    ensure_worker_python()


def ensure_worker_python() -> None:
    """Have Spark start its Python workers with this Python, unless PYSPARK_PYTHON names another.

    Spark looks for the connector itself in such a process, so without it there is no format
    `kafkaesque`.

    Raises:
        ConnectorError: the other one lacks the connector, or has another version; or a Spark runs
            already with such a one.
    """
    running = _python_of_running_spark()
    named = running or os.environ.get(_PYTHON)
    if not named:
        os.environ[_PYTHON] = sys.executable
        return
    reason = _find_lack(named)
    if reason is None:
        return
    if running:
        cure = "call prepare_spark() before the session is made, or set"
    else:
        cure = "set"
    raise ConnectorError(f"{reason}: {cure} {_PYTHON}={sys.executable}")


def _python_of_running_spark() -> str | None:
    """Return with what a Spark of this process starts its workers; None if none runs."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    return None if context is None else str(context.pythonExec or _PYTHON_DEFAULT)


def _find_lack(python: str) -> str | None:
    """Return why workers cannot be started with this Python; None if they can."""
    found = shutil.which(python)
    if found is None:
        return f"Spark is to start its Python workers with {python}, which does not exist"
    if Path(found).parent == Path(sys.executable).parent:
        return None
    try:
        done = subprocess.run(
            [found, "-c", _QUESTION],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return f"Spark is to start its Python workers with {python}, which does not answer"
    if done.returncode:
        *_, last = done.stderr.strip().splitlines() or ["it failed"]
        return f"Spark is to start its Python workers with {python}, which cannot: {last}"
    version = done.stdout.strip()
    if version != __version__:
        return (
            f"Spark is to start its Python workers with {python}, which has kafkaesque {version},"
            f" and this is {__version__}"
        )
    return None
