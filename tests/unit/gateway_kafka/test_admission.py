"""How many clients may connect to the Kafka port, and for how long they may be silent."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from kafkaesque.broker.options.tables import BROKER_OPTIONS
from kafkaesque.env.report_limit import LINES_MAX
from kafkaesque.model.options import OptionValue
from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.frames import write_request
from kafkaesque.protocols.kafka.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafkaesque.protocols.kafka.messages.metadata_request import MetadataRequest
from tests.unit.gateway_kafka.live import BROKER_RESOURCE, LiveCluster

REQUEST = write_request(ApiKey.METADATA, 9, 1, "test", MetadataRequest(topics=[]))
IDLE_MS = 600


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., LiveCluster]]:
    """Starts a broker with options; it ends with the test."""
    with ExitStack() as stack:

        def make(**options: OptionValue) -> LiveCluster:
            named = {name.replace("_", "."): value for name, value in options.items()}
            cluster = LiveCluster(tmp_path, options=named)
            stack.callback(cluster.close)
            return cluster

        yield make


@contextmanager
def connected(live: LiveCluster, host: str = "127.0.0.1") -> Iterator[socket.socket]:
    """A client at this address of the machine."""
    with socket.socket() as sock:
        sock.bind((host, 0))
        sock.connect(live.broker.config.kafka_address)
        sock.setblocking(False)
        yield sock


def is_closed(sock: socket.socket) -> bool:
    """Reads away what is there and tells whether the broker has closed."""
    try:
        while sock.recv(1 << 16):
            pass
    except BlockingIOError:
        return False
    except ConnectionError:
        pass
    return True


def set_option(live: LiveCluster, name: str, value: str) -> int:
    """Sets an option of all brokers, and returns the error code."""
    change = AlterableConfig(name, 0, value)
    resource = AlterConfigsResource(BROKER_RESOURCE, "", [change])
    (answer,) = live.ask(IncrementalAlterConfigsRequest([resource])).responses
    code: int = answer.error_code
    return code


def test_names_and_defaults_are_kafkas() -> None:
    defaults = {name: BROKER_OPTIONS.get(name).default for name in BROKER_OPTIONS.names()}
    assert defaults["connections.max.idle.ms"] == 600_000
    assert defaults["max.connections"] == defaults["max.connections.per.ip"] == 2**31 - 1


def _says_something(client: socket.socket) -> bool:
    client.send(REQUEST)
    return True


def test_who_is_silent_for_too_long_is_disconnected(start: Callable[..., LiveCluster]) -> None:
    live = start(connections_max_idle_ms=IDLE_MS)
    with connected(live) as silent, connected(live) as talker:
        begun = live.loop.time()
        live.wait(lambda: _says_something(talker) and is_closed(silent), "it was silent too long")
        assert live.loop.time() - begun > IDLE_MS / 1000 / 2
        assert not is_closed(talker)
        live.wait(lambda: is_closed(talker), "it is silent now")


def test_nobody_is_disconnected_for_silence_where_that_is_allowed(
    start: Callable[..., LiveCluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    live = start(connections_max_idle_ms=-1)
    with connected(live) as silent:
        live.wait(lambda: len(live.nodes[1].gateway.connections) == 1, "it is there")
        (connection,) = live.nodes[1].gateway.connections.values()
        monkeypatch.setattr(connection, "active_ms", -(10**9))
        live.nodes[1].gateway.ports[0].sweep()
        live.run_for(0.05)
        assert not is_closed(silent)


def test_a_client_that_reads_a_long_answer_is_not_silent(
    start: Callable[..., LiveCluster],
) -> None:
    live = start(connections_max_idle_ms=IDLE_MS)
    gateway = live.nodes[1].gateway
    with connected(live) as reader:
        live.wait(lambda: len(gateway.connections) == 1, "it is there")
        (connection,) = gateway.connections.values()
        assert connection.connection is not None
        connection.connection.write([bytes(32 << 20)])
        for _ in range(3 * IDLE_MS // 50):
            live.run_for(0.05)
            with suppress(BlockingIOError):
                reader.recv(200_000)
        assert connection.is_open
        live.wait(lambda: not connection.is_open, "it reads no more")


def test_the_limit_on_silence_is_fixed_at_the_start_as_in_kafka(live: LiveCluster) -> None:
    assert set_option(live, "connections.max.idle.ms", "5") != 0


@pytest.mark.parametrize("name", ["max.connections", "max.connections.per.ip"])
def test_one_connection_more_than_there_may_be_is_closed_at_once(
    live: LiveCluster, name: str
) -> None:
    # The test's own connection is the first.
    assert set_option(live, name, "3") == 0
    live.wait(lambda: live.broker.options.get(name) == 3, "the option is set")
    with connected(live) as second, connected(live) as third:
        live.wait(lambda: len(live.nodes[1].gateway.connections) == 3, "they are in")
        with connected(live) as fourth:
            live.wait(lambda: is_closed(fourth), "it is refused")
        assert not is_closed(second)
        third.close()
        live.wait(lambda: len(live.nodes[1].gateway.connections) == 2, "there is room")
        with connected(live) as fifth:
            fifth.send(REQUEST)
            live.wait(lambda: len(live.nodes[1].gateway.connections) == 3, "it is let in")
            live.run_for(0.05)
            assert not is_closed(fifth)


def test_other_addresses_have_room_of_their_own(live: LiveCluster) -> None:
    assert set_option(live, "max.connections.per.ip", "1") == 0
    with connected(live) as refused, connected(live, "127.0.0.2") as other:
        live.wait(lambda: is_closed(refused), "one more of the same address is refused")
        live.wait(lambda: len(live.nodes[1].gateway.connections) == 2, "another is let in")
        assert not is_closed(other)
        with connected(live, "127.0.0.2") as again:
            live.wait(lambda: is_closed(again), "and one of that, too")


def test_refusals_are_reported_and_not_too_often(start: Callable[..., LiveCluster]) -> None:
    live = start(max_connections_per_ip=1)
    live.ask(MetadataRequest(topics=[]))
    for _ in range(2 * LINES_MAX):
        with connected(live) as refused:
            live.wait(lambda sock=refused: is_closed(sock), "it is refused")  # type: ignore[misc]
    line = "refused a connection from 127.0.0.1: max.connections.per.ip is 1"
    assert live.reports.count(line) == LINES_MAX
