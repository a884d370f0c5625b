"""A Spark session for one run: of a server of our own, or of one that runs elsewhere."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

from kafkaesque.spark.errors import ConnectorError
from kafkaesque.spark.java import ensure_java
from kafkaesque.spark.pipelines.connect_server import ConnectServer
from kafkaesque.spark.pipelines.errors import RunFailed, WrongProject
from kafkaesque.spark.pipelines.project import Project
from kafkaesque.spark.pipelines.run_record import RunLock
from kafkaesque.spark.pipelines.sentences import failure
from kafkaesque.spark.pipelines.worker_checks import check_local_python, check_workers

LOCAL_MASTER = "local[*]"
_CONNECT_PORT, _MASTER_PORT = 15002, 7077
_ANSWER_TIMEOUT_S = 10.0
_RELEASE_S = 15.0
_STANDALONE = "spark://"
_LOOPBACK = ("127.0.0.1", "localhost")
_LOG_CONFIGURATION = Path(__file__).with_name("log4j2.properties")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where Spark is: a master for a server of our own, or a server (`sc://…`)."""

    master: str = LOCAL_MASTER
    remote: str | None = None

    @property
    def name(self) -> str:
        return self.remote or self.master

    @property
    def is_local(self) -> bool:
        """Whether everything runs on this machine, in one process of Java."""
        return self.remote is None and self.master.startswith("local")


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A session, and what of the project's settings it has taken."""

    spark: Any
    target: Target
    settings: Mapping[str, str]
    server: ConnectServer | None

    def check_alive(self) -> None:
        """Raise RunFailed where the server of our own is gone."""
        if self.server is not None and not self.server.is_running():
            raise RunFailed(f"Spark ended: {self.server.reason()}", f"see {self.server.log_path}")


@contextlib.contextmanager
def opened_session(project: Project, target: Target, lock: RunLock) -> Iterator[Session]:
    """Have a session while the block runs; a server of our own ends with it.

    Raises:
        RunFailed: no Java, no Spark, or its workers cannot do what is needed.
        WrongProject: a setting cannot be set there.
    """
    check_target(target)
    server = None if target.remote else _start_server(project, target, lock)
    try:
        spark = _connect(target.remote or ("" if server is None else server.url))
        try:
            settings = _apply(spark, project, target)
            if not target.is_local:
                check_workers(spark)
            yield Session(spark=spark, target=target, settings=settings, server=server)
        finally:
            _close(spark, server)
    finally:
        if server is not None:
            server.stop()


def check_target(target: Target) -> None:
    """Check that somebody listens where Spark is said to be.

    Raises:
        WrongProject: that is no address. RunFailed: nobody does.
    """
    if target.remote is not None:
        url = urlsplit(target.remote)
        if url.scheme != "sc" or not url.hostname:
            raise WrongProject(f"--remote {target.remote!r} is not sc://HOST[:PORT]")
        if not _answers(url.hostname, url.port or _CONNECT_PORT):
            raise RunFailed(
                f"no Spark Connect server answers at {target.remote}",
                "start-connect-server.sh of a Spark, or --master",
            )
    elif target.master.startswith(_STANDALONE):
        if not any(_answers(*each) for each in _masters(target.master)):
            raise RunFailed(
                f"no master answers at {target.master}",
                "kafkaesque spark up (a cluster on this machine), or --master local[*]",
            )


def _masters(url: str) -> list[tuple[str, int]]:
    found = []
    for word in url.removeprefix(_STANDALONE).split(","):
        host, _, port = word.rpartition(":")
        if not host or not port.isdigit():
            raise WrongProject(f"--master {url!r} is not spark://HOST:PORT")
        found.append((host, int(port)))
    return found


def _is_here(master: str) -> bool:
    """Whether it is a standalone master of this machine: nobody has to reach us from outside."""
    return master.startswith(_STANDALONE) and all(h in _LOOPBACK for h, _ in _masters(master))


def _answers(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), _ANSWER_TIMEOUT_S).close()
    except OSError:
        return False
    return True


def _start_server(project: Project, target: Target, lock: RunLock) -> ConnectServer:
    try:
        ensure_java()
    except ConnectorError as error:
        raise RunFailed(str(error)) from None
    python = project.settings.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON")
    if target.is_local:
        check_local_python(python or sys.executable)
    server = ConnectServer(
        name=project.name,
        master=target.master,
        settings=_server_settings(project, target),
        python=python or sys.executable,
        log_path=project.state_folder / "spark.out",
    )
    try:
        server.start(keep_open=(lock.file.fileno(),))
    except BaseException:
        server.stop()
        raise
    return server


def _server_settings(project: Project, target: Target) -> dict[str, str]:
    """Return what the server is started with; the project's own settings come last."""
    state = project.state_folder
    database = f"jdbc:derby:;databaseName={state / 'metastore'};create=true"
    own = {name: value for name, value in project.settings.items() if name.startswith("spark.")}
    java_options = [
        f'"-Dderby.stream.error.file={state / "derby.log"}"',
        f'"-Dlog4j2.configurationFile={_LOG_CONFIGURATION.as_uri()}"',
        f'"-Dkafkaesque.log={state / "spark.log"}"',
        own.pop("spark.driver.extraJavaOptions", ""),
    ]
    found = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": str(state / "warehouse"),
        "spark.hadoop.javax.jdo.option.ConnectionURL": database,
        "spark.driver.extraJavaOptions": " ".join(java_options).strip(),
    }
    if target.is_local or _is_here(target.master):
        found |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return found | own


def _connect(url: str) -> Any:
    from pyspark.sql import SparkSession

    os.environ.pop("SPARK_REMOTE", None)
    # What it has to say of threads that end with the session is of no use to anybody.
    warnings.filterwarnings("ignore", category=UserWarning, module=r"pyspark\.sql\.connect")
    try:
        builder = SparkSession.builder.remote(url)
        return builder.config("spark.sql.connect.serverStacktrace.enabled", "false").getOrCreate()
    except Exception as error:
        raise failure(f"cannot work with the Spark at {url}", error) from None


def _apply(spark: Any, project: Project, target: Target) -> dict[str, str]:
    """Set what can be set in a session and return it; the rest the server was started with."""
    taken = {}
    for name, value in project.settings.items():
        if name.startswith("spark.") and not spark.conf.isModifiable(name):
            if target.remote is not None:
                raise WrongProject(
                    f"{name} cannot be set on a Spark that runs already ({target.remote})",
                    "set it where that server is started, and leave it out here",
                )
            continue
        spark.conf.set(name, value)
        taken[name] = value
    return taken


def _close(spark: Any, server: ConnectServer | None) -> None:
    """Let go of the session; with a server of our own it ends when that does, and now elsewhere.

    A server releases a session when the runs in it are over, so that is waited for a while only. A
    client that is not closed would ask its server for minutes before this process can end.
    """
    client = spark.client

    def release() -> None:
        with contextlib.suppress(Exception):
            spark.interruptAll()
        with contextlib.suppress(Exception):
            client.release_session()

    if server is None:
        thread = Thread(target=release, daemon=True)
        thread.start()
        thread.join(_RELEASE_S)
    with contextlib.suppress(Exception):
        client.close()
