"""Transactional requests that are wrong get the error Kafka gives, and disturb nobody else."""

from __future__ import annotations

from typing import Any

import pytest

from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.init_producer_id_request import InitProducerIdRequest
from tests.clients.kafka_helpers import TopicMaker, unique
from tests.clients.raw_transactions import (
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
INT32_MAX = 2**31 - 1
INTERNAL = ("__transaction_state", "__consumer_offsets")
END_VERSIONS = (0, 1, 2, 3, 4, 5)
PRODUCE_VERSIONS = (3, 9, 11, 12)
NO_PRODUCER = {"producer_id": -1, "producer_epoch": -1, "base_sequence": -1}


# -- InitProducerId


def init(raw: Raw, transactional_id: str, timeout_ms: int = TIMEOUT_MS) -> ErrorCode:
    producer = RawProducer(raw)
    producer.transactional_id = transactional_id
    return settled(lambda: producer.init(timeout_ms))


@pytest.mark.parametrize("size", [1, 1000, 20_000, 32_767])
def test_transactional_ids_may_be_long(raw: Raw, size: int) -> None:
    transactional_id = unique("x")[:size].ljust(size, "x")
    assert init(raw, transactional_id) is E.NONE
    assert raw.describe(transactional_id).transaction_state == "Empty"


def test_an_empty_transactional_id_is_none(raw: Raw) -> None:
    assert init(raw, "") is E.INVALID_REQUEST


@pytest.mark.parametrize("timeout_ms", [-(2**31), -1, 0, 900_001, INT32_MAX])
def test_absurd_time_outs(raw: Raw, timeout_ms: int) -> None:
    assert init(raw, unique("time"), timeout_ms) is E.INVALID_TRANSACTION_TIMEOUT


@pytest.mark.parametrize(
    ("producer_id", "epoch", "code"),
    [
        (0, 5, E.PRODUCER_FENCED),
        (0, 32_767, E.PRODUCER_FENCED),
        (12_345_678, 0, E.PRODUCER_FENCED),
        (0, None, E.INVALID_REQUEST),
        (None, 0, E.INVALID_REQUEST),
    ],
)
def test_going_on_as_somebody_else(
    begun: RawProducer, producer_id: int | None, epoch: int | None, code: ErrorCode
) -> None:
    """`producer_id` is what is added to the right one."""
    wrong_id = -1 if producer_id is None else begun.producer_id + producer_id
    wrong_epoch = -1 if epoch is None else epoch
    assert settled(lambda: begun.init(producer_id=wrong_id, epoch=wrong_epoch)) is code
    present = (begun.producer_id, begun.epoch)
    assert settled(lambda: begun.init(producer_id=present[0], epoch=present[1])) is E.NONE


def test_who_asks_the_wrong_broker_is_told_so(raw: Raw, begun: RawProducer) -> None:
    port = raw.coordinator(begun.transactional_id)
    request = InitProducerIdRequest(begun.transactional_id, TIMEOUT_MS, -1, -1)
    for other in raw.ports:
        if other != port:
            answer = raw.ask(other, ApiKey.INIT_PRODUCER_ID, 5, request)
            assert answer.error_code == E.NOT_COORDINATOR


# -- AddPartitionsToTxn


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_adding_for_somebody_else(begun: RawProducer, topic: str, version: int) -> None:
    fenced = E.PRODUCER_FENCED if version >= 2 else E.INVALID_PRODUCER_EPOCH
    present = (begun.producer_id, begun.epoch)
    for change, code in (((1, 0), E.INVALID_PRODUCER_ID_MAPPING), ((0, 1), fenced)):
        begun.producer_id, begun.epoch = present[0] + change[0], present[1] + change[1]
        assert begun.add({topic: [0]}, version) == [code]
    begun.producer_id, begun.epoch = present
    assert begun.add({topic: [0]}, version) == [E.NONE]


def test_adding_for_an_id_that_nobody_has(raw: Raw, topic: str) -> None:
    producer = RawProducer(raw)
    assert producer.add({topic: [0]}) == [E.INVALID_PRODUCER_ID_MAPPING]
    producer.transactional_id = ""
    assert producer.add({topic: [0]}) == [E.INVALID_REQUEST]


@pytest.mark.parametrize("name", ["no-such-topic", "a b", "", "x" * 32_767])
def test_topics_that_do_not_exist(begun: RawProducer, topic: str, name: str) -> None:
    codes = begun.add({name: [0], topic: [1, 2]})
    # In the order of the request, or not: Kafka's answer has an order of its own.
    assert sorted(codes) == [E.UNKNOWN_TOPIC_OR_PARTITION, *[E.OPERATION_NOT_ATTEMPTED] * 2]
    assert begun.raw.describe(begun.transactional_id).transaction_state == "Empty"


@pytest.mark.parametrize("partition", [-1, PARTITIONS, INT32_MAX, -(2**31)])
def test_partitions_that_do_not_exist(begun: RawProducer, topic: str, partition: int) -> None:
    codes = begun.add({topic: [0, partition]})
    assert sorted(codes) == [E.UNKNOWN_TOPIC_OR_PARTITION, E.OPERATION_NOT_ATTEMPTED]


@pytest.mark.parametrize("name", INTERNAL[:1])
def test_brokers_own_topics_take_no_part(begun: RawProducer, topic: str, name: str) -> None:
    codes = begun.add({name: [0], topic: [0]})
    assert sorted(codes) == [E.TOPIC_AUTHORIZATION_FAILED, E.OPERATION_NOT_ATTEMPTED]


def test_partitions_may_be_added_twice_or_none_at_all(begun: RawProducer, topic: str) -> None:
    assert begun.add({}) == []
    assert begun.add({topic: []}) == []
    assert begun.add({topic: [0, 0]}) == [E.NONE, E.NONE]
    still_commits(begun, topic)


# -- EndTxn


@pytest.mark.parametrize("version", END_VERSIONS)
def test_ending_for_somebody_else(added: RawProducer, topic: str, version: int) -> None:
    fenced = E.PRODUCER_FENCED if version >= 2 else E.INVALID_PRODUCER_EPOCH
    present = (added.producer_id, added.epoch)
    wrongs = (((1, 0), E.INVALID_PRODUCER_ID_MAPPING), ((0, 1), fenced), ((0, -1), fenced))
    for change, code in wrongs:
        added.producer_id, added.epoch = present[0] + change[0], present[1] + change[1]
        assert settled(lambda: added.end(is_commit=True, version=version)) is code
    added.producer_id, added.epoch = present
    still_commits(added, topic)


@pytest.mark.parametrize("version", END_VERSIONS)
@pytest.mark.parametrize("is_commit", [True, False])
def test_ending_what_was_not_begun(begun: RawProducer, version: int, is_commit: bool) -> None:
    # Clients that leave it to the leader to add partitions do not know whether one was.
    may_abort = version >= END_2 and not is_commit
    code = E.NONE if may_abort else E.INVALID_TXN_STATE
    assert settled(lambda: begun.end(is_commit=is_commit, version=version)) is code


@pytest.mark.parametrize("version", [3, 5])
@pytest.mark.parametrize("first", [True, False], ids=["commit", "abort"])
@pytest.mark.parametrize("second", [True, False], ids=["commit", "abort"])
def test_what_is_decided_stays_decided(
    added: RawProducer, topic: str, version: int, first: bool, second: bool
) -> None:
    assert settled(lambda: added.send(topic, 0, b"decided")) is E.NONE
    before = (added.producer_id, added.epoch)
    assert settled(lambda: added.end(is_commit=first, version=version)) is E.NONE
    added.producer_id, added.epoch = before  # as if the answer were lost
    code = E.NONE if first == second else E.INVALID_TXN_STATE
    assert settled(lambda: added.end(is_commit=second, version=version)) is code


def test_ending_for_an_id_that_nobody_has(raw: Raw) -> None:
    producer = RawProducer(raw)
    producer.producer_id, producer.epoch = 7, 0
    assert settled(lambda: producer.end(is_commit=True)) is E.INVALID_PRODUCER_ID_MAPPING
    producer.transactional_id = ""
    assert settled(lambda: producer.end(is_commit=True)) is E.INVALID_REQUEST


# -- Produce


def sent(producer: RawProducer, topic: str, version: int, **options: Any) -> ErrorCode:
    return settled(lambda: producer.send(topic, 0, b"wrong", version=version, **options))


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"transactional_id": None}, E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ({"transactional_id": "a-stranger"}, E.INVALID_PRODUCER_ID_MAPPING),
        ({"producer_id": 987_654_321}, E.INVALID_PRODUCER_ID_MAPPING),
        ({"producer_epoch": 5}, E.INVALID_PRODUCER_EPOCH),
        ({"control": True}, E.INVALID_RECORD),
    ],
    ids=str,
)
def test_first_batches_that_are_wrong(
    added: RawProducer, topic: str, version: int, options: dict[str, Any], code: ErrorCode
) -> None:
    assert sent(added, topic, version, **options) is code
    still_commits(added, topic)


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"base_sequence": 7}, E.OUT_OF_ORDER_SEQUENCE_NUMBER),
        ({"base_sequence": 0}, E.NONE),  # was there already
        ({"transactional": False}, E.INVALID_TXN_STATE),
        ({"transactional_id": None}, E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ({"control": True}, E.INVALID_RECORD),
    ],
    ids=str,
)
def test_next_batches_that_are_wrong(
    added: RawProducer, topic: str, version: int, options: dict[str, Any], code: ErrorCode
) -> None:
    assert settled(lambda: added.send(topic, 0, b"first", version=version)) is E.NONE
    assert sent(added, topic, version, **options) is code
    still_commits(added, topic)


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_a_newer_epoch_that_nobody_was_given(added: RawProducer, topic: str, version: int) -> None:
    assert settled(lambda: added.send(topic, 0, b"first", version=version)) is E.NONE
    code = sent(added, topic, version, producer_epoch=5, base_sequence=0)
    assert code is E.INVALID_PRODUCER_EPOCH
    assert settled(lambda: added.end(is_commit=True)) is E.NONE


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_a_partition_that_was_not_added(added: RawProducer, topic: str, version: int) -> None:
    code = settled(lambda: added.send(topic, 1, b"elsewhere", version=version))
    unadded = {11: E.TRANSACTION_ABORTABLE, 12: E.NONE}
    assert code is unadded.get(version, E.INVALID_TXN_STATE)
    still_commits(added, topic)


@pytest.mark.parametrize("version", [3, 9, 11])
def test_a_batch_that_comes_late_opens_nothing(
    bootstrap_servers: str, raw: Raw, make_topic: TopicMaker, version: int
) -> None:
    topic = make_topic("late", partitions=1)
    producer = RawProducer(raw)
    assert settled(producer.init) is E.NONE
    assert settled(lambda: added_code(producer, topic)) is E.NONE
    assert settled(lambda: producer.send(topic, 0, b"in time", version=version)) is E.NONE
    assert settled(lambda: producer.end(is_commit=True)) is E.NONE

    def is_over() -> bool:
        return bool(raw.describe(producer.transactional_id).transaction_state == "CompleteCommit")

    eventually(is_over, "the markers")
    late = settled(lambda: producer.send(topic, 0, b"late", version=version))
    assert late is (E.TRANSACTION_ABORTABLE if version >= 11 else E.INVALID_TXN_STATE)
    assert read_all(bootstrap_servers, topic, is_committed=False) == {0: [b"in time"]}


def test_the_first_batch_of_a_transaction_is_not_overtaken(
    begun: RawProducer, make_topic: TopicMaker
) -> None:
    """Where the leader adds the partition, a transaction's sequence begins with 0."""
    topic = make_topic("overtaken")
    code = sent(begun, topic, PRODUCE_2, base_sequence=5)
    assert code is E.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert settled(lambda: begun.send(topic, 0, b"first", version=PRODUCE_2)) is E.NONE
    assert settled(lambda: begun.end(is_commit=True, version=END_2)) is E.NONE


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@pytest.mark.parametrize("name", INTERNAL[:1])
def test_brokers_own_topics_are_not_written(begun: RawProducer, version: int, name: str) -> None:
    plain = {"transactional": False, "transactional_id": None, **NO_PRODUCER}
    assert sent(begun, name, version, **plain) is E.INVALID_TOPIC_EXCEPTION


def test_a_control_batch_of_nobody(begun: RawProducer, topic: str) -> None:
    options = {"transactional": False, "transactional_id": None, "control": True, **NO_PRODUCER}
    assert sent(begun, topic, 9, **options) is E.INVALID_RECORD


# -- WriteTxnMarkers, which only brokers and administrators should send


@pytest.mark.parametrize("transaction_version", [0, 2])
def test_markers_of_producers_that_nobody_knows(
    raw: Raw, topic: str, transaction_version: int
) -> None:
    code = raw.mark(topic, 0, 987_654_323, 3, version=2, transaction_version=transaction_version)
    assert code is E.NONE


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(("producer_id", "epoch"), [(-1, 0), (987_654_322, -1)])
def test_markers_of_impossible_producers(
    raw: Raw, topic: str, version: int, producer_id: int, epoch: int
) -> None:
    code = raw.mark(topic, 0, producer_id, epoch, version=version)
    # Kafka says that it does not know why.
    assert code in (E.INVALID_RECORD, E.UNKNOWN_SERVER_ERROR)


def test_a_marker_of_an_older_epoch_ends_nothing(
    bootstrap_servers: str, added: RawProducer, make_topic: TopicMaker
) -> None:
    topic = make_topic("marked", partitions=1)
    assert settled(lambda: added_code(added, topic)) is E.NONE
    assert settled(lambda: added.send(topic, 0, b"held")) is E.NONE
    code = added.raw.mark(
        topic, 0, added.producer_id, added.epoch, version=2, transaction_version=2
    )
    assert code is E.INVALID_PRODUCER_EPOCH
    assert read_all(bootstrap_servers, topic) == {0: []}
    assert settled(lambda: added.end(is_commit=True)) is E.NONE
    eventually(lambda: read_all(bootstrap_servers, topic) == {0: [b"held"]}, "the commit")


def test_a_stranger_s_abort_is_an_abort(
    bootstrap_servers: str, added: RawProducer, make_topic: TopicMaker
) -> None:
    """What an administrator does to a transaction that hangs; the next one is not harmed."""
    topic = make_topic("marked", partitions=1)
    assert settled(lambda: added_code(added, topic)) is E.NONE
    assert settled(lambda: added.send(topic, 0, b"aborted")) is E.NONE
    assert added.raw.mark(topic, 0, added.producer_id, added.epoch) is E.NONE
    assert settled(lambda: added.end(is_commit=False)) is E.NONE
    assert settled(lambda: added_code(added, topic)) is E.NONE
    assert settled(lambda: added.send(topic, 0, b"next")) is E.NONE
    assert settled(lambda: added.end(is_commit=True)) is E.NONE
    eventually(lambda: read_all(bootstrap_servers, topic) == {0: [b"next"]}, "the commit")


def test_a_coordinator_of_the_future_is_none(
    bootstrap_servers: str, added: RawProducer, make_topic: TopicMaker
) -> None:
    """Apache Kafka takes its marker, and after it no other one: see `KAFKAESQUE_TEST_BOOTSTRAP`."""
    topic = make_topic("future", partitions=1)
    assert settled(lambda: added_code(added, topic)) is E.NONE
    assert settled(lambda: added.send(topic, 0, b"right")) is E.NONE
    present = (added.producer_id, added.epoch)
    code = added.raw.mark(topic, 0, *present, coordinator_epoch=INT32_MAX)
    if code is E.NONE:
        pytest.skip("the coordinator is shut out")
    assert code is E.INVALID_REQUEST
    assert settled(lambda: added.end(is_commit=True)) is E.NONE
    eventually(lambda: read_all(bootstrap_servers, topic) == {0: [b"right"]}, "the commit")
