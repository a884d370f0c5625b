"""Spark's workers are started with a Python that has the connector, or it is said what to set."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafkaesque import __version__
from kafkaesque.spark.errors import ConnectorError
from kafkaesque.spark.start import ensure_worker_python

CURE = f"PYSPARK_PYTHON={sys.executable}"


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    # So that it is put back, whatever a test makes of it.
    monkeypatch.setenv("PYSPARK_PYTHON", "")
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)


def make_python(folder: Path, script: str) -> str:
    path = folder / "python3"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_workers_are_started_with_this_python_unless_another_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON")
    ensure_worker_python()
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    ensure_worker_python()


def test_another_python_that_has_all_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = make_python(tmp_path, f"echo {__version__}")
    monkeypatch.setenv("PYSPARK_PYTHON", python)
    ensure_worker_python()
    assert os.environ["PYSPARK_PYTHON"] == python


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (None, "which does not exist"),
        ("echo 0.0.1", f"has kafkaesque 0.0.1, and this is {__version__}"),
        (
            "echo Trace >&2; echo 'ModuleNotFoundError: No module named pyarrow' >&2; exit 1",
            "cannot: ModuleNotFoundError: No module named pyarrow",
        ),
        ("exit 3", "cannot: it failed"),
    ],
)
def test_a_python_that_lacks_something_is_told_with_the_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None, said: str
) -> None:
    python = str(tmp_path / "nowhere") if script is None else make_python(tmp_path, script)
    monkeypatch.setenv("PYSPARK_PYTHON", python)
    with pytest.raises(ConnectorError) as refused:
        ensure_worker_python()
    assert said in str(refused.value)
    assert str(refused.value).endswith(f"set {CURE}")
    assert len(str(refused.value).splitlines()) == 1


def test_a_spark_that_runs_already_is_told_of_before_a_query_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = make_python(tmp_path, "exit 3")
    context: Any = SimpleNamespace(_active_spark_context=SimpleNamespace(pythonExec=python))
    monkeypatch.setitem(sys.modules, "pyspark", SimpleNamespace(SparkContext=context))
    with pytest.raises(ConnectorError, match=r"call prepare_spark\(\) before the session is made"):
        ensure_worker_python()
    context._active_spark_context = None
    monkeypatch.delenv("PYSPARK_PYTHON")
    ensure_worker_python()
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
