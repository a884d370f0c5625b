"""Spark's own Kafka connector, as the peer of ours: what a Spark needs on its class path for it."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

import pyspark

from bench.apache_kafka import fetch_spark_connector
from bench.maven import PeerUnavailableError, cache_directory

#: Not every mirror of Maven Central has Spark's library of delegation tokens, which is for secured
#: connections only: these classes of the same names stand in for it.
STAND_INS = Path(__file__).with_name("java") / "spark_tokens"
COMPILE_TIMEOUT_S = 300


def spark_connector_class_path() -> str:
    """Return the class path of Spark's connector; fetches and compiles what is not there yet.

    Raises:
        PeerUnavailableError: Maven, the artifacts or a compiler cannot be had here.
    """
    jars = fetch_spark_connector()
    return ":".join(map(str, (_compile_stand_ins(jars.parent), *sorted(jars.glob("*.jar")))))


def _compile_stand_ins(folder: Path) -> Path:
    sources = sorted(STAND_INS.glob("*.java"))
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()
    target = folder / f"spark-tokens-{digest[:16]}"
    if target.is_dir():
        return target
    compiler = shutil.which("javac")
    if compiler is None:
        raise PeerUnavailableError("Spark's connector is left out: install a JDK, not a JRE")
    work = cache_directory() / f"{target.name}.new"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    spark_jars = Path(pyspark.__file__).parent / "jars"
    command = [compiler, "-d", str(work), "-cp", f"{spark_jars}/*", *map(str, sources)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S, check=False
    )
    if done.returncode != 0:
        raise PeerUnavailableError(
            f"Spark's connector is left out: its stand-ins do not compile:\n{done.stderr[-2000:]}"
        )
    work.rename(target)
    return target
