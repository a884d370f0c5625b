"""What comes from Maven Central, once, and the Java that runs it.

Optional everywhere: where it cannot be had, `PeerUnavailableError` says so, and it is left out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

FETCH_TIMEOUT_S: Final = 900
LOG_BINDING_VERSION: Final = "2.25.4"
#: No dependency of it.
ALONE: Final = ("*", "*")
_APACHE_KAFKA: Final = "Apache Kafka"

_POM = """<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>kafkaesque</groupId><artifactId>peer</artifactId><version>1</version>
  <packaging>pom</packaging>
  <dependencies>{dependencies}</dependencies>
</project>
"""
_DEPENDENCY = """
    <dependency>
      <groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>
      {exclusions}
    </dependency>"""
_EXCLUSION = """<exclusions><exclusion>
        <groupId>{group}</groupId><artifactId>{artifact}</artifactId>
      </exclusion></exclusions>"""


class PeerUnavailableError(RuntimeError):
    """A peer or a client cannot be had here; the message says what is missing."""


def cache_directory() -> Path:
    """Return the directory, outside of the checkout, that keeps what was fetched or compiled."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "kafkaesque-bench"


def dependency(
    group: str, artifact: str, version: str, without: tuple[str, str] | None = None
) -> str:
    """Return what says that an artifact is wanted, `without` one that it depends on."""
    exclusions = ""
    if without is not None:
        exclusions = _EXCLUSION.format(group=without[0], artifact=without[1])
    return _DEPENDENCY.format(
        group=group, artifact=artifact, version=version, exclusions=exclusions
    )


def log_binding() -> str:
    """Return what says that programs log through log4j."""
    return dependency("org.apache.logging.log4j", "log4j-slf4j-impl", LOG_BINDING_VERSION)


def fetch_jars(name: str, dependencies: str, what: str = _APACHE_KAFKA) -> Path:
    """Return a directory with jars and all that they need, fetched unless it is there already.

    Raises:
        PeerUnavailableError: they cannot be had here; says that `what` is left out.
    """
    target = cache_directory() / name
    if target.is_dir():
        return target
    maven = shutil.which("mvn")
    if maven is None:
        raise PeerUnavailableError(f"{what} is left out: Maven (mvn) is not installed")
    target.parent.mkdir(parents=True, exist_ok=True)
    # Fetched aside and moved at the end, so that a broken fetch is never taken for a whole one.
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        pom = Path(work) / "pom.xml"
        pom.write_text(_POM.format(dependencies=dependencies))
        jars = Path(work) / "jars"
        command = [maven, "-B", "-f", str(pom), "dependency:copy-dependencies"]
        _copy([*command, f"-DoutputDirectory={jars}", "-DincludeScope=runtime"], what)
        try:
            jars.rename(target)
        except OSError:
            if not target.is_dir():  # another process was quicker
                raise
    return target


def _copy(command: Sequence[str], what: str) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise PeerUnavailableError(
            f"{what} is left out: Maven did not answer in {FETCH_TIMEOUT_S} s"
        ) from error
    if done.returncode != 0:
        reasons = [line for line in done.stdout.splitlines() if line.startswith("[ERROR]")]
        raise PeerUnavailableError(
            f"{what} is left out: Maven could not fetch it"
            f" ({reasons[0] if reasons else done.stderr.strip()[-300:]})"
        )


def find_java(what: str = _APACHE_KAFKA) -> str:
    """Return the path of the `java` to use: JAVA_HOME's, or the one on the PATH.

    Raises:
        PeerUnavailableError: there is none; says that `what` is left out.
    """
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin") if home else None
    java = java or shutil.which("java")
    if java is None:
        raise PeerUnavailableError(f"{what} is left out: Java is not installed")
    return java


def find_compiling_java(what: str = _APACHE_KAFKA) -> str:
    """Return the path of a `java` that runs sources.

    Raises:
        PeerUnavailableError: there is none, or one without a compiler.
    """
    java = find_java(what)
    listed = subprocess.run([java, "--list-modules"], capture_output=True, text=True, check=False)
    if "jdk.compiler" not in listed.stdout:
        raise PeerUnavailableError(
            f"{what} is left out: {java} has no compiler; install a JDK, not a JRE"
        )
    return java
