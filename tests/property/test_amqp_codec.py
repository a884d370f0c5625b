"""AMQP's codec: round trips, any cut of the input, and nothing but errors of the protocol."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, get_type_hints

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.model.kernel import load_kernel, use_kernel
from kafkaesque.protocols.amqp import methods as m
from kafkaesque.protocols.amqp.connection import Connection
from kafkaesque.protocols.amqp.errors import AmqpError
from kafkaesque.protocols.amqp.events import AcknowledgedRun, Published, PublishedRun
from kafkaesque.protocols.amqp.frames import (
    BODY,
    FRAME_END_BYTE,
    HEADER,
    HEARTBEAT_FRAME,
    METHOD,
    write_frame,
)
from kafkaesque.protocols.amqp.method_codec import read_method, write_method
from kafkaesque.protocols.amqp.properties import (
    Properties,
    PropertiesChecker,
    change_properties,
    read_properties,
    write_properties,
)
from kafkaesque.protocols.amqp.wire import (
    NESTING_MAX,
    Timestamp,
    read_table,
    write_long_string,
    write_table,
)
from tests.unit.model.record_helpers import both_kernels, kernel_names
from tests.unit.protocols_amqp.peer import HANDSHAKE, OPENED, Broker, header, method, publish, shown

short_strings = st.text(max_size=20).filter(lambda text: len(text.encode()) <= 255)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False),
    st.text(max_size=10),
    st.binary(max_size=10),
    st.binary(max_size=5).map(lambda raw: raw.decode(errors="surrogateescape")),
    st.integers(0, 2**64 - 1).map(Timestamp),
    st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 255)).map(
        lambda each: Decimal(each[0]).scaleb(-each[1])
    ),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(short_strings, inner, max_size=3)
    ),
    max_leaves=8,
)
tables = st.dictionaries(short_strings, values, max_size=4)

FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "octet": st.integers(0, 2**8 - 1),
    "short": st.integers(0, 2**16 - 1),
    "long": st.integers(0, 2**32 - 1),
    "longlong": st.integers(0, 2**64 - 1),
    "bit": st.booleans(),
    "shortstr": short_strings,
    "longstr": st.binary(max_size=30),
    "table": tables,
}


@st.composite
def methods(draw: st.DrawFn) -> m.Method:
    kind = draw(st.sampled_from(sorted(m.METHODS.values(), key=lambda each: each.__name__)))
    hints = get_type_hints(kind, include_extras=True)
    fields = {name: draw(FIELDS[hints[name].__metadata__[0]]) for name in kind.__struct_fields__}
    return kind(**fields)


octets = st.integers(0, 255)
properties = st.builds(
    Properties,
    headers=st.none() | tables,
    delivery_mode=st.none() | octets,
    priority=st.none() | octets,
    timestamp=st.none() | st.integers(0, 2**64 - 1).map(Timestamp),
    **{
        name: st.none() | short_strings
        for name in Properties.__struct_fields__
        if name not in ("headers", "delivery_mode", "priority", "timestamp")
    },
)


def kinds(value: object) -> object:
    """The types of all values in a table: True equals 1, and is something else."""
    if isinstance(value, dict):
        return {name: kinds(each) for name, each in value.items()}
    if isinstance(value, list):
        return [kinds(each) for each in value]
    return type(value)


@given(table=tables)
def test_tables_round_trip(table: dict[str, object]) -> None:
    raw = write_table(table)
    found, end = read_table(raw, 0)
    assert found == table
    assert kinds(found) == kinds(table)
    assert end == len(raw)


@given(found=methods())
def test_methods_round_trip(found: m.Method) -> None:
    assert read_method(write_method(found)) == found


@given(before=properties, after=properties, dropped=st.sets(short_strings, max_size=2))
def test_changed_properties_are_those_before_and_the_changes(
    before: Properties, after: Properties, dropped: set[str]
) -> None:
    changes = {
        name: value for name, value in msgspec.structs.asdict(after).items() if name != "headers"
    }
    for name in dropped & changes.keys():
        del changes[name]
    raw = change_properties(write_properties(before), changes, after.headers, dropped)
    table = {**(before.headers or {}), **(after.headers or {})}
    gone = dropped - (after.headers or {}).keys()
    table = {name: value for name, value in table.items() if name not in gone}
    is_kept = before.headers == {} and not after.headers and not dropped
    wanted = msgspec.structs.replace(before, headers=table if is_kept else table or None, **changes)
    assert raw == write_properties(wanted)


@given(found=properties)
def test_properties_round_trip(found: Properties) -> None:
    raw = write_properties(found)
    assert read_properties(raw) == found
    checker = PropertiesChecker()
    assert checker.check(raw) is None
    assert checker.check(raw) is None


@given(found=methods(), data=st.data())
def test_a_method_that_is_cut_or_changed_is_read_or_refused(
    found: m.Method, data: st.DataObject
) -> None:
    raw = bytearray(write_method(found))
    for _ in range(data.draw(st.integers(0, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(octets)
    cut = bytes(raw[: data.draw(st.integers(0, len(raw)))])
    try:
        read_method(cut)
    except AmqpError:
        return


@given(raw=st.binary(max_size=60), flags=st.integers(0, 2**16 - 1))
def test_any_properties_are_read_or_refused(raw: bytes, flags: int) -> None:
    data = flags.to_bytes(2, "big") + raw
    try:
        read_properties(data)
    except AmqpError:
        assert PropertiesChecker().check(data) is not None
    else:
        assert PropertiesChecker().check(data) is None


frames = st.one_of(
    st.builds(method, st.integers(0, 3), methods()),
    st.builds(publish, st.integers(1, 2), st.binary(max_size=40), st.just("k"), st.integers(1, 3)),
    st.builds(header, st.integers(0, 2), st.integers(0, 50), st.binary(min_size=2, max_size=6)),
    st.builds(
        write_frame,
        st.sampled_from((METHOD, HEADER, BODY, 4)),
        st.integers(0, 2),
        st.binary(max_size=20),
    ),
    st.just(method(2, m.ChannelOpen())),
    st.just(method(1, m.ChannelCloseOk())),
    st.just(HEARTBEAT_FRAME),
    st.binary(max_size=12),
)
inputs = st.one_of(
    st.lists(frames, max_size=6).map(lambda each: OPENED + b"".join(each)),
    st.lists(frames, max_size=6).map(lambda each: HANDSHAKE + b"".join(each)),
    st.lists(frames, max_size=3).map(lambda each: HANDSHAKE[:8] + b"".join(each)),
    st.binary(max_size=30),
)


#: What is cut together: publishes and acknowledgements that say the same, and some that do not.
alike = st.lists(
    st.one_of(
        st.builds(publish, st.integers(1, 2), st.binary(min_size=1, max_size=9)),
        st.builds(publish, st.just(1), st.binary(max_size=9), st.sampled_from("kl")),
        st.integers(1, 4).map(lambda tag: method(1, m.BasicAck(delivery_tag=tag))),
        st.builds(m.BasicAck, delivery_tag=st.integers(0, 2), multiple=st.booleans()).map(
            lambda ack: method(1, ack)
        ),
    ),
    max_size=8,
).map(b"".join)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """What is cut together, with bytes changed and its end missing."""
    data = bytearray(draw(st.one_of(alike, inputs)))
    for _ in range(draw(st.integers(0, 2)) if data else 0):
        data[draw(st.integers(0, len(data) - 1))] = draw(octets)
    return bytes(data[: draw(st.integers(0, len(data)))] if draw(st.booleans()) else data)


@given(data=damaged(), at=st.integers(0, 100), most=st.integers(8, 60), body_max=st.integers(0, 9))
def test_both_kernels_cut_the_same(data: bytes, at: int, most: int, body_max: int) -> None:
    twin, kernels = load_kernel("python"), [load_kernel(name) for name in kernel_names()]
    for place in (0, min(at, len(data))):
        for frame_max in (most, 10_000):
            found = twin.cut_publishes(data, place, frame_max, body_max)
            for each in kernels:
                assert each.cut_publishes(data, place, frame_max, body_max) == found
        for each in kernels:
            assert each.cut_acks(data, place) == twin.cut_acks(data, place)


@both_kernels
@given(data=damaged())
def test_what_is_cut_together_is_what_comes_byte_by_byte(kernel_name: str, data: bytes) -> None:
    with use_kernel(kernel_name):
        whole, in_pieces = Broker(), Broker()
        whole.receive(OPENED + method(2, m.ChannelOpen()))
        in_pieces.receive(OPENED + method(2, m.ChannelOpen()))
        whole.receive(data)
        for at in range(len(data)):
            in_pieces.receive(data[at : at + 1])
    assert shown(in_pieces.events) == shown(whole.events)
    assert in_pieces.sent == whole.sent


@both_kernels
def test_what_says_the_same_is_one_event(kernel_name: str) -> None:
    broker = Broker()
    broker.receive(OPENED)
    bodies = [b"one", b"two", b"three"]
    acks = [method(1, m.BasicAck(delivery_tag=tag)) for tag in (4, 5, 6)]
    with use_kernel(kernel_name):
        published, single, acked = broker.connection.receive_runs(
            b"".join([*(publish(1, each) for each in bodies), publish(1, b"x", key="l"), *acks])
        )
    assert isinstance(published, PublishedRun)
    assert published.bodies == bodies
    assert isinstance(single, Published)
    assert acked == AcknowledgedRun(channel=1, first=4, last=6)


@given(data=inputs, cuts=st.lists(st.integers(0, 600), max_size=6))
def test_every_cut_of_the_input_gives_the_same_events(data: bytes, cuts: list[int]) -> None:
    whole = Broker()
    whole.receive(data)
    in_pieces = Broker()
    at = 0
    for cut in [*sorted(cuts), len(data)]:
        in_pieces.receive(data[at:cut])
        at = max(at, cut)
    assert shown(in_pieces.events) == shown(whole.events)
    assert in_pieces.sent == whole.sent
    assert in_pieces.connection.state is whole.connection.state


def test_every_single_cut_and_byte_by_byte() -> None:
    data = (
        OPENED
        + publish(1, b"hello world", pieces=3)
        + method(1, m.QueueDeclare(queue="q", arguments={"x-max-length": 5}))
        + HEARTBEAT_FRAME
        + method(1, m.BasicAck(delivery_tag=3))
        + method(1, m.BasicPublish())
        + method(1, m.TxSelect())
    )
    whole = Broker()
    whole.receive(data)
    assert len(whole.events) > 8
    for cut in range(len(data)):
        broker = Broker()
        broker.receive(data[:cut])
        broker.receive(data[cut:])
        assert shown(broker.events) == shown(whole.events)
    broker = Broker()
    for at in range(len(data)):
        broker.receive(data[at : at + 1])
    assert shown(broker.events) == shown(whole.events)


def test_what_comes_whole_is_read_like_what_comes_in_pieces_even_if_a_byte_is_wrong() -> None:
    opening = OPENED + method(2, m.ChannelOpen())
    properties = write_properties(Properties(content_type="text/plain", delivery_mode=2))
    start = method(1, m.BasicPublish(exchange="exchange", routing_key="a.rather.long.key"))
    message = start + header(1, 5, properties) + write_frame(BODY, 1, b"hello")
    data = message + method(1, m.BasicAck(delivery_tag=7)) + HEARTBEAT_FRAME
    for at in range(len(data)):
        for flipped in (0x01, 0x02, 0x80, 0xFF):
            wrong = bytearray(data)
            wrong[at] ^= flipped
            whole, in_pieces = Broker(), Broker()
            whole.receive(opening)
            whole.receive(bytes(wrong))
            in_pieces.receive(opening)
            for each in range(len(wrong)):
                in_pieces.receive(bytes(wrong[each : each + 1]))
            assert shown(whole.events) == shown(in_pieces.events), (at, flipped)
    for cut in range(len(data)):
        broker = Broker()
        broker.receive(opening)
        before = len(broker.events)
        broker.receive(data[:cut])
        broker.receive(data[cut:])
        assert len(broker.events) == before + 3


@given(data=st.binary(max_size=300), start=st.sampled_from((b"", HANDSHAKE[:8], HANDSHAKE, OPENED)))
def test_no_input_raises(data: bytes, start: bytes) -> None:
    Broker().receive(start + data)
    Connection().receive(data)


def test_nesting_has_a_bound() -> None:
    inner = b"A" + write_long_string(b"")
    for _ in range(NESTING_MAX + 1):
        inner = b"A" + write_long_string(inner)
    with pytest.raises(AmqpError, match="nested more than"):
        read_table(write_long_string(b"\1a" + inner), 0)
    value: object = 1
    for _ in range(NESTING_MAX + 1):
        value = [value]
    with pytest.raises(ValueError, match="nested more than"):
        write_table({"a": value})


def test_a_frame_that_announces_much_takes_no_memory() -> None:
    connection = Broker().connection
    connection.receive(HANDSHAKE[:8])
    connection.send(0, m.ConnectionStart())
    (event,) = connection.receive(b"\1\0\0\x7f\xff\xff\xff")
    assert "above frame_max" in repr(event)
    assert FRAME_END_BYTE == b"\xce"
