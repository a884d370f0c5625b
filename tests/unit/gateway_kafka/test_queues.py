"""The APIs of queues at the wire, with real brokers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from kafkaesque.broker.queues.whole_numbers import part_of
from kafkaesque.gateway.kafka.queue_admin import Maintenance
from kafkaesque.gateway.kafka.queues import Action
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.message_headers import (
    DEATH,
    GROUP,
    IDENTITY,
    LOG_REFERENCE,
    ORIGIN,
    PRIORITY,
)
from kafkaesque.model.records import Record, decode_batch
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages import (
    attach_consumer_request,
    peek_messages_request,
    put_messages_request,
    settle_messages_request,
    take_messages_request,
)
from kafkaesque.protocols.kafka.messages import run_transaction_request as run
from kafkaesque.protocols.kafka.messages.alter_queue_request import AlterQueueRequest
from kafkaesque.protocols.kafka.messages.alter_queue_request import SetOption as Change
from kafkaesque.protocols.kafka.messages.create_queue_request import CreateQueueRequest, SetOption
from kafkaesque.protocols.kafka.messages.delete_queue_request import DeleteQueueRequest
from kafkaesque.protocols.kafka.messages.describe_logs_request import DescribeLogsRequest
from kafkaesque.protocols.kafka.messages.describe_logs_response import DescribedLog
from kafkaesque.protocols.kafka.messages.describe_queues_request import (
    DescribeQueuesRequest,
    QueueName,
)
from kafkaesque.protocols.kafka.messages.maintain_queue_request import MaintainQueueRequest
from kafkaesque.protocols.kafka.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.unit.gateway_kafka.live import LiveCluster
from tests.waiting import eventually

TIMEOUT_MS = 10_000
VHOST = "/"
BYTES = 1_000_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    found = LiveCluster(tmp_path_factory.mktemp("queues"), count=3)
    yield found
    found.close()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return str(request.node.name)


def create(cluster: LiveCluster, name: str, **options: str) -> int:
    request = CreateQueueRequest(
        VHOST,
        name,
        options=[SetOption(key.replace("_", "."), value) for key, value in options.items()],
        timeout_ms=TIMEOUT_MS,
    )
    code: int = cluster.ask(request).error_code
    cluster.wait(lambda: all(_knows(each, name) for each in cluster.nodes.values()), "all know")
    return code


def _knows(live: Any, name: str) -> bool:
    return any(each.name == name for each in live.broker.state.queues)


def wait_for_leaders(cluster: LiveCluster, name: str) -> None:
    """Wait until every broker knows who leads each partition: others are asked last."""

    def all_are_known() -> bool:
        return all(
            live.broker.leaders.leader(partition.group) is not None
            for live in cluster.nodes.values()
            for key, queue in live.broker.state.queues.items()
            if key.name == name
            for partition in queue.partitions
        )

    cluster.wait(all_are_known, "all know the leaders")


def put(cluster: LiveCluster, name: str, *values: bytes, node: int = 1) -> list[int]:
    records = [Record(at, 0, None, value, ()) for at, value in enumerate(values)]
    request = put_messages_request.PutMessagesRequest(
        VHOST, name, TIMEOUT_MS, encode_batch(records)
    )
    answer = cluster.ask(request, node=node)
    assert answer.error_code == 0, answer
    offsets: list[int] = answer.offsets
    return offsets


def take(cluster: LiveCluster, name: str, count: int = 10, **more: Any) -> Any:
    node = more.pop("node", 1)
    consumer = more.pop("consumer", 0)
    request = take_messages_request.TakeMessagesRequest(VHOST, name, consumer, count, BYTES, **more)
    return cluster.ask(request, node=node)


def values_of(answer: Any) -> list[bytes | None]:
    assert answer.error_code == 0, answer
    if answer.records is None:
        return []
    return [record.value for record in decode_batch(answer.records, BYTES)]


def settle(
    cluster: LiveCluster,
    name: str,
    taken: Any,
    action: Action = Action.ACCEPT,
    **more: Any,
) -> Sequence[Any]:
    records = decode_batch(taken.records, BYTES)
    claims = [
        settle_messages_request.Claim(record.offset, record.offset + 1, attempt)
        for record, attempt in zip(records, taken.attempts, strict=True)
    ]
    request = settle_messages_request.SettleMessagesRequest(
        VHOST,
        name,
        action,
        claims,
        timeout_ms=TIMEOUT_MS,
        partition=taken.partition,
        **more,
    )
    answer = cluster.ask(request)
    assert answer.error_code == 0, answer
    stale: Sequence[Any] = answer.stale
    return stale


def counts(cluster: LiveCluster, name: str) -> dict[str, int]:
    request = DescribeQueuesRequest([QueueName(VHOST, name)], True, TIMEOUT_MS)
    (shown,) = cluster.ask(request).queues
    assert shown.error_code == 0, shown
    return {each.name: each.count for each in shown.counts}


def test_what_is_put_at_one_broker_is_taken_at_another(cluster: LiveCluster, name: str) -> None:
    assert create(cluster, name) == 0
    put(cluster, name, b"a", b"b", node=1)
    taken = take(cluster, name, node=2)
    assert values_of(taken) == [b"a", b"b"]
    assert taken.attempts == [1, 1]
    assert values_of(take(cluster, name, node=3)) == []
    assert settle(cluster, name, taken) == []
    assert len(settle(cluster, name, taken)) == 2
    assert counts(cluster, name)["removed_settled"] == 2


def test_any_broker_knows_a_queue_as_soon_as_it_is_made(cluster: LiveCluster, name: str) -> None:
    for number in range(30):
        made = f"{name}-{number}"
        request = CreateQueueRequest(VHOST, made, options=[], timeout_ms=TIMEOUT_MS)
        maker, other = 1 + number % 3, 1 + (number + 1) % 3
        assert cluster.ask(request, node=maker).error_code == 0
        assert len(put(cluster, made, b"one", node=other)) == 1


def test_any_broker_shows_a_queue_as_soon_as_it_is_made(cluster: LiveCluster, name: str) -> None:
    for number in range(20):
        made = f"{name}-{number}"
        request = CreateQueueRequest(VHOST, made, options=[], timeout_ms=TIMEOUT_MS)
        maker, other = 1 + number % 3, 1 + (number + 1) % 3
        assert cluster.ask(request, node=maker).error_code == 0
        if number % 2:
            everything = DescribeQueuesRequest(None, False, TIMEOUT_MS)
            listed = cluster.ask(everything, node=other).queues
            assert made in [each.queue for each in listed]
        else:
            named = DescribeQueuesRequest([QueueName(VHOST, made)], False, TIMEOUT_MS)
            assert [each.error_code for each in cluster.ask(named, node=other).queues] == [0]


def test_messages_are_released_rejected_and_kept_for_longer(
    cluster: LiveCluster, name: str
) -> None:
    create(cluster, name, visibility_timeout_ms="300")
    put(cluster, name, b"a")
    taken = take(cluster, name)
    assert settle(cluster, name, taken, Action.EXTEND, lock_ms=60_000) == []
    cluster.run_for(0.6)
    assert values_of(take(cluster, name)) == []
    assert settle(cluster, name, taken, Action.RELEASE, is_failed=True) == []
    again = take(cluster, name)
    assert (again.attempts, again.failures) == ([2], [1])
    assert settle(cluster, name, again, Action.REJECT) == []
    assert counts(cluster, name)["parked"] == 1
    peeked = cluster.ask(
        peek_messages_request.PeekMessagesRequest(VHOST, name, 0, 10, BYTES, TIMEOUT_MS)
    )
    assert [each.place for each in peeked.states] == ["parked"]
    assert values_of(peeked) == [b"a"]
    maintain = MaintainQueueRequest(VHOST, name, Maintenance.UNPARK, "", TIMEOUT_MS)
    assert cluster.ask(maintain).error_code == 0
    assert values_of(take(cluster, name)) == [b"a"]


def test_who_waits_is_answered_when_a_message_comes(cluster: LiveCluster, name: str) -> None:
    create(cluster, name)
    cluster.loop.call_later(0.3, lambda: _put_soon(cluster, name))
    begun = time.monotonic()
    assert values_of(take(cluster, name, wait_ms=10_000)) == [b"soon"]
    assert 0.2 < time.monotonic() - begun < 5


def _put_soon(cluster: LiveCluster, name: str) -> None:
    from kafkaesque.broker.doors.queues import NewMessage
    from kafkaesque.broker.metadata.queue_names import QueueName as Name

    door = cluster.nodes[2].broker.doors.queues
    log_id = door.find(Name(VHOST, name)).topic_id
    door.put(log_id, [NewMessage(b"soon")], TIMEOUT_MS, lambda _: None)


def test_a_consumer_that_hangs_up_gives_back_what_it_has(cluster: LiveCluster, name: str) -> None:
    create(cluster, name)
    put(cluster, name, b"a")
    attach = attach_consumer_request.AttachConsumerRequest(VHOST, name, 7, False, TIMEOUT_MS)
    assert take(cluster, name, consumer=7, node=3).error_code == ErrorCode.INVALID_REQUEST
    assert cluster.ask(attach, node=3).error_code == 0
    assert values_of(take(cluster, name, consumer=7, lock_ms=0, node=3)) == [b"a"]
    link = cluster.nodes[3]._link
    assert link is not None
    link[1].close()
    cluster.nodes[3]._link = None
    again = take(cluster, name, wait_ms=5_000)
    assert (values_of(again), again.failures) == ([b"a"], [1])


def test_the_secret_of_a_session_is_not_shown(cluster: LiveCluster, name: str) -> None:
    said = '{"client_id":"c","expiry_s":60,"secret":"s3cret"}'
    assert create(cluster, name, mqtt_session=said) == 0
    (shown,) = cluster.ask(DescribeQueuesRequest([QueueName(VHOST, name)], False, 0)).queues
    options = {each.name: each.value for each in shown.options if each.is_set}
    assert options == {"mqtt.session": '{"client_id":"c","expiry_s":60}'}


def test_queues_are_created_altered_described_and_deleted(cluster: LiveCluster, name: str) -> None:
    assert create(cluster, name, max_length="5") == 0
    assert create(cluster, name, max_length="5") == 0
    assert create(cluster, name, max_length="6") == ErrorCode.QUEUE_ALREADY_EXISTS
    alter = AlterQueueRequest(
        VHOST, name, [Change("max.length", None), Change("delay.ms", "5")], TIMEOUT_MS
    )
    assert cluster.ask(alter).error_code == 0
    (shown,) = cluster.ask(DescribeQueuesRequest([QueueName(VHOST, name)], False, 0)).queues
    assert {each.name: each.value for each in shown.options if each.is_set} == {"delay.ms": "5"}
    assert len(shown.replicas) == 3
    every = cluster.ask(DescribeQueuesRequest(None, True, TIMEOUT_MS)).queues
    assert name in {each.queue for each in every}
    delete = DeleteQueueRequest(VHOST, name, TIMEOUT_MS)
    assert cluster.ask(delete).error_code == 0
    assert cluster.ask(delete).error_code == ErrorCode.UNKNOWN_QUEUE


@pytest.mark.parametrize(
    ("request_made", "code"),
    [
        (take_messages_request.TakeMessagesRequest(VHOST, "none", 0, 1, 1), "UNKNOWN_QUEUE"),
        (put_messages_request.PutMessagesRequest(VHOST, "none", 1, None), "INVALID_REQUEST"),
        (CreateQueueRequest(VHOST, "", timeout_ms=5_000), "INVALID_REQUEST"),
        (CreateQueueRequest(VHOST, "vhost:a/b", timeout_ms=5_000), "INVALID_REQUEST"),
        (
            CreateQueueRequest(VHOST, "x", options=[SetOption("no.such", "1")], timeout_ms=5_000),
            "INVALID_CONFIG",
        ),
        (MaintainQueueRequest(VHOST, "none", 0, "", 5_000), "UNKNOWN_QUEUE"),
    ],
)
def test_what_cannot_be_is_refused(cluster: LiveCluster, request_made: Any, code: str) -> None:
    answer = cluster.ask(request_made)
    assert ErrorCode(answer.error_code).name == code, answer
    assert answer.error_message


def test_a_batch_that_is_none_is_refused(cluster: LiveCluster, name: str) -> None:
    create(cluster, name)
    request = put_messages_request.PutMessagesRequest(VHOST, name, TIMEOUT_MS, b"nonsense" * 20)
    answer = cluster.ask(request)
    assert answer.error_code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD), answer


def test_queues_over_a_topic_have_its_messages_each_for_itself(
    cluster: LiveCluster, name: str
) -> None:
    cluster.create_topic(name, 3)
    options = {"source_topic": name, "source_start": "earliest", "delivery_limit": "2"}
    assert create(cluster, f"{name}-1", **options) == 0
    assert create(cluster, f"{name}-2", **options) == 0
    sent = {b"%d" % number for number in range(30)}
    for number, value in enumerate(sorted(sent)):
        _produce(cluster, name, number % 3, value)
    for queue in (f"{name}-1", f"{name}-2"):
        found: list[bytes | None] = []
        partitions = set()
        while len(found) < 30:
            taken = take(cluster, queue, wait_ms=5_000)
            found += values_of(taken)
            partitions.add(taken.partition)
            assert settle(cluster, queue, taken) == []
        assert (set(found), len(found), partitions) == (sent, 30, {0, 1, 2})
        assert values_of(take(cluster, queue, wait_ms=200)) == []
        assert counts(cluster, queue)["removed_settled"] == 30
    put_there = put_messages_request.PutMessagesRequest(
        VHOST, f"{name}-1", 2_000, encode_batch([Record(0, 0, None, b"x", ())])
    )
    assert cluster.ask(put_there).error_code == ErrorCode.INVALID_REQUEST


def test_a_queue_over_a_topic_begins_before_anybody_asks_it(
    cluster: LiveCluster, name: str
) -> None:
    cluster.create_topic(name, 1)
    assert create(cluster, f"{name}-new", source_topic=name) == 0

    def has_come() -> bool:
        _produce(cluster, name, 0, b"new")
        return counts(cluster, f"{name}-new")["ready"] > 0

    # Its leader begins a moment after it was made.
    eventually(has_come, "the queue has what came after it was made", seconds=20)
    assert values_of(take(cluster, f"{name}-new", 1)) == [b"new"]


def _produce(cluster: LiveCluster, topic: str, index: int, value: bytes) -> None:
    data = PartitionProduceData(index, encode_batch([Record(0, 0, None, value, ())]))
    request = ProduceRequest(None, -1, 5_000, [TopicProduceData(name=topic, partition_data=[data])])
    leader = cluster.leader(topic, index)
    answer = cluster.ask(request, 9, node=leader)
    assert answer.responses[0].partition_responses[0].error_code == 0, answer


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"source_topic": "nowhere"}, "no topic"),
        ({"source_topic": "x", "max_length": "5"}, "max.length"),
        ({"source_topic": "__consumer_offsets"}, "no topic"),
    ],
)
def test_a_queue_over_a_topic_that_cannot_be(
    cluster: LiveCluster, options: dict[str, str], said: str
) -> None:
    request = CreateQueueRequest(
        VHOST,
        "cannot-be",
        options=[SetOption(key.replace("_", "."), value) for key, value in options.items()],
        timeout_ms=TIMEOUT_MS,
    )
    answer = cluster.ask(request)
    assert answer.error_code == ErrorCode.INVALID_CONFIG
    assert said in answer.error_message


def test_what_only_brokers_say_of_a_message_is_not_taken_from_publishers(
    cluster: LiveCluster, name: str
) -> None:
    create(cluster, name)
    reference = (LOG_REFERENCE, bytes(38))
    headers = (("own", b"kept"), (DEATH, b'{"queue": "elsewhere"}'), (ORIGIN, b"{}"), reference)
    # A value that has such a word in it is nobody's header.
    records = [Record(0, 0, b"k", DEATH.encode(), headers), Record(1, 0, None, b"plain", ())]
    request = put_messages_request.PutMessagesRequest(
        VHOST, name, TIMEOUT_MS, bytes(encode_batch(records))
    )
    assert cluster.ask(request).error_code == 0
    found = decode_batch(take(cluster, name).records, 1_000_000)
    assert [(each.key, each.value, each.headers) for each in found] == [
        (b"k", DEATH.encode(), (("own", b"kept"),)),
        (None, b"plain", ()),
    ]


def test_all_logs_that_are_no_topics_are_described_page_by_page(
    cluster: LiveCluster, name: str
) -> None:
    for number in range(3):
        create(cluster, f"{name}-{number}")
    found: list[DescribedLog] = []
    after, has_more = bytes(16), True
    while has_more:
        answer = cluster.ask(DescribeLogsRequest(after, 2))
        assert len(answer.logs) <= 2
        found += answer.logs
        after, has_more = answer.logs[-1].log_id, answer.has_more
    ours = {each.queue: each for each in found if each.queue.startswith(name)}
    assert sorted(ours) == [f"{name}-{number}" for number in range(3)]
    (part,) = ours[f"{name}-0"].partitions
    assert len(part.replicas) == 3
    request = DescribeQueuesRequest([QueueName(VHOST, f"{name}-0")], False, TIMEOUT_MS)
    (queue,) = cluster.ask(request).queues
    (same,) = queue.partitions
    assert (same.leader_id, list(same.replicas)) == (part.leader_id, list(part.replicas))


@pytest.mark.parametrize(
    ("header", "value", "option", "setting"),
    [
        (PRIORITY, b"3", "max.priority", {"max_priority": "5"}),
        (GROUP, b"g", "ordered.groups", {"ordered_groups": "true"}),
        (IDENTITY, b"i" * 16, "deduplication.ms", {"deduplication_ms": "60000"}),
    ],
)
def test_what_a_queue_has_no_option_for_is_refused(
    cluster: LiveCluster,
    name: str,
    header: str,
    value: bytes,
    option: str,
    setting: dict[str, str],
) -> None:
    create(cluster, name)
    records = bytes(encode_batch([Record(0, 0, None, b"a", ((header, value),))]))
    request = put_messages_request.PutMessagesRequest(VHOST, name, TIMEOUT_MS, records)
    refused = cluster.ask(request)
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert option in refused.error_message
    assert counts(cluster, name)["ready"] == 0
    changes = [Change(key.replace("_", "."), each) for key, each in setting.items()]
    assert cluster.ask(AlterQueueRequest(VHOST, name, changes, TIMEOUT_MS)).error_code == 0
    # At once, and wherever the queue is led: that broker may not have heard of the option yet.
    for node in cluster.nodes:
        answer = cluster.ask(request, node=node)
        assert answer.error_code == 0, answer.error_message


def test_a_queue_is_not_redriven_into_itself(cluster: LiveCluster, name: str) -> None:
    create(cluster, name)
    put(cluster, name, b"a")
    answer = cluster.ask(MaintainQueueRequest(VHOST, name, 1, name, TIMEOUT_MS))
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert "already" in answer.error_message
    assert counts(cluster, name)["ready"] == 1


def test_who_is_not_attached_is_told_so_where_consumers_do_not_share(
    cluster: LiveCluster, name: str
) -> None:
    create(cluster, name, sharing="single-active")
    put(cluster, name, b"a")
    answer = take(cluster, name)
    assert answer.error_code == ErrorCode.QUEUE_IN_USE
    assert "sharing" in answer.error_message


# -- several partitions


def put_in_groups(cluster: LiveCluster, name: str, count: int, node: int = 1) -> list[int]:
    """Put messages of five groups as one batch."""
    records = [
        Record(at, 0, None, b"%d" % at, ((GROUP, b"g%d" % (at % 5)),)) for at in range(count)
    ]
    batch = encode_batch(records)
    answer = cluster.ask(
        put_messages_request.PutMessagesRequest(VHOST, name, TIMEOUT_MS, batch), node=node
    )
    assert answer.error_code == 0, answer
    offsets: list[int] = answer.offsets
    return offsets


def test_plain_batches_go_to_one_partition_after_the_other(cluster: LiveCluster, name: str) -> None:
    assert create(cluster, name, partitions="3") == 0
    wait_for_leaders(cluster, name)
    numbers = [put(cluster, name, b"%d" % at, b"%d" % at) for at in range(3)]
    assert sorted(part_of(first)[0] for first, _ in numbers) == [0, 1, 2]
    assert [second - first for first, second in numbers] == [1, 1, 1]
    assert counts(cluster, name)["ready"] == 6
    seen: set[tuple[int, bytes | None]] = set()
    for _ in range(3):
        taken = take(cluster, name, node=2)
        (first, second) = values_of(taken)
        assert first == second
        seen.add((taken.partition, first))
        assert settle(cluster, name, taken) == []
    assert {partition for partition, _ in seen} == {0, 1, 2}
    assert counts(cluster, name)["removed_settled"] == 6


def test_a_batch_of_groups_is_spread_by_them(cluster: LiveCluster, name: str) -> None:
    assert create(cluster, name, partitions="3", ordered_groups="true") == 0
    numbers = put_in_groups(cluster, name, 20) + put_in_groups(cluster, name, 20, node=2)
    homes = [{part_of(each)[0] for each in numbers[group::5]} for group in range(5)]
    assert [len(each) for each in homes] == [1] * 5
    assert len(set[int]().union(*homes)) > 1
    assert len(set(numbers)) == 40


def test_a_message_that_asks_for_too_much_keeps_its_batch_out(
    cluster: LiveCluster, name: str
) -> None:
    assert create(cluster, name, partitions="3", ordered_groups="true") == 0
    records = [Record(at, 0, None, b"x", ((GROUP, b"g%d" % at),)) for at in range(9)]
    records[4] = records[4]._replace(headers=(*records[4].headers, (PRIORITY, b"3")))
    batch = encode_batch(records)
    answer = cluster.ask(put_messages_request.PutMessagesRequest(VHOST, name, TIMEOUT_MS, batch))
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert "priorities" in answer.error_message
    assert counts(cluster, name)["arrived"] == 0


def test_a_delayed_message_beside_empty_partitions_is_no_stuck_one(
    cluster: LiveCluster, name: str
) -> None:
    assert create(cluster, name, partitions="3", delay_ms="600000") == 0
    put(cluster, name, b"later")
    found = counts(cluster, name)
    assert (found["delayed"], found["head_delayed"]) == (1, 1)


def test_who_waits_gets_what_comes_to_any_partition(cluster: LiveCluster, name: str) -> None:
    assert create(cluster, name, partitions="3") == 0
    seen: set[int] = set()
    for _ in range(6):
        cluster.loop.call_later(0.05, lambda: _put_soon(cluster, name))
        taken = take(cluster, name, 1, wait_ms=20_000)
        assert values_of(taken) == [b"soon"]
        assert settle(cluster, name, taken) == []
        seen.add(taken.partition)
    assert len(seen) > 1


def test_a_transaction_settles_in_partitions_and_puts_into_them(
    cluster: LiveCluster, name: str
) -> None:
    assert create(cluster, name, partitions="3", ordered_groups="true") == 0
    put_in_groups(cluster, name, 20)
    entries: dict[int, tuple[Any, list[Any]]] = {}
    while values_of(taken := take(cluster, name, 20)):
        claims = [
            run.TransactionClaim(each.offset, each.offset + 1, attempt)
            for each, attempt in zip(
                decode_batch(taken.records, BYTES), taken.attempts, strict=True
            )
        ]
        entries.setdefault(taken.partition, (None, []))[1].extend(claims)
    assert len(entries) > 1
    held = sum(len(claims) for _, claims in entries.values())
    records = [Record(at, 0, None, b"new", ((GROUP, b"h%d" % at),)) for at in range(8)]
    queues = [
        run.TransactionQueue(name, partition, None, claims)
        for partition, (_, claims) in sorted(entries.items())
    ]
    first = queues[0]
    queues[0] = run.TransactionQueue(name, first.partition, encode_batch(records), first.claims)
    answer = cluster.ask(run.RunTransactionRequest(VHOST, queues, [], TIMEOUT_MS))
    assert (answer.error_code, answer.is_committed) == (0, True), answer
    numbers = answer.queues[0].offsets
    assert len(set(numbers)) == 8
    assert len({part_of(each)[0] for each in numbers}) > 1
    assert [each.offsets for each in answer.queues[1:]] == [[]] * (len(queues) - 1)
    after = counts(cluster, name)
    assert (after["removed_settled"], after["arrived"]) == (held, 28)
    # The same once more: what was settled is stale, and nothing is put.
    again = cluster.ask(run.RunTransactionRequest(VHOST, queues, [], TIMEOUT_MS))
    assert (again.error_code, again.is_committed) == (0, False), again
    assert counts(cluster, name)["arrived"] == 28
