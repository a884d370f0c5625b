"""Commands where brokers hang: they accept connections and answer nothing."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from confluent_kafka import KafkaError, KafkaException
from typer.testing import CliRunner

from kafkaesque.cli import group_states, kafka, kafka_request, transaction_requests
from kafkaesque.cli.app import app
from kafkaesque.cli.commands import cluster
from kafkaesque.cli.doctor import probe
from kafkaesque.cli.doctor.facts import Facts, View
from kafkaesque.cli.exit_codes import FAILED, TIMED_OUT, UNREACHABLE
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.kafka_request import ask
from kafkaesque.cli.quorum import Quorum
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.describe_cluster_response import DescribeClusterBroker
from kafkaesque.protocols.kafka.messages.list_groups_response import (
    ListedGroup,
    ListGroupsResponse,
)
from kafkaesque.protocols.kafka.messages.metadata_request import MetadataRequest
from kafkaesque.protocols.kafka.messages.metadata_response import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.unit.cli.made_up_facts import broker, closed, facts, view, without_controller

METADATA = (ApiKey.METADATA, 12, MetadataRequest(None))


class Brokers:
    """Stands in for connections: of the hosts some hang, and some are down."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, *, hang: str = "", down: str = "", busy: str = ""
    ) -> None:
        self.greeted: list[str] = []
        self.asked: list[str] = []
        outer = self

        class Exchange:
            def __init__(self, host: str, port: int, timeout_s: float = 0) -> None:
                if host in down:
                    raise ConnectionRefusedError
                self.host = host

            def __enter__(self) -> Exchange:
                return self

            def __exit__(self, *_: object) -> None: ...

            def greet(self) -> None:
                outer.greeted.append(self.host)
                if self.host in hang:
                    raise TimeoutError

            def ask(self, *_: object) -> str:
                outer.asked.append(self.host)
                if self.host in hang + busy:
                    raise TimeoutError
                return f"by {self.host}"

        monkeypatch.setattr(kafka_request, "Exchange", Exchange)
        monkeypatch.setattr(kafka_request, "_silent", set())


def test_who_hangs_is_found_out_at_once_and_not_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    brokers = Brokers(monkeypatch, hang="abc")
    assert ask("a:1,b:1,c:1,d:1,e:1", *METADATA) == "by d"
    assert brokers.asked == ["d"]
    assert sorted(brokers.greeted) == ["a", "b", "c", "d", "d", "e"]
    assert ask("a:1,b:1,c:1,d:1,e:1", *METADATA) == "by d"
    assert brokers.greeted[6:] == ["d"]


def test_where_all_hang_each_is_named_and_nobody_is_waited_for_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    brokers = Brokers(monkeypatch, hang="ab", down="c")
    with pytest.raises(CommandFailed) as raised:
        ask("a:1,b:1,c:1", *METADATA)
    assert raised.value.exit_code == UNREACHABLE
    for word in ("a:1 (", "b:1 (no answer in time)", "c:1 ("):
        assert word in raised.value.message
    assert sorted(brokers.greeted) == ["a", "b"]


@pytest.mark.parametrize("addresses", ["a:1", "a:1,b:1"])
def test_one_that_is_there_and_cannot_do_it_is_not_said_to_be_away(
    addresses: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers = Brokers(monkeypatch, busy="ab")
    with pytest.raises(CommandFailed, match="a:1 answers, but has not done this") as raised:
        ask(addresses, *METADATA)
    assert raised.value.hint == "kafkaesque doctor"
    assert raised.value.exit_code == FAILED
    # Another one might do it a second time.
    assert brokers.asked == ["a"]


def test_one_broker_alone_has_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = Brokers(monkeypatch)
    assert ask("a:1", *METADATA) == "by a"
    assert brokers.greeted == []


def test_what_changes_something_ends_in_a_quarter_of_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[dict[str, object]] = []
    monkeypatch.setattr(kafka, "AdminClient", given.append)
    monkeypatch.setattr(kafka, "_why_not", lambda *_: None)
    kafka.Connection("h:1").admin()
    assert given[0]["socket.timeout.ms"] == 15_000
    waited: list[float] = []

    class Never(Future[None]):
        def result(self, timeout: float | None = None) -> None:
            waited.append(timeout or 0)
            raise TimeoutError

    with pytest.raises(CommandFailed, match="topic t: no answer in time") as raised:
        kafka.result_of(Never(), "topic t")
    assert raised.value.hint == "kafkaesque doctor"
    assert waited == [16.0]


def timed_out() -> Future[None]:
    request: Future[None] = Future()
    request.set_exception(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
    return request


def test_what_is_not_done_where_a_broker_answers_is_not_said_to_be_unreachable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kafka, "_why_not", lambda *_: None)
    brokers = Brokers(monkeypatch, hang="a", down="b")
    kafka.Connection("a:1,b:1,c:1")
    for _ in range(2):
        with pytest.raises(CommandFailed, match="topic t: c:1 answers, but this") as raised:
            kafka.result_of(timed_out(), "topic t")
        assert (raised.value.exit_code, raised.value.hint) == (FAILED, "kafkaesque doctor")
    brokers = Brokers(monkeypatch, hang="ac", down="b")
    for _ in range(9):
        with pytest.raises(CommandFailed, match="topic t: no answer in time") as raised:
            kafka.result_of(timed_out(), "topic t")
        assert raised.value.exit_code == UNREACHABLE
    assert sorted(brokers.greeted) == ["a", "c"], "they are waited for once"


def test_a_wait_goes_on_where_a_broker_answers_and_cannot_say_it_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(code: int) -> None:
        failure = CommandFailed("h:1 answers, but", exit_code=code)
        monkeypatch.setattr(cluster, "read_status", Mock(side_effect=failure))

    words = ["cluster", "wait", "--timeout", "0"]
    for code, ending in ((FAILED, TIMED_OUT), (UNREACHABLE, UNREACHABLE), (2, 2)):
        fail(code)
        done = CliRunner().invoke(app, words)
        assert done.exit_code == ending
        assert "h:1 answers, but" in done.stderr


class Groups:
    """Stands in for brokers that coordinate a group each, as their names say."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, alive: dict[int, str], leaders: list[int]
    ) -> None:
        self.leaders = leaders
        self.alive = alive
        there = {node: DescribeClusterBroker(node, host, 1, None) for node, host in alive.items()}
        monkeypatch.setattr(group_states, "read_alive", lambda _: there)
        monkeypatch.setattr(group_states, "ask", self.ask)
        monkeypatch.setattr(kafka, "_why_not", lambda *_: None)

    def ask(self, address: str, key: int, *_: object) -> object:
        if key == ApiKey.METADATA:
            partitions = [
                MetadataResponsePartition(0, number, leader, -1, [], [])
                for number, leader in enumerate(self.leaders)
            ]
            return MetadataResponse(topics=[MetadataResponseTopic(partitions=partitions)])
        host = address.split(":")[0]
        if host.startswith("hangs"):
            raise CommandFailed(f"no broker answers at {address} (no answer)", exit_code=3)
        return ListGroupsResponse(groups=[ListedGroup(host, "consumer", "Empty", "classic")])


def test_groups_that_nobody_coordinates_are_said_to_be_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = ["group", "list", "-b", "h:1"]
    table = "GROUP\tSTATE\tPROTOCOL\tKIND\na\tempty\tclassic\tconsumers\n"
    Groups(monkeypatch, {1: "a"}, [1, 2, -1, 1])  # broker 2 is lost, and one has no leader
    done = CliRunner().invoke(app, words)
    assert (done.exit_code, done.stdout) == (FAILED, table)
    assert done.stderr == (
        "groups are missing: 2 of 4 partitions of __consumer_offsets have no leader, so their"
        " groups have no coordinator (1, 2)\n"
    )
    Groups(monkeypatch, {1: "a", 2: "hangs"}, [1, 2])
    done = CliRunner().invoke(app, words)
    assert (done.exit_code, done.stdout) == (FAILED, table)
    assert done.stderr == "groups are missing: no broker answers at hangs:1 (no answer)\n"
    for leaders in ([1, 1, 1], []):  # without the topic there is no group
        Groups(monkeypatch, {1: "a"}, leaders)
        done = CliRunner().invoke(app, words)
        assert (done.exit_code, done.stdout, done.stderr) == (0, table, "")


@pytest.fixture
def admin_port() -> Iterator[str]:
    """Answers to whatever is sent to it as an admin port does."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                with client:
                    client.recv(1 << 16)
                    client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.parametrize(
    "words", [["doctor"], ["cluster", "controllers"], ["cluster", "status"], ["topic", "list"]]
)
def test_an_admin_port_is_said_to_be_one(
    words: list[str], admin_port: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise KafkaException(KafkaError(KafkaError._FAIL))

    monkeypatch.setattr(kafka, "_metadata", fail)
    done = CliRunner().invoke(app, [*words, "-b", admin_port])
    assert done.exit_code == UNREACHABLE
    assert "it speaks HTTP, as an admin port does" in done.stderr


@pytest.mark.parametrize(
    ("words", "method"),
    [
        (["create", "t"], "create_topics"),
        (["alter", "t", "--partitions", "9"], "create_partitions"),
        (["delete", "t", "--yes"], "delete_topics"),
    ],
)
@pytest.mark.parametrize("code", [KafkaError.REQUEST_TIMED_OUT, KafkaError.NOT_CONTROLLER])
def test_brokers_say_that_no_controller_did_it_before_it_is_waited_in_vain(
    words: list[str], method: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: Future[None] = Future()
    error = KafkaError(code, "no controller carried out the request in time")
    refused.set_exception(KafkaException(error))
    given: list[float] = []

    def request(_: object, operation_timeout: float) -> dict[str, Future[None]]:
        given.append(operation_timeout)
        return {"t": refused}

    there = SimpleNamespace(topics={"t": SimpleNamespace(partitions={0: None}, error=None)})
    monkeypatch.setattr(kafka, "_why_not", lambda *_: None)
    monkeypatch.setattr(kafka, "AdminClient", lambda _: SimpleNamespace(**{method: request}))
    monkeypatch.setattr(kafka.Connection, "metadata", lambda *_: there)
    done = CliRunner().invoke(app, ["topic", *words, "-b", "h:1"])
    assert done.exit_code == 1
    assert "error: topic t: no controller carried out the request in time" in done.stderr
    assert "try:   kafkaesque doctor" in done.stderr
    assert given == [10.0]


@pytest.fixture
def released() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def test_a_broker_that_hangs_keeps_doctor_from_no_other(
    released: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    def view_at(host: str, port: int) -> tuple[View, dict[int, str], bool]:
        if host == "a":
            released.wait()
        return view(), {}, True

    monkeypatch.setattr(probe, "_view_at", view_at)
    assert probe._first_view("a:1,b:1") == (view(), {}, True)


@pytest.mark.parametrize("question", ["view", "broker"])
def test_the_doctor_waits_for_a_broker_that_hangs_with_one_question_only(
    question: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_request, "GREETING_TIMEOUT_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
        if question == "view":
            with pytest.raises(TimeoutError):
                probe._view_at(host, port)
        else:
            assert probe.look_at_broker(1, f"{host}:{port}").hangs
        client, _ = server.accept()
        with client:
            said = b"".join(iter(lambda: client.recv(1 << 16), b""))
    size, api_key = struct.unpack_from(">ih", said)
    assert (len(said), api_key) == (4 + size, ApiKey.API_VERSIONS)


def test_brokers_that_know_no_controller_are_not_asked_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def read(bootstrap: str) -> Quorum:
        asked.append(bootstrap)
        return Quorum(leader=2, term=1, members=[])

    monkeypatch.setattr(probe, "read_quorum", read)
    unseen: list[str] = []
    assert probe._quorum(without_controller(1, 2, 3), unseen) is None
    assert (asked, unseen) == ([], [])
    # One that is cut off is not asked either, and the controller itself is the first.
    led_by_2 = Facts(view=view(), brokers=[broker(n, view(controller=2)) for n in (1, 2, 3)])
    assert probe._quorum(without_controller(3, of=led_by_2), unseen) is not None
    assert asked == ["h:2,h:1"]


def test_to_know_no_controller_is_no_disagreement_and_groups_are_not_waited_for_long() -> None:
    assert not probe._disagree(without_controller(1, 2, 3))
    assert probe._disagree(without_controller(3))
    assert not probe._disagree(closed(facts(), 3))
    assert probe.GROUPS_HURT_S + probe.ANSWER_TIMEOUT_S < 10


def test_a_coordinator_that_is_not_ready_in_time_has_answered() -> None:
    for code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
        failure = transaction_requests._failure(code, "transactional id t")
        assert failure.exit_code == FAILED
        assert failure.message == f"transactional id t was not ready in time ({code.name})"
