"""RabbitMQ's own clients for Go and Java, unchanged, against our AMQP: `scripts/peers --amqp`.

Each client does what a worker does with queues (`bench/go/amqp`, `bench/java/Amqp.java`): declares,
confirms and returns, consumes with acknowledgements and a prefetch, dead letters with x-death,
transactions, direct reply-to; then its broker is killed, and it goes on at another one.

    scripts/peers --amqp            three brokers of ours for each client
    scripts/peers --amqp URL ...    brokers that are there, of which none is killed: so the programs
                                    are proven against RabbitMQ itself

It needs Go for the one, and a JDK and, once, Maven for the other. A client that cannot be had is
left out: it says so, and ends with 3 if nothing fails.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from bench.client_program import FailedError, run_program
from bench.maven import (
    PeerUnavailableError,
    cache_directory,
    dependency,
    fetch_jars,
    find_compiling_java,
    log_binding,
)
from tests.clients.amqp_cluster import AmqpCluster

JAVA_CLIENT_VERSION: Final = "5.37.1"
FETCH_TIMEOUT_S: Final = 300.0
EXIT_FAILED: Final = 1
EXIT_UNAVAILABLE: Final = 3
_HERE: Final = Path(__file__).parent
_KILL: Final = "kill "


def go_command() -> list[str]:
    """Return the command that runs Go's client, compiled; its modules have their hashes in go.sum.

    Raises:
        PeerUnavailableError: Go or its modules cannot be had here.
    """
    what, folder = "amqp091-go", _HERE / "go" / "amqp"
    go = shutil.which("go")
    if go is None:
        raise PeerUnavailableError(f"{what} is left out: Go is not installed")
    try:
        fetched = _run_go([go, "mod", "download"], folder)
    except subprocess.TimeoutExpired:
        raise PeerUnavailableError(f"{what} is left out: its modules did not come") from None
    if fetched.returncode != 0:
        raise PeerUnavailableError(f"{what} is left out: {fetched.stderr.strip()[-300:]}")
    target = cache_directory() / "amqp091-go-peer"
    target.parent.mkdir(parents=True, exist_ok=True)
    built = _run_go([go, "build", "-o", str(target), "."], folder)
    if built.returncode != 0:
        raise FailedError(f"{what} does not compile: {built.stderr}")
    return [str(target)]


def _run_go(command: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    # Nothing but what go.mod and go.sum say.
    environment = {**os.environ, "GOFLAGS": "-mod=readonly -buildvcs=false"}
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=FETCH_TIMEOUT_S,
        check=False,
    )


def java_command() -> list[str]:
    """Return the command that compiles and runs Java's client.

    Raises:
        PeerUnavailableError: Java, its compiler, Maven or the artifacts cannot be had here.
    """
    what = "RabbitMQ's client for Java"
    java = find_compiling_java(what)
    jars = fetch_jars(
        f"amqp-client-{JAVA_CLIENT_VERSION}",
        dependency("com.rabbitmq", "amqp-client", JAVA_CLIENT_VERSION) + log_binding(),
        what,
    )
    return [java, "-Xmx256M", "-cp", f"{jars}/*", str(_HERE / "java" / "Amqp.java")]


def run_client(command: Sequence[str], urls: Sequence[str], kill: Callable[[int], None]) -> None:
    """Run a client's program to its end, and kill the brokers that it wants to see dead.

    Raises:
        FailedError: it has failed, or did not end in time.
    """

    def on_line(line: str) -> bool:
        print(f"  {line}", flush=True)
        if not line.startswith(_KILL):
            return False
        kill(int(line.removeprefix(_KILL)))
        return True

    run_program([*command, *urls], on_line)


def use_client(command: Sequence[str], urls: Sequence[str]) -> None:
    """Run a client's program at brokers that are there, or at three of ours, of which one dies."""
    if urls:
        run_client(command, urls, lambda number: print(f"  (broker {number} is not killed)"))
        return
    with (
        tempfile.TemporaryDirectory(prefix="amqp-peers-") as folder,
        AmqpCluster(3, Path(folder)) as cluster,
    ):
        ours = [cluster.url(number) for number in (1, 2, 3)]
        run_client(command, ours, lambda number: cluster.brokers[number].kill())


CLIENTS: Final[Mapping[str, Callable[[], list[str]]]] = {
    "amqp091-go": go_command,
    f"RabbitMQ's client for Java {JAVA_CLIENT_VERSION}": java_command,
}


def main() -> int:
    """Use all clients; return the exit status."""
    urls = sys.argv[1:]
    if urls and not all(each.startswith("amqp://") for each in urls):
        print(__doc__)
        return 0 if urls[0] in ("-h", "--help") else 2
    failed = left_out = 0
    for name, make_command in CLIENTS.items():
        print(f"{name}:", flush=True)
        try:
            use_client(make_command(), urls)
            print("  ok", flush=True)
        except PeerUnavailableError as error:
            left_out += 1
            print(f"  LEFT OUT: {error}", flush=True)
        except FailedError as error:
            failed += 1
            print(f"  FAILED: {error}", flush=True)
    if failed:
        return EXIT_FAILED
    return EXIT_UNAVAILABLE if left_out else 0


if __name__ == "__main__":
    sys.exit(main())
