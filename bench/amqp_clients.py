"""The clients that `bench/amqp.py` drives brokers of AMQP with: RabbitMQ's PerfTest, and one in C.

Both publish to durable quorum queues with confirms, and consume with an acknowledgement for each
message. PerfTest comes from Maven Central, librabbitmq from Debian; neither is installed.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.debian import fetch_packages
from bench.load import LoadError, compile_program
from bench.maven import (
    dependency,
    fetch_jars,
    find_java,
)
from bench.processes import die_with_parent

PERF_TEST: Final = "PerfTest"
PERF_TEST_VERSION: Final = "2.22.1"
C_CLIENT: Final = "C client"
SOURCE: Final = Path(__file__).with_name("amqp_load.c")
#: A client has so long beyond what it measures.
MORE_S: Final = 120.0
_CREDENTIALS: Final = "guest:guest"
_RATE: Final = re.compile(r"(sending|receiving) rate avg: (\d+) msg/s")
_TIMES: Final = re.compile(
    r"^id: \S+, (consumer|confirm) latency min/median/75th/95th/99th \d+/(\d+)/\d+/\d+/(\d+) µs$",
    re.MULTILINE,
)


class ClientError(RuntimeError):
    """A client has failed, or a broker has served it wrong; the message says how."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What clients do."""

    name: str
    producers: int = 1
    consumers: int = 1
    queues: int = 1
    prefetch: int = 100
    window: int = 100
    size: int = 1_000
    #: Messages a second of all producers together; 0: as many as there can be.
    rate: int = 0
    #: Of each queue.
    replicas: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What was measured: messages a second, and milliseconds."""

    confirmed: float
    received: float
    confirm_p50: float
    confirm_p99: float
    delivery_p50: float
    delivery_p99: float


@dataclass(frozen=True, slots=True)
class Client:
    """A program that puts a load on a broker."""

    name: str
    #: Gets port, shape, name of queues, seconds, and what is called when it begins and ends.
    run: Callable[[int, Shape, str, float, Callable[[], None]], Figures] = field(repr=False)


def queue_name(name: str, number: int = 0) -> str:
    """Return how both clients call a queue; the first has number 0."""
    return f"{name}-{number}"


# -- in C


def compile_client() -> Path:
    """Return the compiled program in C.

    Raises:
        PeerUnavailableError: there is no librabbitmq.
        ClientError: there is no compiler, or it does not compile.
    """
    what = "the client in C"
    tree = fetch_packages("librabbitmq", ("librabbitmq4", "librabbitmq-dev"), what)
    (library,) = tree.glob("usr/lib/*/librabbitmq.so")
    folder = library.parent
    paths = [f"-I{tree / 'usr/include'}", f"-L{folder}", f"-Wl,-rpath,{folder}"]
    try:
        return compile_program(SOURCE, [*paths, "-lrabbitmq", "-lpthread"])
    except LoadError as error:
        raise ClientError(str(error)) from error


def run_c(
    port: int, on_mark: Callable[[], None], timeout_s: float, **options: object
) -> dict[str, float]:
    """Run the program in C; `on_mark` is called where its measurement begins and ends.

    Raises:
        ClientError: it failed, took too long, or messages are missing.
    """
    words = [f"{name}={value}" for name, value in options.items()]
    with subprocess.Popen(
        [str(compile_client()), f"port={port}", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=die_with_parent,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        last = ""
        for line in process.stdout:
            last = line
            if not line.startswith("{"):
                on_mark()
        if process.wait(timeout_s) != 0:
            raise ClientError(f"the client in C failed: {process.stderr.read().strip()[-500:]}")
    figures: dict[str, float] = json.loads(last)
    if figures["missing"] > 0:
        raise ClientError(f"{figures['missing']:.0f} confirmed messages did not come")
    return figures


def _c_client(
    port: int, shape: Shape, name: str, seconds: float, on_mark: Callable[[], None]
) -> Figures:
    found = run_c(
        port,
        on_mark,
        seconds + MORE_S,
        name=name,
        producers=shape.producers,
        consumers=shape.consumers,
        queues=shape.queues,
        replicas=shape.replicas,
        prefetch=shape.prefetch,
        window=shape.window,
        size=shape.size,
        rate=shape.rate // shape.producers,
        seconds=seconds,
        warmup=max(1.0, seconds / 5),
    )
    return Figures(
        confirmed=found["confirmed_s"],
        received=found["received_s"],
        confirm_p50=found["confirm_p50_ms"],
        confirm_p99=found["confirm_p99_ms"],
        delivery_p50=found["delivery_p50_ms"],
        delivery_p99=found["delivery_p99_ms"],
    )


def c_client() -> Client:
    """Return the client in C.

    Raises:
        PeerUnavailableError: it cannot be had here.
        ClientError: it does not compile.
    """
    compile_client()
    return Client(C_CLIENT, _c_client)


# -- PerfTest


def perf_test() -> Client:
    """Return RabbitMQ's PerfTest.

    Raises:
        PeerUnavailableError: Java, Maven or PerfTest cannot be had here.
    """
    java = find_java(PERF_TEST)
    jars = fetch_jars(
        f"perf-test-{PERF_TEST_VERSION}",
        dependency("com.rabbitmq", "perf-test", PERF_TEST_VERSION),
        PERF_TEST,
    )
    command = [java, "-cp", f"{jars}/*", "com.rabbitmq.perf.PerfTest"]

    def run(
        port: int, shape: Shape, name: str, seconds: float, on_mark: Callable[[], None]
    ) -> Figures:
        on_mark()
        uri = f"amqp://{_CREDENTIALS}@127.0.0.1:{port}/%2F"
        done = subprocess.run(
            [*command, "--uri", uri, *perf_test_options(shape, name, seconds)],
            capture_output=True,
            text=True,
            timeout=seconds + MORE_S,
            preexec_fn=die_with_parent,
            check=False,
        )
        on_mark()
        if done.returncode != 0:
            raise ClientError(f"PerfTest failed: {(done.stdout + done.stderr).strip()[-500:]}")
        return read_perf_test(done.stdout)

    return Client(PERF_TEST, run)


def perf_test_options(shape: Shape, name: str, seconds: float) -> list[str]:
    """Return what PerfTest is told; it has one queue, or a fanout exchange with several."""
    words = [
        *("--quorum-queue", "--flag", "persistent"),
        *("--size", str(shape.size), "--confirm", str(shape.window), "--qos", str(shape.prefetch)),
        *("--producers", str(shape.producers), "--consumers", str(shape.consumers)),
        *("--queue-args", f"x-quorum-initial-group-size={shape.replicas}"),
        # Whole seconds; with 0 it never ends.
        *("--time", str(math.ceil(seconds))),
    ]
    if shape.rate:
        words += ["--rate", str(shape.rate // shape.producers)]
    if shape.queues == 1:
        return [*words, "--queue", queue_name(name)]
    pattern = ("--queue-pattern", f"{name}-%d", "--queue-pattern-from", "0")
    last = ("--queue-pattern-to", str(shape.queues - 1))
    return [*words, *pattern, *last, "--type", "fanout", "--exchange", name]


def read_perf_test(printed: str) -> Figures:
    """Return the figures of PerfTest's last lines.

    Raises:
        ClientError: they are not there.
    """
    rates = {name: float(value) for name, value in _RATE.findall(printed)}
    times = {name: (int(p50) / 1000, int(p99) / 1000) for name, p50, p99 in _TIMES.findall(printed)}
    if len(rates) != 2 or len(times) != 2:
        raise ClientError(f"PerfTest printed no figures: {printed.strip()[-500:]}")
    return Figures(
        confirmed=rates["sending"],
        received=rates["receiving"],
        confirm_p50=times["confirm"][0],
        confirm_p99=times["confirm"][1],
        delivery_p50=times["consumer"][0],
        delivery_p99=times["consumer"][1],
    )
