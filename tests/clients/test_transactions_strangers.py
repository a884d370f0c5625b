"""Who is shut out, counts wrongly or asks for what is another's gets the error Kafka gives."""

from __future__ import annotations

import struct
from functools import partial
from typing import Any

import pytest

from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.frames import write_request
from kafkaesque.protocols.kafka.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kafkaesque.protocols.kafka.messages.end_txn_request import EndTxnRequest
from kafkaesque.protocols.kafka.messages.init_producer_id_request import InitProducerIdRequest
from kafkaesque.protocols.kafka.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.clients.bad_input import Wire
from tests.clients.kafka_helpers import TopicMaker, unique
from tests.clients.raw_transactions import (
    COMMIT_OFFSETS,
    COMMIT_OFFSETS_2,
    END_2,
    PRODUCE_2,
    TIMEOUT_MS,
    Raw,
    RawProducer,
    settled,
)
from tests.clients.transaction_fixtures import (
    PARTITIONS,
    added,
    added_code,
    begun,
    bystander,
    make_module_topic,
    others_notice_nothing,
    raw,
    still_commits,
    topic,
)
from tests.clients.transactional_clients import read_all
from tests.waiting import eventually

__all__ = [
    "added",
    "begun",
    "bystander",
    "make_module_topic",
    "others_notice_nothing",
    "raw",
    "topic",
]

E = ErrorCode
OUT_OF_ORDER = E.OUT_OF_ORDER_SEQUENCE_NUMBER
INT16_MAX, INT32_MAX = 2**15 - 1, 2**31 - 1
#: Few enough for one request, and too many.
MANY, TOO_MANY = 40_000, 100_000
STRING_BYTES_MAX = 32_767


# -- who is shut out by a second InitProducerId


@pytest.fixture
def shut_out(added: RawProducer, topic: str) -> RawProducer:
    """A producer with a record in an open transaction, and somebody else has begun since."""
    assert settled(lambda: added.send(topic, 0, b"aborted")) is E.NONE
    second = RawProducer(added.raw, added.transactional_id)
    assert settled(second.init) is E.NONE
    assert (second.producer_id, second.epoch) != (added.producer_id, added.epoch)
    return added


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_who_is_shut_out_adds_and_ends_nothing(
    shut_out: RawProducer, topic: str, version: int
) -> None:
    fenced = E.PRODUCER_FENCED if version >= 2 else E.INVALID_PRODUCER_EPOCH
    assert settled(lambda: shut_out.add({topic: [1]}, version)[0]) is fenced
    assert settled(lambda: shut_out.add_offsets(unique("group"), version)) is fenced
    assert settled(lambda: shut_out.end(is_commit=True, version=version)) is fenced
    assert settled(lambda: shut_out.end(is_commit=False, version=version)) is fenced


@pytest.mark.parametrize("version", [3, 9, 11, PRODUCE_2])
@pytest.mark.parametrize("partition", [0, 1], ids=["written", "new"])
def test_who_is_shut_out_writes_nothing(
    shut_out: RawProducer, topic: str, version: int, partition: int
) -> None:
    code = settled(lambda: shut_out.send(topic, partition, b"late", version=version))
    assert code is E.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize("version", [0, 2, 3, COMMIT_OFFSETS, COMMIT_OFFSETS_2])
def test_who_is_shut_out_commits_no_offsets(
    shut_out: RawProducer, topic: str, version: int
) -> None:
    codes = shut_out.commit_offsets(unique("group"), {(topic, 0): 1}, version=version)
    assert codes == [E.INVALID_PRODUCER_EPOCH]


def test_who_is_shut_out_does_not_come_back_by_its_epoch(shut_out: RawProducer) -> None:
    present = {"producer_id": shut_out.producer_id, "epoch": shut_out.epoch}
    assert settled(lambda: shut_out.init(**present)) is E.PRODUCER_FENCED


def test_the_second_goes_on_and_the_first_s_records_are_aborted(
    bootstrap_servers: str, added: RawProducer, make_topic: TopicMaker
) -> None:
    topic = make_topic("fenced", partitions=1)
    assert settled(lambda: added_code(added, topic)) is E.NONE
    assert settled(lambda: added.send(topic, 0, b"first")) is E.NONE
    second = RawProducer(added.raw, added.transactional_id)
    assert settled(second.init) is E.NONE
    assert settled(lambda: added.end(is_commit=True)) is E.PRODUCER_FENCED
    assert settled(lambda: added_code(second, topic)) is E.NONE
    still_commits(second, topic)
    eventually(lambda: read_all(bootstrap_servers, topic) == {0: [b"right"]}, "the commit")


# -- epochs and sequence numbers


@pytest.mark.parametrize("epoch", [-1, 0, INT16_MAX])
def test_epochs_that_are_not_in_force(raw: Raw, topic: str, epoch: int) -> None:
    producer = RawProducer(raw)
    for _ in range(2):
        assert settled(producer.init) is E.NONE
    assert settled(lambda: added_code(producer, topic)) is E.NONE
    wrong = {-1: E.INVALID_RECORD}.get(epoch, E.INVALID_PRODUCER_EPOCH)
    assert settled(lambda: producer.send(topic, 0, b"x", producer_epoch=epoch)) is wrong
    still_commits(producer, topic)


@pytest.mark.parametrize("sequence", [-(2**31), -2, 2, 6, INT32_MAX])
def test_sequences_that_do_not_follow(added: RawProducer, topic: str, sequence: int) -> None:
    assert settled(lambda: added.send(topic, 0, b"first")) is E.NONE
    code = settled(lambda: added.send(topic, 0, b"gap", base_sequence=sequence))
    assert code is (E.INVALID_RECORD if sequence < 0 else OUT_OF_ORDER)
    still_commits(added, topic)


def test_sequences_begin_again_after_the_highest(
    bootstrap_servers: str, begun: RawProducer, make_topic: TopicMaker
) -> None:
    topic = make_topic("wrap", partitions=1)
    assert settled(lambda: added_code(begun, topic)) is E.NONE
    # A producer of which a partition knows nothing may begin anywhere.
    steps = [
        (INT32_MAX - 1, [b"1", b"2", b"3"], E.NONE),
        (INT32_MAX - 1, [b"1", b"2", b"3"], E.NONE),  # was there already
        (INT32_MAX, [b"x"], OUT_OF_ORDER),
        (2, [b"x"], OUT_OF_ORDER),
        (1, [b"4"], E.NONE),
        (1, [b"4"], E.NONE),
        (INT32_MAX - 1, [b"1", b"2", b"3"], E.NONE),
        (2, [b"5"], E.NONE),
    ]
    for sequence, values, code in steps:
        send = partial(begun.send, topic, 0, *values, base_sequence=sequence)
        assert settled(send) is code, sequence
    assert settled(lambda: begun.end(is_commit=True)) is E.NONE
    wanted = {0: [b"1", b"2", b"3", b"4", b"5"]}
    eventually(lambda: read_all(bootstrap_servers, topic) == wanted, "the commit")


# -- very many partitions


@pytest.mark.parametrize("version", [0, 3, 4])
def test_more_partitions_than_any_request_may_name(
    begun: RawProducer, topic: str, version: int
) -> None:
    with pytest.raises(ConnectionError):
        begun.add({topic: range(TOO_MANY)}, version)
    assert begun.raw.describe(begun.transactional_id).transaction_state == "Empty"


@pytest.mark.parametrize("version", [0, 3, 4])
def test_very_many_partitions_that_do_not_exist(
    begun: RawProducer, topic: str, version: int
) -> None:
    for wanted in ({topic: range(MANY)}, {f"nowhere-{n}": [0] for n in range(MANY // 10)}):
        codes = begun.add(wanted, version)
        there = PARTITIONS if topic in wanted else 0
        assert codes.count(E.OPERATION_NOT_ATTEMPTED) == there
        assert codes.count(E.UNKNOWN_TOPIC_OR_PARTITION) == len(codes) - there
    assert begun.raw.describe(begun.transactional_id).transaction_state == "Empty"


# -- TxnOffsetCommit


@pytest.fixture
def group(added: RawProducer) -> str:
    """A group whose offsets are part of the transaction of `added`."""
    name = unique("group")
    assert settled(lambda: added.add_offsets(name)) is E.NONE
    return name


def test_offsets_of_what_does_not_exist(added: RawProducer, group: str, topic: str) -> None:
    wanted = {(topic, 0): 1, (topic, PARTITIONS): 1, ("nowhere", 0): 1, (topic, -1): 1}
    unknown = E.UNKNOWN_TOPIC_OR_PARTITION
    assert added.commit_offsets(group, wanted) == [E.NONE, unknown, unknown, unknown]
    still_commits(added, topic)


@pytest.mark.parametrize("version", [0, 3, COMMIT_OFFSETS, COMMIT_OFFSETS_2])
def test_offsets_for_somebody_else(
    added: RawProducer, group: str, topic: str, version: int
) -> None:
    def code() -> ErrorCode:
        return added.commit_offsets(group, {(topic, 0): 1}, version=version)[0]

    present = (added.producer_id, added.epoch)
    wrongs = (
        ((1_000_000, 0), E.INVALID_PRODUCER_ID_MAPPING),
        ((0, 1), E.INVALID_PRODUCER_EPOCH),
        ((0, -1), E.INVALID_PRODUCER_EPOCH),
    )
    for change, wrong in wrongs:
        added.producer_id, added.epoch = present[0] + change[0], present[1] + change[1]
        assert settled(code) is wrong
    added.producer_id, added.epoch = present
    assert settled(code) is E.NONE
    still_commits(added, topic)


@pytest.mark.parametrize("version", [0, 3, COMMIT_OFFSETS, COMMIT_OFFSETS_2])
def test_offsets_that_are_not_part_of_the_transaction(
    added: RawProducer, topic: str, version: int
) -> None:
    codes = added.commit_offsets(unique("group"), {(topic, 0): 1}, version=version)
    # From version 5 on, the group's coordinator has its partition added.
    assert codes == [E.NONE if version >= COMMIT_OFFSETS_2 else E.INVALID_TXN_STATE]
    still_commits(added, topic)


@pytest.mark.parametrize(
    ("member", "code"),
    [
        ({"generation_id": 7, "member_id": "nobody"}, E.ILLEGAL_GENERATION),
        ({"generation_id": INT32_MAX, "member_id": ""}, E.ILLEGAL_GENERATION),
    ],
)
def test_offsets_of_members_that_are_none(
    added: RawProducer, group: str, topic: str, member: dict[str, Any], code: ErrorCode
) -> None:
    assert added.commit_offsets(group, {(topic, 0): 1}, **member) == [code]
    assert added.commit_offsets(group, {(topic, 0): 1}) == [E.NONE]
    still_commits(added, topic)


def test_offsets_with_a_novel_beside_them(added: RawProducer, group: str, topic: str) -> None:
    codes = added.commit_offsets(group, {(topic, 0): 1}, metadata="x" * 5000)
    assert codes == [E.OFFSET_METADATA_TOO_LARGE]
    still_commits(added, topic)


# -- transactional ids that cannot be


def with_id(request: bytes, transactional_id: bytes, replacement: bytes) -> bytes:
    """Put other bytes in the place of a compact string."""
    written = bytes([len(transactional_id) + 1]) + transactional_id
    body = request[4:]
    assert body.count(written) == 1
    body = body.replace(written, replacement)
    return struct.pack(">i", len(body)) + body


@pytest.mark.parametrize("size", [None, STRING_BYTES_MAX + 1, 1_000_000], ids=str)
@pytest.mark.parametrize("api", [ApiKey.END_TXN, ApiKey.ADD_PARTITIONS_TO_TXN])
def test_no_transactional_id_or_one_that_is_too_long(
    begun: RawProducer, size: int | None, api: ApiKey
) -> None:
    name = begun.transactional_id
    request = {
        ApiKey.END_TXN: EndTxnRequest(name, begun.producer_id, begun.epoch, True),
        ApiKey.ADD_PARTITIONS_TO_TXN: AddPartitionsToTxnRequest(
            (), name, begun.producer_id, begun.epoch, ()
        ),
    }[api]
    length = 0 if size is None else size + 1
    varint = (
        bytes([length & 0x7F | 0x80, length >> 7 & 0x7F | 0x80, length >> 14]) if size else b"\0"
    )
    frame = with_id(
        write_request(api, 3, 1, "test", request), name.encode(), varint + b"x" * (size or 0)
    )
    with Wire(begun.raw.coordinator(name)) as wire:
        wire.send(frame)
        assert wire.is_closed_by_broker()
    assert begun.raw.describe(name).transaction_state == "Empty"


def test_an_id_too_long_begins_nothing(raw: Raw) -> None:
    name = unique("long")
    request = InitProducerIdRequest(name, TIMEOUT_MS, -1, -1)
    length = STRING_BYTES_MAX + 2
    varint = bytes([length & 0x7F | 0x80, length >> 7 & 0x7F | 0x80, length >> 14])
    frame = write_request(ApiKey.INIT_PRODUCER_ID, 5, 1, "test", request)
    with Wire(raw.coordinator(name)) as wire:
        wire.send(with_id(frame, name.encode(), varint + b"x" * (length - 1)))
        assert wire.is_closed_by_broker()


# -- markers from strangers


def ask_for_marker(
    raw: Raw, port: int, topic: str, partition: int, producer: tuple[int, int], epoch: int = 0
) -> ErrorCode:
    topics = [WritableTxnMarkerTopic(topic, [partition])]
    marker = WritableTxnMarker(*producer, False, topics, epoch, 0)
    answer = raw.ask(port, ApiKey.WRITE_TXN_MARKERS, 1, WriteTxnMarkersRequest([marker]))
    return ErrorCode(answer.markers[0].topics[0].partitions[0].error_code)


def test_markers_where_they_do_not_belong(added: RawProducer, topic: str) -> None:
    raw, producer = added.raw, (added.producer_id, added.epoch)
    leader = raw.leader(topic, 0)
    for port in raw.ports:
        wrong = E.NOT_LEADER_OR_FOLLOWER
        if port != leader:
            assert ask_for_marker(raw, port, topic, 0, producer) is wrong
        unknown = ask_for_marker(raw, port, "nowhere", 0, producer)
        assert unknown is E.UNKNOWN_TOPIC_OR_PARTITION
        assert ask_for_marker(raw, port, topic, PARTITIONS, producer) is unknown
        assert ask_for_marker(raw, port, topic, -1, producer) is unknown
    still_commits(added, topic)


def test_a_coordinator_of_the_past_ends_nothing(
    bootstrap_servers: str, added: RawProducer, make_topic: TopicMaker
) -> None:
    topic = make_topic("past", partitions=1)
    present = (added.producer_id, added.epoch)
    for value in (b"first", b"second"):
        assert settled(lambda: added_code(added, topic)) is E.NONE
        assert settled(partial(added.send, topic, 0, value)) is E.NONE
        if value == b"second":
            port = added.raw.leader(topic, 0)
            for epoch in (0, -1):
                fenced = ask_for_marker(added.raw, port, topic, 0, present, epoch)
                # Below 0 Kafka says that it does not know why.
                assert fenced in (E.TRANSACTION_COORDINATOR_FENCED, E.INVALID_RECORD)
        assert settled(lambda: added.end(is_commit=True)) is E.NONE
    wanted = {0: [b"first", b"second"]}
    eventually(lambda: read_all(bootstrap_servers, topic) == wanted, "both commits")


# -- versions that no client mixes


def test_versions_of_both_kinds_in_one_transaction(
    bootstrap_servers: str, added: RawProducer, make_topic: TopicMaker
) -> None:
    topic = make_topic("mixed", partitions=2)
    assert settled(lambda: added_code(added, topic)) is E.NONE
    assert settled(lambda: added.send(topic, 0, b"old")) is E.NONE
    assert settled(lambda: added.send(topic, 1, b"new", version=PRODUCE_2)) is E.NONE
    assert settled(lambda: added.end(is_commit=True, version=END_2)) is E.NONE
    assert settled(lambda: added_code(added, topic)) is E.NONE
    assert settled(lambda: added.send(topic, 0, b"old too")) is E.NONE
    assert settled(lambda: added.end(is_commit=True)) is E.NONE
    wanted = {0: [b"old", b"old too"], 1: [b"new"]}
    eventually(lambda: read_all(bootstrap_servers, topic) == wanted, "both commits")


@pytest.mark.parametrize("version", [4, 5])
def test_a_client_that_asks_about_many_transactions(
    added: RawProducer, topic: str, version: int
) -> None:
    """As only brokers do; what belongs to strangers is refused one by one."""
    present = (added.producer_id, added.epoch)
    everybody = [
        (added.transactional_id, *present, False, [0]),
        (added.transactional_id, *present, True, [0, 1]),
        (added.transactional_id, present[0], present[1] + 1, False, [1]),
        (unique("stranger"), 7, 0, False, [0]),
        ("", 7, 0, False, [0]),
    ]
    transactions = [
        AddPartitionsToTxnTransaction(
            name, producer_id, epoch, verify_only, [AddPartitionsToTxnTopic(topic, partitions)]
        )
        for name, producer_id, epoch, verify_only, partitions in everybody
    ]
    request = AddPartitionsToTxnRequest(transactions)
    port = added.raw.coordinator(added.transactional_id)
    answer = added.raw.ask(port, ApiKey.ADD_PARTITIONS_TO_TXN, version, request)
    found = [
        [each.partition_error_code for each in result.topic_results[0].results_by_partition]
        for result in answer.results_by_transaction
    ]
    stranger = found.pop(3)[0]
    # Wherever that one would be coordinated.
    assert stranger in (E.INVALID_PRODUCER_ID_MAPPING, E.NOT_COORDINATOR)
    nobody = found.pop()[0]
    assert nobody in (E.INVALID_REQUEST, E.NOT_COORDINATOR)
    assert found == [[E.NONE], [E.NONE, E.TRANSACTION_ABORTABLE], [E.PRODUCER_FENCED]]
    still_commits(added, topic)
