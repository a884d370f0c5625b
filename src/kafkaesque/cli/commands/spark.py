"""`kafkaesque spark`: a cluster of Spark on this machine, for trying things."""

import queue
import re
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafkaesque.cli.arguments import JsonOption, new_app, wrong_usage
from kafkaesque.cli.broker_ports import unused_ports
from kafkaesque.cli.exit_codes import FAILED
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.pipeline_failures import require_spark
from kafkaesque.cli.screen import Screen, counted

if TYPE_CHECKING:
    from kafkaesque.spark.standalone import StandaloneCluster

app = new_app(help="A cluster of Spark on this machine: up.")

WORKERS_MAX = 32
_POLL_S = 0.5
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_MEMORY = re.compile(r"[1-9][0-9]*[mgMG]")


@app.callback()
def spark() -> None:
    """A cluster of Spark on this machine: up."""


@app.command()
def up(
    workers: Annotated[int, typer.Option(min=1, max=WORKERS_MAX, help="How many.")] = 2,
    cores: Annotated[int, typer.Option(min=1, help="Of each worker.")] = 1,
    memory: Annotated[str, typer.Option(help="Of each worker, for executors.")] = "1g",
    port: Annotated[int, typer.Option(min=1, max=65_535, help="Of the master.")] = 7077,
    logs: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep logs here.", show_default="removed at the end"),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Run a standalone cluster of the installed Spark on 127.0.0.1; Ctrl-C stops it.

    With --json, one line for each event: ready, ended, stopped.

    \b
    Example:
      kafkaesque spark up --workers 2 --cores 1 --memory 1g
      kafkaesque pipeline run ./greetings --master spark://127.0.0.1:7077
    """
    require_spark()
    if not _MEMORY.fullmatch(memory):
        raise wrong_usage(f"--memory {memory!r} is no size", "--memory 1g, or 512m")
    from kafkaesque.spark.standalone import StandaloneCluster

    folder = logs.absolute() if logs else Path(tempfile.mkdtemp(prefix="kafkaesque-spark-"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandFailed(f"cannot write to {folder}: {(error.strerror or '').lower()}") from None
    (ui_port,) = unused_ports(1)
    cluster = StandaloneCluster(
        folder, workers=workers, cores=cores, memory=memory, port=port, ui_port=ui_port
    )
    sizes = f"{counted(workers, 'worker')} with {counted(cores, 'core')} and {memory} each"
    screen = Screen(json=json)
    try:
        is_wanted = _run(cluster, sizes, screen)
    finally:
        cluster.stop()
        if logs is None:
            shutil.rmtree(folder, ignore_errors=True)
    screen.done("stopped", {"event": "stopped"})
    if not is_wanted:
        raise typer.Exit(FAILED)


def _run(cluster: "StandaloneCluster", sizes: str, screen: Screen) -> bool:
    """Return whether the end was wanted; otherwise the master is gone, or all workers are."""
    from kafkaesque.spark.errors import ConnectorError
    from kafkaesque.spark.standalone import MASTER

    for number in _STOP_SIGNALS:
        # Until it is ready, Python's way to end whatever is under way.
        signal.signal(number, signal.default_int_handler)
    try:
        cluster.start()
    except ConnectorError as error:
        raise CommandFailed(str(error)) from None
    signals: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in _STOP_SIGNALS:
        signal.signal(number, lambda signum, _: signals.put(signum))
    pids = {name: cluster.pid(name) for name in cluster.names}
    screen.done(
        f"{cluster.url}: {sizes}; {cluster.ui_url} shows it\n"
        f"kafkaesque pipeline run --master {cluster.url}   runs a pipeline on it; Ctrl-C stops it",
        {"event": "ready", "master": cluster.url, "ui": cluster.ui_url, "pids": pids},
    )
    sys.stdout.flush()
    while True:
        try:
            signals.get(timeout=_POLL_S)
        except queue.Empty:
            pass
        else:
            return True
        for each in cluster.ended():
            screen.note(f"{each.name} ended with exit code {each.exit_code}")
            if screen.is_json:
                screen.show_json({"event": "ended", "name": each.name, "exit_code": each.exit_code})
            if each.name == MASTER or cluster.names == [MASTER]:
                return False
