"""What transformations make of messages as queues keep them, whoever has published them."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.broker.metadata import exchange_planner
from kafkaesque.broker.metadata.cluster_state import ClusterState
from kafkaesque.broker.metadata.features import LEVEL_WITH_EXCHANGES, METADATA
from kafkaesque.broker.queues.routed_records import routed_of
from kafkaesque.broker.queues.transforming import (
    FAILED_HEADER,
    HEADERS_BYTES_MAX,
    Content,
    places_of,
    transformed,
)
from kafkaesque.broker.requests.commands import CreateTopic
from kafkaesque.broker.requests.exchange_commands import (
    ExchangeCommand,
    PutTransformation,
    RemoveTransformation,
)
from kafkaesque.broker.requests.queue_commands import CreateQueue
from kafkaesque.gateway.nats.stored import raw_headers, record_headers
from kafkaesque.model.errors import FeatureUpdateFailed, InvalidRequest, OverBound
from kafkaesque.model.message_headers import STORED_AMQP
from kafkaesque.protocols.amqp.properties import (
    Properties,
    read_properties,
    write_properties,
)
from kafkaesque.protocols.amqp.stored_message import read_stored, write_stored
from kafkaesque.protocols.amqp.wire import Long, Timestamp, write_table
from kafkaesque.routing.exchanges import transformation_planner
from kafkaesque.routing.exchanges.errors import BadArgument, NoSuchQueue, NoSuchVhost
from kafkaesque.routing.exchanges.records import (
    Bound,
    Destination,
    QueueAdded,
    TransformationPut,
    VhostAdded,
)
from kafkaesque.routing.exchanges.route import Route
from kafkaesque.routing.exchanges.topology import Topology
from kafkaesque.routing.transformations.errors import TransformationFailed
from kafkaesque.routing.transformations.rules import Rule, read_rule
from kafkaesque.routing.transformations.transformation import Transformation, shown
from tests.unit.broker.test_planner import Cluster


class _Takers:
    """All places take everything, but those that are named."""

    def __init__(self, **bytes_max: int) -> None:
        self._bytes_max = bytes_max

    def may_stand_in(self, meant: Destination, failures: str) -> bool:
        return True

    def takes(self, place: Destination, size_bytes: int) -> bool:
        return size_bytes <= self._bytes_max.get(place.name, size_bytes)


ALL = _Takers()
SET = {"do": "set", "at": "headers.by", "value": "a"}


def rule(*steps: object, **more: object) -> Rule:
    said = {name: value for name, value in more.items() if value != ""}
    return read_rule(json.dumps({"steps": steps, **said}).encode())


def made_of(content: Content, *steps: object, **more: object) -> Content:
    return transformed(content, Transformation(rule(*steps, **more)))


# -- messages that no client of AMQP has published


def test_headers_that_no_step_concerns_stay_as_they_are() -> None:
    headers = (
        ("kafkaesque.priority", b"3"),
        ("twice", b"1"),
        ("raw", b"\xff\xfe"),
        ("twice", b"2"),
        ("nothing", None),
        ("mqtt.message", b"\x01\x02"),
    )
    content = Content(b"k", b"{}", headers)
    assert made_of(content, {"do": "drop", "at": "headers.missing"}) == content
    assert made_of(content, SET) == Content(b"k", b"{}", (*headers, ("by", b"a")))
    changed = made_of(content, {"do": "set", "at": "headers.twice", "value": 7})
    assert [each for each in changed.headers if each[0] == "twice"] == [("twice", b"7")]
    assert len(changed.headers) == len(headers) - 1
    dropped = made_of(content, {"do": "drop", "at": "headers.raw"}).headers
    assert dropped == tuple(each for each in headers if each[0] != "raw")


def test_values_of_json_become_headers() -> None:
    body = b'{"n": 1, "f": 2.5, "t": true, "z": null, "o": {"a": [1]}, "s": "\xc3\xa9"}'
    steps = [{"do": "rename", "at": f"$.{each}", "to": f"headers.{each}"} for each in "nftzos"]
    found = made_of(Content(None, body, ()), *steps)
    assert found.value == b"{}"
    assert dict(found.headers) == {
        "n": b"1",
        "f": b"2.5",
        "t": b"true",
        "z": None,
        "o": b'{"a":[1]}',
        "s": "é".encode(),
    }


def test_properties_are_the_headers_that_stand_for_them() -> None:
    content = Content(None, b"", (("type", b"order"), ("timestamp", b"5000"), ("reply-to", b"q")))
    found = made_of(
        content,
        {"do": "template", "at": "properties.content_type", "text": "app/{properties.type}"},
        {"do": "rename", "at": "properties.timestamp", "to": "headers.seconds"},
        {"do": "drop", "at": "properties.reply_to"},
        {"do": "set", "at": "properties.type", "value": "v2"},
    )
    assert dict(found.headers) == {
        "type": b"v2",
        "content-type": b"app/order",
        "seconds": b"5",
    }
    timed = made_of(content, {"do": "set", "at": "properties.timestamp", "value": 9})
    assert dict(timed.headers)["timestamp"] == b"9000"


def test_a_rule_that_is_for_others_changes_nothing() -> None:
    content = Content(b"k", None, (("a", b"1"),))
    assert made_of(content, SET, when="a = '2'") == content
    assert made_of(content, SET, when="a = '1'").headers == (("a", b"1"), ("by", b"a"))


def test_headers_are_bounded() -> None:
    body = json.dumps({"long": "x" * 60_000}).encode()
    steps = [
        {"do": "template", "at": f"headers.h{number}", "text": "{$.long}"} for number in range(2)
    ]
    assert len(made_of(Content(None, body, ()), steps[0]).headers) == 1
    with pytest.raises(TransformationFailed, match=f"more than {HEADERS_BYTES_MAX} bytes"):
        made_of(Content(None, body, ()), *steps)
    # One that was as large before is none of the rule's doing.
    large = Content(None, b"{}", (("large", b"x" * 2 * HEADERS_BYTES_MAX),))
    assert made_of(large, {"do": "set", "at": "$.a", "value": 1}).value == b'{"a":1}'
    assert made_of(large, {"do": "drop", "at": "headers.large"}).headers == ()


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "type", "kafkaesque.group", "x"]),
            st.none() | st.binary(max_size=4),
        ),
        max_size=6,
    )
)
def test_what_a_rule_does_not_write_is_the_same_bytes(headers: list[tuple[str, bytes]]) -> None:
    content = Content(b"k", b"\x00", tuple(headers))
    found = made_of(
        content,
        {"do": "set", "at": "headers.b", "value": "longer than drawn"},
        {"do": "drop", "at": "headers.x"},
    )
    others = [each for each in headers if each[0] not in ("b", "x")]
    assert [each for each in found.headers if each[0] != "b"] == others
    assert [each for each in found.headers if each[0] == "b"] == [("b", b"longer than drawn")]
    assert (found.key, found.value) == (b"k", b"\x00")


def test_clients_of_nats_are_shown_what_a_rule_has_left() -> None:
    # A name with other letters beside: NATS' bytes cannot be made of the record's headers again.
    raw = b"NATS/1.0\r\nsecret:x\r\nkept:  1\r\nContent-Type:a/b\r\nsecret: y\r\n\r\n"
    headers = record_headers(raw)
    assert raw_headers(headers) == raw
    content = Content(None, b"", headers)
    found = made_of(
        content,
        {"do": "drop", "at": "headers.secret"},
        {"do": "set", "at": "properties.content_type", "value": "c/d"},
        {"do": "set", "at": "headers.new", "value": 7},
        {"do": "set", "at": "headers.lines", "value": "a\nb"},
    )
    shown = b"NATS/1.0\r\nkept: 1\r\nContent-Type: c/d\r\nnew: 7\r\n\r\n"
    assert raw_headers(found.headers) == shown
    assert (dict(found.headers)["content-type"], dict(found.headers)["lines"]) == (b"c/d", b"a\nb")
    # What it shows nobody else, and what no step concerns, stays.
    assert made_of(content, {"do": "drop", "at": "headers.other"}) == content
    malformed = Content(None, b"", record_headers(b"NATS/1.0\r\nnone\r\n\r\n"))
    found = made_of(malformed, SET)
    assert raw_headers(found.headers) == b"NATS/1.0\r\nby: a\r\n\r\n"


@pytest.mark.parametrize(
    "raw",
    [
        b"NATS/1.0\r\nA: x\ny\r\n\r\n",
        b"NATS/1.0\r\nA: x\ry\r\nB\n: z\r\n\r\n",
        b"NATS/1.0 100 \xff\r\nA: \xff\r\n\r\n",
    ],
)
def test_what_nobody_else_could_write_as_headers_of_nats_stays(raw: bytes) -> None:
    found = made_of(Content(None, b"", record_headers(raw)), SET)
    assert raw_headers(found.headers) == raw.removesuffix(b"\r\n") + b"by: a\r\n\r\n"


# -- messages of AMQP

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=3)
    | st.binary(max_size=3)
    | st.just(Decimal("1.5"))
    | st.builds(Timestamp, st.integers(0, 2**64 - 1)),
    lambda each: (
        st.lists(each, max_size=2) | st.dictionaries(st.text(max_size=2), each, max_size=2)
    ),
    max_leaves=4,
)
PLACES = st.sampled_from(
    ["a", "headers.b", "$.a", "$.b.c", "$.a[0]", "properties.type", "properties.timestamp"]
)
STEPS = st.fixed_dictionaries({"do": st.just("rename"), "at": PLACES, "to": PLACES}) | (
    st.fixed_dictionaries(
        {
            "do": st.just("cast"),
            "at": PLACES,
            "to": st.sampled_from(["text", "whole number", "number", "truth"]),
        }
    )
)


def of_amqp(properties: Properties, body: bytes) -> Content:
    stored = write_stored("exchange", "key", write_properties(properties))
    return Content(None, body, ((STORED_AMQP, stored), ("kafkaesque.priority", b"1")))


def said_of(content: Content, exchange: str = "exchange", key: str = "key") -> Properties:
    stored = read_stored(dict(content.headers)[STORED_AMQP] or b"")
    assert stored is not None
    assert (stored.exchange, stored.routing_key) == (exchange, key)
    return read_properties(stored.properties)


def test_numbers_of_amqp_come_into_a_body() -> None:
    said = Properties(timestamp=Timestamp(5), headers={"long": Long(7)})
    found = made_of(
        of_amqp(said, b"{}"),
        {"do": "rename", "at": "properties.timestamp", "to": "$.at"},
        {"do": "rename", "at": "headers.long", "to": "$.long"},
    )
    assert json.loads(found.value or b"") == {"at": 5, "long": 7}
    assert said_of(found) == Properties()


def test_a_cast_is_seen_though_what_comes_out_is_equal() -> None:
    content = of_amqp(Properties(headers={"flag": 1, "number": 1.0}), b"")
    found = made_of(
        content,
        {"do": "cast", "at": "headers.flag", "to": "truth"},
        {"do": "cast", "at": "headers.number", "to": "whole number"},
    )
    headers = said_of(found).headers or {}
    assert headers["flag"] is True
    assert isinstance(headers["number"], int)
    # What comes back as it was is no change.
    again = made_of(
        content,
        {"do": "rename", "at": "headers.flag", "to": "headers.other"},
        {"do": "rename", "at": "headers.other", "to": "headers.flag"},
    )
    assert again == content


def test_a_property_that_no_step_concerns_is_not_looked_at() -> None:
    # A whole number of JSON has 63 bits, a time of AMQP 64.
    late = Properties(timestamp=Timestamp(2**63), headers={"a": 1})
    found = made_of(of_amqp(late, b""), {"do": "set", "at": "headers.a", "value": 2})
    assert said_of(found) == Properties(timestamp=Timestamp(2**63), headers={"a": 2})


#: Numbers that would be written in other widths, or as others.
WIDE = b"\x01ab\x05" + b"\x01bl" + bytes(8) + b"\x01cf" + bytes(4) + b"\x01bI" + bytes(4)


def in_table(fields: bytes) -> bytes:
    return len(fields).to_bytes(4, "big") + fields


def test_properties_that_no_step_concerns_keep_their_bytes() -> None:
    raw = b"\x20\x00" + in_table(WIDE)
    headers = ((STORED_AMQP, write_stored("", "k", raw)),)
    found = made_of(Content(None, b"{}", headers), {"do": "set", "at": "$.a", "value": 1})
    assert found == Content(None, b'{"a":1}', headers)


def test_fields_and_properties_that_no_step_concerns_keep_their_types() -> None:
    raw = b"\xa0\x00" + b"\x03a/b" + in_table(WIDE)
    content = Content(None, b"", ((STORED_AMQP, write_stored("", "k", raw)),))
    found = made_of(content, SET)
    new = b"\x02by" + b"S\x00\x00\x00\x01a"
    wanted = b"\xa0\x00" + b"\x03a/b" + in_table(WIDE + new)
    assert found.headers == ((STORED_AMQP, write_stored("", "k", wanted)),)
    # The first of two with one name counts, and both go.
    found = made_of(content, {"do": "drop", "at": "b"}, {"do": "drop", "at": "c"})
    wanted = b"\xa0\x00" + b"\x03a/b" + in_table(b"\x01ab\x05")
    assert found.headers == ((STORED_AMQP, write_stored("", "k", wanted)),)
    found = made_of(
        content,
        {"do": "rename", "at": "properties.content_type", "to": "properties.type"},
        *({"do": "drop", "at": name} for name in "abc"),
    )
    assert found.headers == ((STORED_AMQP, write_stored("", "k", b"\x00\x20" + b"\x03a/b")),)
    # A failure is marked in the same way.
    made = topology("q")
    step = {"do": "cast", "at": "$.a", "to": "number"}
    made.apply(TransformationPut(vhost="/", name="t", rule=rule(step)))
    route = Route(("q",), transformed=((Destination("q"), "t"),))
    (place,) = places_of(route, made.vhost("/"), content._replace(value=b"-"), ALL)
    assert WIDE in (dict(place.content.headers)[STORED_AMQP] or b"")
    assert FAILED_HEADER in (said_of(place.content, "", "k").headers or {})


@pytest.mark.parametrize("raw", [b"none", write_stored("", "k", b"\xff\xff")])
def test_what_only_looks_like_a_message_of_amqp_is_changed_as_others(raw: bytes) -> None:
    content = Content(None, b"-", ((STORED_AMQP, raw), ("secret", b"x")))
    found = made_of(content, {"do": "drop", "at": "headers.secret"})
    assert found.headers == ((STORED_AMQP, raw),)
    made = topology("q")
    step = {"do": "cast", "at": "$.a", "to": "number"}
    made.apply(TransformationPut(vhost="/", name="t", rule=rule(step)))
    route = Route(("q",), transformed=((Destination("q"), "t"),))
    (place,) = places_of(route, made.vhost("/"), content, ALL)
    assert FAILED_HEADER in dict(place.content.headers)


@given(
    headers=st.dictionaries(st.sampled_from("abcx"), VALUES, max_size=3),
    body=st.sampled_from([b"", b"null", b"{}", b'{"a": [1], "b": "x"}', b"[]", b"no JSON"]),
    steps=st.lists(STEPS, min_size=1, max_size=3),
)
def test_a_message_of_amqp_is_changed_or_stays_and_can_be_read(
    headers: dict[str, object], body: bytes, steps: list[dict[str, str]]
) -> None:
    content = of_amqp(Properties(headers=headers, type="t", message_id="m"), body)
    made = topology("q")
    made.apply(TransformationPut(vhost="/", name="t", rule=rule(*steps)))
    route = Route(("q",), transformed=((Destination("q"), "t"),))
    (place,) = places_of(route, made.vhost("/"), content, ALL)
    said = said_of(place.content)
    assert said.message_id == "m"
    assert dict(place.content.headers)["kafkaesque.priority"] == b"1"
    found = dict(said.headers or {})
    if FAILED_HEADER in found:
        del found[FAILED_HEADER]
        assert (said.type, said.timestamp, place.content.value) == ("t", None, body)
        assert fields_of(found) == fields_of(headers)
        return
    wanted = made.vhost("/").transformations["t"].apply(routed_of(content, None))
    assert fields_of(found) == fields_of(wanted.headers)
    assert place.content.value == bytes(wanted.body)
    properties = wanted.properties
    assert said.type == (shown(properties["type"]) if "type" in properties else None)
    assert (said.timestamp is None) == (properties.get("timestamp") is None)


def fields_of(headers: dict[str, object]) -> dict[str, bytes]:
    """Return headers by name; as bytes, for 1 and True are equal, and no NaN equals itself."""
    return {name: write_table({name: value}) for name, value in headers.items()}


def test_what_can_be_done_is_done_to_messages_of_amqp() -> None:
    # Of what is drawn above, most might fail.
    content = of_amqp(Properties(headers={"a": 1, "c": 2}, type="t", message_id="m"), b"{}")
    steps = [
        {"do": "rename", "at": "a", "to": "headers.b"},
        {"do": "rename", "at": "c", "to": "$.a"},
        {"do": "rename", "at": "properties.type", "to": "a"},
    ]
    found = made_of(content, *steps)
    assert said_of(found) == Properties(headers={"a": "t", "b": 1}, message_id="m")
    assert found.value == b'{"a":2}'


# -- places


def topology(*names: str) -> Topology:
    made = Topology()
    made.apply(VhostAdded(vhost="/"))
    for name in names:
        made.apply(QueueAdded(vhost="/", name=name))
    return made


def test_each_place_gets_what_is_meant_for_it() -> None:
    made = topology("q1", "q2", "late", "failed")
    made.apply(TransformationPut(vhost="/", name="t", rule=rule(SET)))
    cast = {"do": "cast", "at": "$.a", "to": "number"}
    made.apply(TransformationPut(vhost="/", name="bad", rule=rule(cast, failures="failed")))
    topic = Destination("topic", is_topic=True)
    route = Route(
        ("q1", "q2"),
        ("late",),
        topics=("topic",),
        transformed=((Destination("q1"), "t"), (Destination("late"), "bad"), (topic, "t")),
    )
    content = Content(None, b"no JSON", ())
    found = {each.destination: each for each in places_of(route, made.vhost("/"), content, ALL)}
    assert set(found) == {Destination("q1"), Destination("q2"), topic, Destination("failed")}
    assert found[Destination("q1")].content.headers == (("by", b"a"),)
    assert found[topic].content.headers == (("by", b"a"),)
    assert found[Destination("q2")].content == content
    ((name, why),) = found[Destination("failed")].content.headers
    assert (name, why) == (FAILED_HEADER, b"bad: the body is no JSON, or too large")


def failing(*names: str, failures: str = "") -> tuple[Topology, Route]:
    """Return what is needed to fail on the way to the first queue, and not to the others."""
    made = topology(*names)
    step = {"do": "cast", "at": "headers.a", "to": "number"}
    made.apply(TransformationPut(vhost="/", name="bad", rule=rule(step, failures=failures)))
    return made, Route(names, transformed=((Destination(names[0]), "bad"),))


NO_NUMBER = Content(None, b"", (("a", b"x"),))
WHY = b"bad: what is at headers.a cannot become a number"


@pytest.mark.parametrize("is_delayed", [False, True])
def test_a_queue_for_failures_that_gets_a_message_anyway_gets_it_once(is_delayed: bool) -> None:
    made, route = failing("q", "failed", failures="failed")
    if is_delayed:
        route = route._replace(queues=("q",), delayed_queues=("failed",))
    (place,) = places_of(route, made.vhost("/"), NO_NUMBER, ALL)
    assert place.destination == Destination("failed")
    assert place.content.headers == (("a", b"x"), (FAILED_HEADER, WHY))
    assert place.is_delayed == is_delayed
    # What a rule takes away there does not come for another reason, either.
    made.apply(TransformationPut(vhost="/", name="t", rule=rule({"do": "drop", "at": "headers.a"})))
    route = route._replace(transformed=(*route.transformed, (Destination("failed"), "t")))
    (place,) = places_of(route, made.vhost("/"), NO_NUMBER, ALL)
    assert place.content.headers == ((FAILED_HEADER, WHY),)


@pytest.mark.parametrize("failures", ["", "failed"])
def test_what_a_rule_makes_too_large_for_one_place_has_failed_there(failures: str) -> None:
    made = topology("small", "large", "failed")
    step = {"do": "template", "at": "headers.long", "text": "x" * 1_000}
    made.apply(TransformationPut(vhost="/", name="t", rule=rule(step, failures=failures)))
    route = Route(
        ("small", "large"),
        transformed=((Destination("small"), "t"), (Destination("large"), "t")),
    )
    takers = _Takers(small=500)
    found = {
        each.destination.name: dict(each.content.headers)
        for each in places_of(route, made.vhost("/"), Content(None, b"", ()), takers)
    }
    why = b"t: what comes out is larger than 'small' takes"
    assert found == {"large": {"long": b"x" * 1_000}, failures or "small": {FAILED_HEADER: why}}
    # One that was as large before is its publisher's business; one that has no room for the reason
    # does without.
    content = Content(None, b"", (("long", b"y" * 1_000),))
    found = {
        each.destination.name: dict(each.content.headers)
        for each in places_of(route, made.vhost("/"), content, takers)
    }
    assert found["small"] == {"long": b"x" * 1_000}
    takers = _Takers(small=50, failed=50)
    found = {
        each.destination.name: dict(each.content.headers)
        for each in places_of(route, made.vhost("/"), Content(None, b"", ()), takers)
    }
    assert found[failures or "small"] == {}


def test_a_topology_is_made_again_of_its_records() -> None:
    made = topology("q")
    made.apply(TransformationPut(vhost="/", name="t", rule=rule(SET, when="a = 1", failures="q")))
    arguments: dict[str, object] = {"x-transformation": "t"}
    made.apply(
        Bound(vhost="/", source="amq.topic", destination=Destination("q"), arguments=arguments)
    )
    again = Topology()
    for record in made.records():
        again.apply(record)
    assert again == made
    assert again.vhost("/").bindings_with("t") == 1
    assert again.vhost("/").transformations["t"].rule == made.vhost("/").transformations["t"].rule


# -- the controller


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    made.state.features[METADATA] = LEVEL_WITH_EXCHANGES
    made.do(CreateTopic(name="measured", partition_count=1))
    made.do(CreateQueue(vhost="/", name="failed", options={}))
    made.do(CreateQueue(vhost="/", name="cursor", options={"source.topic": "measured"}))
    return made


def change(state: ClusterState, command: ExchangeCommand) -> int:
    records = exchange_planner.plan_exchanges(state, command, 0)
    for each in records:
        state.apply(each)
    return len(records)


def put(name: str, wanted: Rule, vhost: str = "/") -> PutTransformation:
    return PutTransformation(vhost=vhost, name=name, rule=wanted)


def test_what_is_so_already_takes_no_record(cluster: Cluster) -> None:
    state = cluster.state
    assert change(state, put("t", rule(SET))) == 1
    assert change(state, put("t", rule(SET))) == 0
    assert change(state, put("t", rule(SET, failures="failed"))) == 1
    assert change(state, RemoveTransformation(vhost="/", name="t")) == 1
    assert change(state, RemoveTransformation(vhost="/", name="t")) == 0


@pytest.mark.parametrize(
    ("name", "wanted", "error", "said"),
    [
        ("", rule(SET), BadArgument, "1 to 255 bytes"),
        ("é" * 128, rule(SET), BadArgument, "1 to 255 bytes"),
        ("\udc80", rule(SET), BadArgument, "UTF-8"),
        ("t", rule(), BadArgument, "without a step"),
        ("t", rule(SET, when="a ="), BadArgument, "when:"),
        ("t", rule(SET, when="'a'"), BadArgument, "when: a text or a number is no condition"),
        ("t", rule({**SET, "at": "$"}), BadArgument, "stand in quotes"),
        ("t", rule({**SET, "at": "headers.a$b"}), BadArgument, "stand in quotes"),
        (
            "t",
            rule({"do": "template", "at": "a", "text": "{$}"}),
            BadArgument,
            r"'\$' is no place",
        ),
        ("t", rule(SET, failures="nowhere"), NoSuchQueue, "no queue 'nowhere'"),
        ("t", rule(SET, failures="cursor"), InvalidRequest, "from a topic"),
        ("t", rule({**SET, "at": "headers.kafkaesque.priority"}), BadArgument, "no place"),
        ("t", rule({**SET, "at": 'headers."kafkaesque.group"'}), BadArgument, "their own"),
        ("t", rule({**SET, "at": 'headers."amqp.message"'}), BadArgument, "their own"),
        ("t", rule({**SET, "at": "properties.user_id"}), BadArgument, "does not change"),
        ("t", rule({**SET, "at": 'headers."user-id"'}), BadArgument, "do not change"),
        ("t", rule({**SET, "at": '"expires-at"'}), BadArgument, "do not change"),
        ("t", rule({**SET, "at": "headers.priority"}), BadArgument, "do not change"),
        (
            "t",
            rule({"do": "rename", "at": "properties.priority", "to": "p"}),
            BadArgument,
            "does not change properties.priority",
        ),
        (
            "t",
            rule({"do": "split", "at": "a", "by": ",", "into": ["b", "properties.expiration"]}),
            BadArgument,
            "does not change properties.expiration",
        ),
        ("t", rule(*[{**SET, "value": "x" * 4000}] * 20), BadArgument, "at most 65536 bytes"),
    ],
)
def test_what_cannot_be_is_refused(
    cluster: Cluster, name: str, wanted: Rule, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        change(cluster.state, put(name, wanted))


def test_bounds_and_levels_hold(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transformation_planner, "TRANSFORMATIONS_MAX", 1)
    change(cluster.state, put("t", rule(SET)))
    with pytest.raises(OverBound):
        change(cluster.state, put("u", rule(SET)))
    change(cluster.state, put("t", rule(SET, SET)))
    with pytest.raises(NoSuchVhost):
        change(cluster.state, put("t", rule(SET), "nowhere"))
    cluster.state.features[METADATA] = LEVEL_WITH_EXCHANGES - 1
    with pytest.raises(FeatureUpdateFailed):
        change(cluster.state, put("t", rule(SET)))
