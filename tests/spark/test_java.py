"""Without a Java of the system's, Spark runs on the one that the extra brings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kafkaesque.spark.java import has_java, make_java_home


def test_the_java_of_the_extra_takes_what_sparks_launcher_gives_it(tmp_path: Path) -> None:
    java = make_java_home(tmp_path) / "bin" / "java"
    done = subprocess.run(
        [java, "--add-modules=jdk.incubator.vector", "-Dname=two words", "-version"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "version" in done.stderr


def test_arguments_keep_their_order_and_their_blanks(tmp_path: Path) -> None:
    java = make_java_home(tmp_path) / "bin" / "java"
    words = java.read_text().splitlines()
    java.write_text("\n".join([*words[:-1], 'printf "%s\\n" "$@"', ""]))
    given = ["-a", "two words", "--add-modules=jdk.incubator.vector", "", "-z"]
    done = subprocess.run([java, *given], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["-a", "two words", "", "-z"]


def test_a_system_without_java_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not has_java()
    monkeypatch.setenv("JAVA_HOME", str(make_java_home(tmp_path)))
    assert has_java()


def test_spark_runs_on_it(tmp_path: Path) -> None:
    home = make_java_home(tmp_path)
    program = (
        "from pyspark.sql import SparkSession\n"
        "spark = SparkSession.builder.master('local[1]').config('spark.ui.enabled', 'false')"
        ".config('spark.driver.host', '127.0.0.1').getOrCreate()\n"
        "print('rows', spark.range(7).count())\n"
        "spark.stop()\n"
    )
    environment = {**os.environ, "JAVA_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "rows 7" in done.stdout, done.stderr


def test_what_is_made_for_it_is_gone_with_the_process(tmp_path: Path) -> None:
    program = "import os; from kafkaesque.spark.java import ensure_java; ensure_java();"
    environment = {**os.environ, "JAVA_HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", f"{program} print(os.environ['JAVA_HOME'])"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(done.stdout.strip()).parent == tmp_path
    assert list(tmp_path.iterdir()) == []
