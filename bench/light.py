"""MQTT, NATS and STOMP beside Mosquitto, nats-server and RabbitMQ: `python -m bench.light`.

One broker of ours and one of the peer, and one client for both, a small C program
(`bench/light.c`), which says itself how much of a core it takes. Rounds alternate. Ratios are the
medians of those of the rounds; above 1 ours is better. What a row asks of both:

    mqtt-0        QoS 0, one publisher, ten subscribers, 256 bytes
    mqtt-1        QoS 1, the same, 60 messages in flight; sessions end with their connections
    mqtt-kept     QoS 1, the same, and sessions outlive their connections: ours syncs each message
                  before PUBACK, Mosquitto's persistence is on (it writes every half an hour)
    mqtt-idle     10,000 clients that are connected and silent: memory
    nats-request  a request and its reply, one at a time: the 99th percentile
    nats-fan      one publisher, ten subscribers, 256 bytes
    nats-stream   messages into a stream on disk, 64 without an answer; synced at every message
    stomp-queue   /queue/, persistent, a receipt for each of 64 in flight; acknowledged one by one
    stomp-topic   /topic/, one publisher, ten subscribers, 256 bytes

    python -m bench.light --only nats-fan --rounds 5 --seconds 2

A peer that cannot be had is left out, and said so: exit status 3.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

import msgspec
import nats

from bench import light_peers as peers
from bench.light_peers import Server
from bench.load import LoadError, compile_program
from bench.maven import PeerUnavailableError
from bench.processes import allow_files, cpu_seconds

SOURCE: Final = Path(__file__).with_name("light.c")
SKIPPED: Final = 3
RUN_S_MAX: Final = 120.0
STREAM: Final = "stream"
#: Files beside the connections of the clients that are idle.
SPARE_FILES: Final = 2_000
_MIB: Final = 1024 * 1024


class Figures(msgspec.Struct):
    """What the client has counted."""

    received: int
    acked: int
    lost: int
    seconds: float
    #: The share of a core that the client has taken.
    client_cpu: float
    p50_us: float
    p99_us: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What is asked of both brokers."""

    protocol: str
    mode: str
    target: float
    options: Mapping[str, object] = field(default_factory=dict)
    #: Ratios of the 99th percentile, or of what was counted.
    is_latency: bool = False


ROWS: Final[Mapping[str, Row]] = {
    "mqtt-0": Row(protocol="mqtt", mode="fan", target=0.5, options={"qos": 0}),
    "mqtt-1": Row(protocol="mqtt", mode="fan", target=1.0, options={"qos": 1, "window": 60}),
    "mqtt-kept": Row(
        protocol="mqtt", mode="fan", target=1.0, options={"qos": 1, "kept": 1, "window": 60}
    ),
    "mqtt-idle": Row(protocol="mqtt", mode="idle", target=0.0, options={"clients": 10_000}),
    "nats-request": Row(
        protocol="nats", mode="request", target=0.5, options={"window": 1}, is_latency=True
    ),
    "nats-fan": Row(protocol="nats", mode="fan", target=0.3),
    "nats-stream": Row(
        protocol="nats", mode="stream", target=2.0, options={"window": 64, "to": f"{STREAM}.orders"}
    ),
    "stomp-queue": Row(
        protocol="stomp",
        mode="fan",
        target=1.0,
        options={
            "to": "/queue/bench",
            "ack": "client-individual",
            "receipts": 1,
            "window": 64,
            "subscribers": 1,
        },
    ),
    "stomp-topic": Row(protocol="stomp", mode="fan", target=1.0, options={"to": "/topic/bench"}),
}
_Peer = Callable[[Path], AbstractContextManager[Server]]
PEERS: Final[Mapping[str, _Peer]] = {
    "mqtt": peers.mosquitto,
    "nats": peers.nats_server,
    "stomp": peers.rabbitmq_stomp,
}


@dataclass(slots=True)
class Side:
    """A broker, and what was measured of it, round by round."""

    server: Server
    rates: list[float] = field(default_factory=list)
    broker_us: list[float] = field(default_factory=list)
    rounds: list[Figures] = field(default_factory=list)


def run_round(side: Side, row: Row, seconds: float, size: int) -> None:
    """Let the client run once."""
    server = side.server
    given = {"port": server.port, "size": size, "seconds": seconds, **row.options}
    words = [f"{name}={value}" for name, value in given.items()]
    command = [str(compile_program(SOURCE)), row.protocol, row.mode, *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as it:
        assert it.stdout is not None
        if it.stdout.readline() != "counting\n":
            raise LoadError(f"{server.name}: {it.communicate()[1].strip()}")
        before = 0.0 if server.pid is None else cpu_seconds(server.pid)
        printed, complaints = it.communicate(timeout=RUN_S_MAX)
        if it.returncode:
            raise LoadError(f"{server.name}: {complaints.strip()}")
    used = 0.0 if server.pid is None else cpu_seconds(server.pid) - before
    found = msgspec.json.decode(printed, type=Figures)
    count = max(1, found.received or found.acked)
    side.rounds.append(found)
    side.rates.append(count / found.seconds)
    side.broker_us.append(1e6 * used / count)


def make_stream(port: int) -> None:
    """Make a stream on disk."""

    async def make() -> None:
        client = await nats.connect(f"nats://127.0.0.1:{port}")
        await client.jetstream().add_stream(name=STREAM, subjects=[f"{STREAM}.>"], storage="file")
        await client.close()

    asyncio.run(make())


def compare(
    name: str, row: Row, sides: Sequence[Side], rounds: int, load: argparse.Namespace
) -> None:
    """Measure both in turns and print what was found."""
    for number in range(rounds):
        # Who comes first has no advantage on average.
        for side in sides if number % 2 else sides[::-1]:
            run_round(side, row, load.seconds, load.bytes)
    for side in sides:
        last = side.rounds
        line = f"{name:13} {side.server.name:12} {median(side.rates):>9,.0f}/s"
        if row.is_latency:
            shown = (median(each.p50_us for each in last), median(each.p99_us for each in last))
            line += f"  p50 {shown[0]:.0f}, p99 {shown[1]:.0f} us"
        if side.server.pid is not None:
            line += f"  {median(side.broker_us):6.1f} us of the broker for one"
        line += f"  client {median(each.client_cpu for each in last):4.0%} of a core"
        lost = sum(each.lost for each in last)
        print(line + (f"  {lost} LOST" if lost else ""), flush=True)
    if len(sides) < 2:
        return
    ratios = ratios_of(row, *sides)
    verdict = "" if median(ratios) >= row.target else "  MISSED"
    shown_ratios = ", ".join(f"{each:.2f}" for each in ratios)
    print(f"{name:13} {median(ratios):.2f}x ({shown_ratios}); target {row.target}x{verdict}")


def ratios_of(row: Row, mine: Side, other: Side) -> list[float]:
    """Return ours against the peer's of each round; above 1 ours is better."""
    if row.is_latency:
        return [
            theirs.p99_us / own.p99_us
            for own, theirs in zip(mine.rounds, other.rounds, strict=True)
        ]
    return [a / b for a, b in zip(mine.rates, other.rates, strict=True)]


def weigh(name: str, row: Row, sides: Sequence[Side]) -> None:
    """Print what clients take that are connected and say nothing."""
    clients = int(str(row.options["clients"]))
    for side in sides:
        server = side.server
        assert server.pid is not None
        before = resident_bytes(server.pid)
        command = [str(compile_program(SOURCE)), "mqtt", "idle"]
        words = [f"port={server.port}", f"clients={clients}"]
        with subprocess.Popen(
            [*command, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as it:
            assert it.stdout is not None
            if it.stdout.readline() != "connected\n":
                raise LoadError(f"{server.name}: {it.communicate()[1].strip()}")
            after = resident_bytes(server.pid)
            it.communicate("")
        print(
            f"{name:13} {server.name:12} {before / _MIB:6.1f} MiB before,"
            f" {after / _MIB:6.1f} MiB with {clients:,} clients:"
            f" {(after - before) / clients:,.0f} B each",
            flush=True,
        )


def resident_bytes(pid: int) -> int:
    """Return what a process has in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


def measure_protocol(protocol: str, names: Sequence[str], given: argparse.Namespace) -> bool:
    """Measure some rows of one protocol; return whether the peer was there."""
    with tempfile.TemporaryDirectory(prefix="bench-light-") as home, ExitStack() as running:
        folders = [Path(home) / each for each in ("ours", "peer")]
        for each in folders:
            each.mkdir()
        servers = [running.enter_context(peers.ours(protocol, folders[0]))]
        is_there = not given.alone
        if is_there:
            try:
                servers.append(running.enter_context(PEERS[protocol](folders[1])))
            except PeerUnavailableError as error:
                print(f"skipped: {error}", file=sys.stderr)
                is_there = False
        if "nats-stream" in names:
            for server in servers:
                make_stream(server.port)
        for name in names:
            sides = [Side(each) for each in servers]
            if ROWS[name].mode == "idle":
                weigh(name, ROWS[name], sides)
            else:
                compare(name, ROWS[name], sides, given.rounds, given)
    return is_there or given.alone


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", choices=list(ROWS), help="a row, or several")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0, help="of a round")
    parser.add_argument("--bytes", type=int, default=256, help="of a message")
    parser.add_argument("--alone", action="store_true", help="ours without the peers")
    given = parser.parse_args(arguments)
    wanted = given.only or list(ROWS)
    allow_files(max(int(str(row.options.get("clients", 0))) for row in ROWS.values()) + SPARE_FILES)
    is_whole = True
    for protocol in PEERS:
        names = [name for name in wanted if ROWS[name].protocol == protocol]
        if names:
            is_whole &= measure_protocol(protocol, names, given)
    return 0 if is_whole else SKIPPED


if __name__ == "__main__":
    sys.exit(main())
