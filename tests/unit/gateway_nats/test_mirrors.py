"""Mirrors of streams and of topics, and streams with sources, at simulated brokers."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kafkaesque.broker.requests.commands import EARLIEST, CreateTopic
from kafkaesque.gateway.nats.jetstream.copies import RUN_MAX
from kafkaesque.gateway.nats.jetstream.copying import Copying
from kafkaesque.gateway.nats.jetstream.sources import SubjectTransform
from kafkaesque.gateway.nats.jetstream.streams import Stream
from kafkaesque.gateway.nats.jetstream.times import rfc3339
from kafkaesque.model.batch_encoder import BatchOptions, encode_batch
from kafkaesque.model.ids import TopicPartition
from kafkaesque.model.records import Record
from tests.unit.gateway_nats.kit import PATIENCE_MS, Ground
from tests.unit.gateway_nats.test_jetstream import Api, new_consumer, new_stream

SECOND = 1_000_000_000


@pytest.fixture
def three() -> Ground:
    return Ground(seed=5, brokers=3)


def until(ground: Ground, condition: Callable[[], bool]) -> None:
    """Ask again and again, for a while."""
    for _ in range(200):
        if condition():
            return
        ground.wait(100)
    raise AssertionError("it has not come to that")


def make(api: Api, name: str, **config: Any) -> str:
    made = api.ask(f"STREAM.CREATE.{name}", name=name, **config)
    assert made.get("did_create") is True, made
    return name


def state_of(api: Api, stream: str) -> dict[str, Any]:
    found: dict[str, Any] = api.ask(f"STREAM.INFO.{stream}")["state"]
    return found


def await_messages(ground: Ground, api: Api, stream: str, count: int) -> None:
    until(ground, lambda: state_of(api, stream)["messages"] == count)


def got(api: Api, stream: str, sequence: int) -> tuple[str, bytes, str]:
    """Return a message's subject, payload, and headers."""
    answer = api.ask(f"STREAM.MSG.GET.{stream}", seq=sequence)
    assert "message" in answer, answer
    found = answer["message"]
    headers = base64.b64decode(found.get("hdrs", "")).decode()
    return found["subject"], base64.b64decode(found["data"]), headers


def test_a_mirror_has_what_its_origin_has_under_the_same_sequences(three: Ground) -> None:
    api = Api(three)
    origin = new_stream(api)
    for number in range(5):
        api.publish(f"{origin}.{number % 2}", b"%d" % number, f"n: {number}")
    api.ask(f"STREAM.MSG.DELETE.{origin}", seq=3)
    mirror = make(api, f"{origin}-M", mirror={"name": origin})
    await_messages(three, api, mirror, 4)
    other = Api(three, 2)
    other.publish(f"{origin}.late", b"late")
    await_messages(three, other, mirror, 5)
    # The deletion takes a sequence at the origin.
    for sequence in (1, 2, 4, 5, 7):
        assert got(other, mirror, sequence) == got(other, origin, sequence)
    assert other.ask(f"STREAM.MSG.GET.{mirror}", seq=3)["error"]["err_code"] == 10037
    info = other.ask(f"STREAM.INFO.{mirror}")
    assert "subjects" not in info["config"]
    assert (info["mirror"]["name"], info["mirror"]["lag"]) == (origin, 0)
    # What goes from the origin later stays here.
    assert other.ask(f"STREAM.PURGE.{origin}")["purged"] == 5
    three.wait(2_000)
    assert state_of(other, mirror)["messages"] == 5


def test_a_mirror_begins_where_it_is_asked_to_and_takes_what_is_wanted(three: Ground) -> None:
    api = Api(three)
    origin = new_stream(api)
    for number in range(10):
        api.publish(f"{origin}.{'ab'[number % 2]}", b"%d" % number)
    later = rfc3339(three.env.clock.wall_ms() + 1_000)
    three.wait(2_000)
    for number in range(10, 14):
        api.publish(f"{origin}.{'ab'[number % 2]}", b"%d" % number)
    from_7 = make(api, f"{origin}-7", mirror={"name": origin, "opt_start_seq": 7})
    only_b = make(api, f"{origin}-B", mirror={"name": origin, "filter_subject": f"{origin}.b"})
    of_now = make(api, f"{origin}-N", mirror={"name": origin, "opt_start_time": later})
    for mirror, first, last, count in ((from_7, 7, 14, 8), (only_b, 2, 14, 7), (of_now, 11, 14, 4)):
        await_messages(three, api, mirror, count)
        state = state_of(api, mirror)
        assert (state["first_seq"], state["last_seq"]) == (first, last)
        assert got(api, mirror, 14) == (f"{origin}.b", b"13", "")
    # A consumer of a mirror is one as any other.
    consumer = new_consumer(api, only_b, filter_subject=f"{origin}.b")
    api.pull(only_b, consumer, batch=1, expires=5 * SECOND)
    assert api.client.message()[4] == b"1"


def test_a_wide_gap_before_the_first_message_is_filled(three: Ground) -> None:
    api = Api(three)
    origin = new_stream(api)
    start = 2 * RUN_MAX + 10
    mirror = make(api, f"{origin}-M", mirror={"name": origin, "opt_start_seq": start})
    doors = three.cluster.brokers["b1"].doors
    key, now_ms = f"{origin}.a".encode(), three.env.clock.wall_ms()
    records = [Record(at, now_ms, key, b"%d" % at, ()) for at in range(start + 5)]
    produce(three, TopicPartition(origin, 0), records)
    await_messages(three, api, mirror, 6)
    state = state_of(api, mirror)
    assert (state["first_seq"], state["last_seq"]) == (start, start + 5)
    assert got(api, mirror, start)[1] == b"%d" % (start - 1)
    assert doors.cluster.state.topics[mirror].configs["max.message.bytes"] == str(16 << 20)


def produce(ground: Ground, where: TopicPartition, records: list[Record], **options: Any) -> None:
    """Append as a client of Kafka does."""
    outcomes: list[object] = []
    ground.cluster.brokers["b1"].doors.publishing.publish(
        where,
        bytes(encode_batch(records, BatchOptions(**options))),
        acks=-1,
        timeout_ms=30_000,
        on_done=outcomes.append,
        is_wanted=lambda: True,
    )
    ground.loop.run_until(lambda: bool(outcomes), PATIENCE_MS)


def create_topic(ground: Ground, name: str, partitions: int) -> None:
    brokers, done = ground.cluster.brokers.values(), list[object]()
    doors = ground.cluster.brokers["b1"].doors
    command = CreateTopic(name=name, partition_count=partitions, replication_factor=3)
    doors.cluster.submit(command, 10_000, done.append)
    ground.loop.run_until(
        lambda: all(name in each.doors.cluster.state.topics for each in brokers), PATIENCE_MS
    )


def test_topics_that_nobody_calls_streams_are_mirrored_and_gathered(three: Ground) -> None:
    api = Api(three)
    create_topic(three, "plain.topic", 2)
    create_topic(three, "single", 1)
    headers, now_ms = (("room", b"kitchen"),), three.env.clock.wall_ms()
    for partition in (0, 1):
        record = Record(0, now_ms, b"orders.%d" % partition, b"%d" % partition, headers)
        produce(three, TopicPartition("plain.topic", partition), [record])
    produce(three, TopicPartition("single", 0), [Record(0, now_ms, None, b"no key", headers)])
    mirror = make(api, "SINGLE", mirror={"name": "single"})
    await_messages(three, api, mirror, 1)
    subject, payload, said = got(api, mirror, 1)
    assert (subject, payload) == ("single", b"no key")
    assert "room: kitchen" in said
    both = make(api, "BOTH", sources=[{"name": "plain.topic"}, {"name": "single"}])
    await_messages(three, api, both, 3)
    found = {got(api, both, sequence)[:2] for sequence in (1, 2, 3)}
    assert found == {("orders.0", b"0"), ("orders.1", b"1"), ("single", b"no key")}
    info = api.ask(f"STREAM.INFO.{both}")
    assert [(each["name"], each["lag"]) for each in info["sources"]] == [
        ("plain.topic", 0),
        ("single", 0),
    ]


def test_a_stream_gathers_from_others_under_subjects_of_its_own(three: Ground) -> None:
    api = Api(three)
    first, second = new_stream(api), new_stream(api)
    api.publish(f"{first}.x.1", b"1", "n: 1")
    api.publish(f"{first}.y.1", b"2")
    api.publish(f"{second}.z", b"3")
    transforms = [{"src": f"{first}.x.*", "dest": "all.{{wildcard(1)}}.x"}]
    sources = [
        {"name": first, "subject_transforms": transforms},
        {"name": second, "opt_start_seq": 2, "filter_subject": f"{second}.>"},
    ]
    gathered = make(api, f"{first}-G", subjects=[f"{first}-own"], sources=sources)
    await_messages(three, api, gathered, 1)
    api.publish(f"{second}.z", b"4")
    api.publish(f"{first}-own", b"own")
    await_messages(three, api, gathered, 3)
    found = sorted(got(api, gathered, sequence) for sequence in (1, 2, 3))
    assert [each[:2] for each in found] == [
        (f"{first}-own", b"own"),
        (f"{second}.z", b"4"),
        ("all.1.x", b"1"),
    ]
    said = f"Nats-Stream-Source: {first} 1 {first}.x.* all.{{{{wildcard(1)}}}}.x {first}.x.1"
    assert said in found[2][2]
    assert "n: 1" in found[2][2]
    assert "Nats-Stream-Source" not in found[0][2]


def test_a_mirror_of_a_mirror(three: Ground) -> None:
    api = Api(three)
    origin = new_stream(api)
    first = make(api, f"{origin}-1", mirror={"name": origin})
    second = make(api, f"{origin}-2", mirror={"name": first})
    api.publish(f"{origin}.a", b"x")
    await_messages(three, api, second, 1)
    assert got(api, second, 1) == (f"{origin}.a", b"x", "")


def leader_of(ground: Ground, stream: str) -> int:
    doors = ground.cluster.brokers["b1"].doors
    group = doors.cluster.state.topics[stream].partitions[0].group
    leader = doors.cluster.leaders.leader(group)
    assert leader is not None
    return leader


def restart(ground: Ground, leader: int) -> None:
    """Kill a broker, and start it again."""
    cluster = ground.cluster
    ground.kill(leader)
    ground.wait(1_000)
    cluster.boot(cluster._machines[cluster.names[leader - 1]])
    ground.loop.run_until(ground._are_ready, PATIENCE_MS)


def test_where_brokers_die_everything_is_copied_once(three: Ground) -> None:
    api = Api(three)
    origin = new_stream(api)
    mirror = make(api, f"{origin}-M", mirror={"name": origin})
    gathered = make(api, f"{origin}-G", sources=[{"name": origin}])
    sent = 0
    for round_ in range(4):
        for _ in range(5):
            assert "seq" in api.publish(f"{origin}.a", b"%d" % sent)
            sent += 1
        stream = (mirror, gathered)[round_ % 2]
        leader = leader_of(three, stream)
        restart(three, leader)
        if leader == 1:
            api = Api(three)
    for stream in (mirror, gathered):
        until(three, lambda: state_of(api, stream)["messages"] >= sent)  # noqa: B023
        three.wait(3_000)
        state = state_of(api, stream)
        assert (state["messages"], state["last_seq"]) == (sent, sent)
        payloads = [got(api, stream, sequence)[1] for sequence in range(1, sent + 1)]
        assert payloads == [b"%d" % number for number in range(sent)]


def test_brokers_that_all_believe_to_lead_copy_everything_once(
    three: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    def led(copying: Copying) -> Iterator[Stream]:
        yield from copying._office.streams.with_origins()

    monkeypatch.setattr(Copying, "_led", led)
    api = Api(three)
    origin = new_stream(api)
    mirror = make(api, f"{origin}-M", mirror={"name": origin})
    gathered = make(api, f"{origin}-G", sources=[{"name": origin}])
    for number in range(20):
        api.publish(f"{origin}.a", b"%d" % number)
    for stream in (mirror, gathered):
        await_messages(three, api, stream, 20)
        three.wait(2_000)
        assert state_of(api, stream)["last_seq"] == 20
        payloads = [got(api, stream, sequence)[1] for sequence in range(1, 21)]
        assert payloads == [b"%d" % number for number in range(20)]


def test_what_is_gone_by_age_is_not_copied_again(three: Ground) -> None:
    api = Api(three)
    origin = new_stream(api)
    for number in range(3):
        api.publish(f"{origin}.a", b"%d" % number)
    stream = make(api, f"{origin}-G", sources=[{"name": origin}], max_age=4 * SECOND)
    await_messages(three, api, stream, 3)
    await_messages(three, api, stream, 0)
    # By then the log has lost all copies, and every broker that says how far it is.
    three.wait(30_000)
    state = state_of(api, stream)
    assert (state["messages"], state["first_seq"] > 3) == (0, True)
    doors = three.cluster.brokers["b1"].doors
    place, starts = TopicPartition(stream, 0), list[Any]()
    doors.reading.fetch(place, EARLIEST, 1, 5_000, starts.append)
    three.loop.run_until(lambda: bool(starts), PATIENCE_MS)
    assert starts[0].log_start_offset > 3
    leader = leader_of(three, stream)
    restart(three, leader)
    api = Api(three, 1 + leader % 3)
    api.publish(f"{origin}.a", b"3")
    await_messages(three, api, stream, 1)
    assert got(api, stream, state_of(api, stream)["last_seq"])[1] == b"3"


def test_a_full_stream_takes_no_copies_until_there_is_room(three: Ground) -> None:
    api = Api(three)
    origin = new_stream(api)
    full = make(api, f"{origin}-F", sources=[{"name": origin}], max_msgs=2, discard="new")
    for number in range(2):
        api.publish(f"{origin}.a", b"%d" % number)
    await_messages(three, api, full, 2)
    api.publish(f"{origin}.a", b"2")
    three.wait(1_000)
    leaders = [Api(three, number).ask(f"STREAM.INFO.{full}")["sources"][0] for number in (1, 2, 3)]
    assert [each["lag"] for each in leaders] == [1, 1, 1]
    # The broker that copies knows why it does not.
    assert [each["error"]["err_code"] for each in leaders if "error" in each] == [10077]
    api.ask(f"STREAM.PURGE.{full}")
    await_messages(three, api, full, 1)


def test_origins_that_make_no_sense(three: Ground) -> None:
    api = Api(three)
    origin = new_stream(api)
    mirror = make(api, f"{origin}-M", mirror={"name": origin})
    start = {"opt_start_seq": 3, "opt_start_time": "2026-01-01T00:00:00Z"}
    one = {"name": origin}
    for config, number in (
        ({"mirror": one, "subjects": ["x"]}, 10034),
        ({"mirror": one, "sources": [one]}, 10031),
        ({"mirror": {**one, **start}}, 10032),
        ({"mirror": {"name": "a b"}}, 10142),
        ({"mirror": {**one, "filter_subject": "a..b"}}, 10049),
        ({"mirror": {**one, "external": {"api": "$JS.other.API"}}}, 10052),
        ({"mirror": {"name": "X"}}, 10052),
        ({"mirror": {"name": 7}}, 10025),
        ({"mirror": {**one, "opt_start_time": "yesterday"}}, 10025),
        ({"sources": [one, one]}, 10140),
        ({"sources": [{"name": ""}]}, 10141),
        ({"sources": [{**one, "filter_subject": ">.a"}]}, 10049),
        ({"sources": [{**one, "subject_transforms": [{"src": "a.*", "dest": "$2"}]}]}, 10146),
        (
            {"sources": [{**one, "filter_subject": "a", "subject_transforms": [{"src": "a"}]}]},
            10144,
        ),
    ):
        answer = api.ask("STREAM.CREATE.X", **config)
        assert answer.get("error", {}).get("err_code") == number, (config, answer)
    changed = api.ask(f"STREAM.UPDATE.{mirror}", name=mirror, mirror={"name": "other"})
    assert changed["error"]["err_code"] == 10055
    round_ = api.ask(f"STREAM.UPDATE.{origin}", name=origin, sources=[{"name": mirror}])
    assert round_["error"]["err_code"] == 10052


@pytest.mark.parametrize(
    ("subject", "src", "dest", "result"),
    [
        ("a.b", "", "", "a.b"),
        ("a.b", "a.*", "", "a.b"),
        ("a.b", "b.*", "", None),
        ("a.b.c", "a.*", "", None),
        ("a", "a.>", "", None),
        ("a.b.c", "a.>", "x.>", "x.b.c"),
        ("a.b.c", "a.*.*", "$2.x.{{wildcard(1)}}", "c.x.b"),
        ("$KV.one.k", "$KV.one.>", "$KV.two.>", "$KV.two.k"),
    ],
)
def test_subjects_are_transformed(subject: str, src: str, dest: str, result: str | None) -> None:
    transform = SubjectTransform(src, dest)
    assert transform.is_good
    assert transform.apply(subject) == result


@pytest.mark.parametrize(
    ("src", "dest"),
    [("a..b", ""), ("a", "b.>"), ("a.*", "$2"), ("a.*", "b.*"), ("a", "{{partition(3,1)}}")],
)
def test_transforms_that_make_no_sense(src: str, dest: str) -> None:
    assert not SubjectTransform(src, dest).is_good
