"""Connections that say nothing, say it slowly or never listen: they cost little, and nobody waits.

The broker starts with a soft limit of a few open files, as many systems have it, and has to help
itself to what the hard limit allows.
"""

from __future__ import annotations

import resource
import struct
import time
import warnings
from collections.abc import Iterator

import pytest

from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.frames import read_response, write_request
from kafkaesque.protocols.kafka.messages.api_versions_request import ApiVersionsRequest
from kafkaesque.protocols.kafka.messages.create_topics_request import (
    CreatableTopic,
    CreateTopicsRequest,
)
from kafkaesque.protocols.kafka.messages.describe_configs_request import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from kafkaesque.protocols.kafka.messages.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
)
from kafkaesque.protocols.kafka.messages.metadata_request import MetadataRequest
from tests.clients.bad_input import (
    ANSWER_TIMEOUT_S,
    MIB,
    Victim,
    Wire,
    batch,
    produce_request,
)
from tests.waiting import eventually

CONNECTIONS = 10_000
#: Descriptors of this process and of the broker that are needed for something else.
SPARE_FILES = 500
#: Of a broker's descriptors, three quarters may be connections.
CONNECTIONS_SHARE = 0.75
FILES_AT_START = 256
FRAME_BYTES_MAX = 100 * MIB
#: The idle limit of the broker here, in place of ten minutes.
IDLE_MS = 4_000
#: Room for incomplete frames there, in place of half a gigabyte.
INCOMPLETE_BYTES_MAX = 48 * MIB


@pytest.fixture(scope="module")
def many_files() -> Iterator[int]:
    """Raise this process's limit of open files; give it back afterwards."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture(scope="module")
def victim(many_files: int) -> Iterator[Victim]:
    with Victim(files_soft=FILES_AT_START) as made:
        yield made


@pytest.fixture(scope="module")
def topic(victim: Victim) -> str:
    return victim.make_topic()


def close_all(wires: list[Wire]) -> None:
    for wire in wires:
        wire.socket.close()


def files_of(victim: Victim) -> tuple[int, int]:
    """Return the soft and the hard limit of open files that the broker has."""
    return resource.prlimit(victim.process.pid, resource.RLIMIT_NOFILE)


# -- those that say nothing


def test_the_broker_takes_all_the_descriptors_that_it_may_have(victim: Victim) -> None:
    soft, hard = files_of(victim)
    assert soft == hard > FILES_AT_START


# "error" is what the suite makes of warnings: here one says that the machine allows fewer.
@pytest.mark.filterwarnings("default:.* open files are allowed")
def test_ten_thousand_connections_that_say_nothing(victim: Victim, many_files: int) -> None:
    possible = int(many_files * CONNECTIONS_SHARE) - SPARE_FILES
    count = min(CONNECTIONS, possible)
    if count < CONNECTIONS:
        warnings.warn(
            pytest.PytestWarning(f"{count} connections: {many_files} open files are allowed"),
            stacklevel=1,
        )
    wires: list[Wire] = []
    try:
        with victim.watched(growth_bytes_max=count * 8 * 1024):
            wires += (victim.connect() for _ in range(count))
            time.sleep(1)
            for wire in wires[:: count // 20]:
                request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
                answer = wire.ask(ApiKey.API_VERSIONS, 3, request)
                assert answer.error_code == ErrorCode.NONE
    finally:
        close_all(wires)


def test_strangers_do_not_take_the_descriptors_that_files_need() -> None:
    files = 400
    with Victim(files_soft=files, files_hard=files) as victim, victim.connect() as friend:
        wires: list[Wire] = []
        try:
            wires += (victim.connect() for _ in range(2 * files))
            left, deadline = wires, time.monotonic() + ANSWER_TIMEOUT_S
            while len(left) > CONNECTIONS_SHARE * files:
                assert time.monotonic() < deadline, f"{len(left)} connections are let in"
                left = [wire for wire in left if not wire.is_closed_by_broker(0.001)]
            # Many new files are opened for a topic, and who is there already notices nothing.
            request = CreateTopicsRequest(
                topics=[CreatableTopic("files", 20, 1)], timeout_ms=10_000
            )
            (answer,) = friend.ask(ApiKey.CREATE_TOPICS, 5, request).topics
            assert answer.error_code == ErrorCode.NONE
            produced = produce_request("files", batch(b"x"), partition=19)
            (outcome,) = friend.ask(ApiKey.PRODUCE, 9, produced).responses
            assert outcome.partition_responses[0].error_code == ErrorCode.NONE
        finally:
            close_all(wires)


def test_frames_of_100_mb_that_are_announced_and_never_come(victim: Victim) -> None:
    wires: list[Wire] = []
    try:
        with victim.watched(growth_bytes_max=16 * MIB):
            for number in range(1000):
                wires.append(victim.connect())
                wires[-1].send(struct.pack(">i", FRAME_BYTES_MAX) + bytes(number % 200))
            time.sleep(0.5)
    finally:
        close_all(wires)


def test_frames_that_come_in_part_hold_what_has_come(victim: Victim) -> None:
    part, count = 256 * 1024, 100
    wires: list[Wire] = []
    try:
        with victim.watched(growth_bytes_max=4 * part * count + 16 * MIB):
            for _ in range(count):
                wires.append(victim.connect())
                wires[-1].send(struct.pack(">i", FRAME_BYTES_MAX) + bytes(part))
            time.sleep(0.5)
    finally:
        close_all(wires)
    with victim.watched(growth_bytes_max=16 * MIB):
        time.sleep(0.2)


def test_connections_that_come_and_go_leave_nothing_behind(victim: Victim) -> None:
    def descriptors() -> int:
        return len(list(victim.process_directory("fd")))

    request = write_request(ApiKey.METADATA, 9, 1, "test", MetadataRequest(topics=[]))
    before = descriptors()
    with victim.watched(growth_bytes_max=16 * MIB):
        for number in range(3000):
            with victim.connect() as wire:
                wire.send(request[: number % (len(request) + 1)])
                if number % 2:
                    wire.reset_on_close()
        eventually(lambda: descriptors() <= before + 2, "all descriptors are closed")


# -- those that do not listen


def padded(frame: bytes, padding: int) -> bytes:
    """Return a request with bytes behind it that nobody reads."""
    return struct.pack(">i", len(frame) - 4 + padding) + frame[4:] + bytes(padding)


def documentation_request(correlation_id: int) -> bytes:
    """Return a request of some bytes whose answer has many thousands."""
    resources = [DescribeConfigsResource(resource_type=4, resource_name="1")]
    request = DescribeConfigsRequest(
        resources=resources, include_synonyms=True, include_documentation=True
    )
    return write_request(ApiKey.DESCRIBE_CONFIGS, 4, correlation_id, "test", request)


def send_until_refused(wire: Wire, requests: Iterator[bytes], *, seconds: float = 0.6) -> int:
    """Send until the broker has taken nothing for a while; return how many went out whole."""
    wire.socket.settimeout(seconds)
    count = 0
    try:
        for request in requests:
            wire.send(request)
            count += 1
    except TimeoutError:
        return count
    raise AssertionError(f"the broker took {count} requests and never stopped")


def test_a_client_that_never_reads_its_answers_is_not_listened_to_either(victim: Victim) -> None:
    with victim.connect(receive_bytes=4096) as wire, victim.watched(growth_bytes_max=16 * MIB):
        requests = (padded(documentation_request(n), 100_000) for n in range(1000))
        sent = send_until_refused(wire, requests)
        # Now it reads, and finds the answers to all that it has sent, in order.
        wire.socket.settimeout(ANSWER_TIMEOUT_S)
        for number in range(sent):
            frame = memoryview(wire.frame())
            correlation, answer = read_response(frame, ApiKey.DESCRIBE_CONFIGS, 4)
            assert correlation == number
            assert answer.results[0].error_code == ErrorCode.NONE


def test_many_clients_that_never_read_their_answers(victim: Victim) -> None:
    count = 30
    wires: list[Wire] = []
    try:
        with victim.watched(growth_bytes_max=count * 2 * MIB):
            parcel = b"".join(documentation_request(n) for n in range(1000))
            for _ in range(count):
                wires.append(victim.connect(receive_bytes=4096))
                wires[-1].socket.setblocking(False)
            for _ in range(5):
                for wire in wires:
                    try:
                        wire.socket.send(parcel)
                    except BlockingIOError:
                        pass
                time.sleep(0.3)
    finally:
        close_all(wires)


def fetch_request(topic: str, *, offset: int, wait_ms: int, padding: int = 0) -> bytes:
    wanted = FetchPartition(
        partition=0,
        current_leader_epoch=-1,
        fetch_offset=offset,
        last_fetched_epoch=-1,
        log_start_offset=-1,
        partition_max_bytes=MIB,
    )
    request = FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=MIB,
        session_epoch=-1,
        topics=[FetchTopic(topic=topic, partitions=[wanted])],
    )
    return padded(write_request(ApiKey.FETCH, 12, 1, "test", request), padding)


def test_records_that_nobody_reads_stay_where_they_are(victim: Victim) -> None:
    topic = victim.make_topic()
    with victim.connect() as wire:
        for _ in range(8):
            wire.ask(ApiKey.PRODUCE, 9, produce_request(topic, batch(bytes(900_000))))
    wires: list[Wire] = []
    try:
        with victim.watched(growth_bytes_max=16 * MIB):
            for _ in range(50):
                wires.append(victim.connect(receive_bytes=4096))
                wires[-1].send(fetch_request(topic, offset=0, wait_ms=0) * 50)
            time.sleep(1)
    finally:
        close_all(wires)


def test_requests_that_wait_for_an_answer_are_bounded_in_number(victim: Victim) -> None:
    topic = victim.make_topic()
    with victim.connect() as wire, victim.watched(growth_bytes_max=16 * MIB):
        waiting = fetch_request(topic, offset=0, wait_ms=600_000)
        sent = send_until_refused(wire, (waiting for _ in range(10**6)))
        with victim.connect() as other:
            other.ask(ApiKey.PRODUCE, 9, produce_request(topic, batch(b"at last")))
        wire.socket.settimeout(ANSWER_TIMEOUT_S)
        for _ in range(sent):
            answer = wire.answer(ApiKey.FETCH, 12)
            assert answer.responses[0].partitions[0].records


def test_requests_that_wait_for_an_answer_are_bounded_in_bytes(victim: Victim) -> None:
    topic = victim.make_topic()
    padding = 20 * MIB
    with victim.connect() as wire, victim.watched(growth_bytes_max=5 * padding):
        waiting = fetch_request(topic, offset=0, wait_ms=600_000, padding=padding)
        assert send_until_refused(wire, (waiting for _ in range(100))) < 5


def test_answers_that_wait_for_an_earlier_one_are_bounded_in_bytes(victim: Victim) -> None:
    topic = victim.make_topic()
    with victim.connect() as wire, victim.watched(growth_bytes_max=48 * MIB):
        wire.send(fetch_request(topic, offset=0, wait_ms=600_000))
        send_until_refused(wire, (documentation_request(n) for n in range(10**6)))


# -- those that take their time


@pytest.fixture(scope="module")
def impatient(many_files: int) -> Iterator[Victim]:
    """Return a broker that closes idle connections after seconds, and has little room."""
    constants = [f"runtime.framing:INCOMPLETE_BYTES_MAX={INCOMPLETE_BYTES_MAX}"]
    options = {"connections.max.idle.ms": str(IDLE_MS)}
    with Victim(options=options, constants=constants) as made:
        yield made


def test_clients_that_send_a_byte_now_and_then_are_closed_in_time(impatient: Victim) -> None:
    # A byte a minute, with ten minutes to say something whole: here, a byte at a time until all are
    # closed, of a request that is never whole.
    wires = [impatient.connect() for _ in range(200)]
    for wire in wires:
        wire.send(struct.pack(">i", FRAME_BYTES_MAX))
    talker = impatient.connect()
    try:
        with impatient.watched(growth_bytes_max=16 * MIB):
            started, left = time.monotonic(), wires
            while left:
                assert time.monotonic() - started < ANSWER_TIMEOUT_S, f"{len(left)} are waited for"
                talker.ask(ApiKey.METADATA, 9, MetadataRequest(topics=[]))
                for wire in left:
                    try:
                        wire.send(b"\0")
                    except OSError:
                        pass
                time.sleep(IDLE_MS / 1000 / 16)
                left = [wire for wire in left if not wire.is_closed_by_broker(0.001)]
            assert time.monotonic() - started > IDLE_MS / 2 / 1000
        # Who has said something whole in all that time is still there.
        talker.ask(ApiKey.METADATA, 9, MetadataRequest(topics=[]))
    finally:
        close_all([*wires, talker])


@pytest.mark.extended
def test_a_client_that_never_reads_is_closed_in_time(impatient: Victim) -> None:
    with impatient.connect(receive_bytes=4096) as wire, pytest.raises(ConnectionError):
        stop_reading(impatient, wire)


def stop_reading(victim: Victim, wire: Wire) -> None:
    """Raise once the connection is closed: while this sends still, where that takes long."""
    send_until_refused(wire, (documentation_request(n) for n in range(10**6)))
    with victim.watched():
        time.sleep(2 * IDLE_MS / 1000)
    # What had been sent before it was closed may still be read, and then comes the end.
    wire.socket.settimeout(ANSWER_TIMEOUT_S)
    while wire.socket.recv(MIB):
        pass
    raise ConnectionResetError


def test_when_incomplete_frames_take_too_much_room_the_oldest_are_given_up(
    impatient: Victim,
) -> None:
    part, count = MIB, 120
    topic = impatient.make_topic()
    wires: list[Wire] = []
    try:
        with impatient.watched(growth_bytes_max=INCOMPLETE_BYTES_MAX + 16 * MIB):
            for _ in range(count):
                wires.append(impatient.connect())
                wires[-1].send(struct.pack(">i", FRAME_BYTES_MAX) + bytes(part))
            # Somebody with something long to say is heard all the same.
            with impatient.connect() as wire:
                request = produce_request(topic, batch(bytes(900_000)))
                (answer,) = wire.ask(ApiKey.PRODUCE, 9, request).responses
                assert answer.partition_responses[0].error_code == ErrorCode.NONE
            assert wires[0].is_closed_by_broker(0.1)
            assert not wires[-1].is_closed_by_broker(0.1)
    finally:
        close_all(wires)
