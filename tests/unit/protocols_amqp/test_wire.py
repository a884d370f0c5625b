"""Bytes of methods, tables and properties, as other implementations write and read them."""

from __future__ import annotations

from decimal import Decimal

import pytest

from kafkaesque.protocols.amqp import methods as m
from kafkaesque.protocols.amqp.content_path import write_ack
from kafkaesque.protocols.amqp.errors import AmqpError, ReplyCode
from kafkaesque.protocols.amqp.frames import METHOD, write_frame
from kafkaesque.protocols.amqp.method_codec import read_method, write_method
from kafkaesque.protocols.amqp.properties import Properties, read_properties, write_properties
from kafkaesque.protocols.amqp.wire import Long, Timestamp, read_table, write_table


@pytest.mark.parametrize(
    ("method", "raw"),
    [
        (m.ChannelOpen(), "0014000a 00"),
        (
            m.ConnectionTune(channel_max=2047, frame_max=131072, heartbeat_s=60),
            "000a001e 07ff 00020000 003c",
        ),
        (m.QueueDeclare(queue="hello", durable=True), "0032000a 0000 05 68656c6c6f 02 00000000"),
        (
            m.QueueDeclare(queue="é", passive=True, exclusive=True, nowait=True),
            "0032000a 0000 02 c3a9 15 00000000",
        ),
        (
            m.ExchangeDeclare(exchange="x", type="topic", internal=True, auto_delete=True),
            "0028000a 0000 01 78 05 746f706963 0c 00000000",
        ),
        (
            m.BasicPublish(exchange="x", routing_key="k", mandatory=True),
            "003c0028 0000 0178 016b 01",
        ),
        (
            m.BasicDeliver(
                consumer_tag="t", delivery_tag=1, redelivered=True, exchange="", routing_key="k"
            ),
            "003c003c 0174 0000000000000001 01 00 016b",
        ),
        (m.BasicAck(delivery_tag=258, multiple=True), "003c0050 0000000000000102 01"),
        (
            m.BasicNack(delivery_tag=1, multiple=False, requeue=True),
            "003c0078 0000000000000001 02",
        ),
        (
            m.ConnectionClose(reply_code=404, reply_text="no", failed_class_id=50),
            "000a0032 0194 02 6e6f 0032 0000",
        ),
    ],
)
def test_methods(method: m.Method, raw: str) -> None:
    data = bytes.fromhex(raw)
    assert write_method(method) == data
    assert read_method(data) == method


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("74 01", True),
        ("62 ff", -1),
        ("42 ff", 255),
        ("73 fffe", -2),
        ("75 fffe", 65534),
        ("49 fffffffd", -3),
        ("69 fffffffd", 4294967293),
        ("6c ffffffffffffffff", -1),
        ("4c ffffffffffffffff", 2**64 - 1),
        ("66 3fc00000", 1.5),
        ("64 3ff8000000000000", 1.5),
        ("44 02 0000007b", Decimal("1.23")),
        ("53 00000002 c3a9", "é"),
        ("53 00000001 ff", "\udcff"),
        ("78 00000002 00ff", b"\0\xff"),
        ("54 0000000065000000", Timestamp(0x65000000)),
        ("56", None),
        ("41 00000004 56740156", [None, True, None]),
        ("46 00000003 016156", {"a": None}),
    ],
)
def test_all_types_of_fields(field: str, value: object) -> None:
    raw = b"\1n" + bytes.fromhex(field)
    found, end = read_table(len(raw).to_bytes(4, "big") + raw, 0)
    assert found == {"n": value}
    assert type(found["n"]) is type(value)
    assert end == 4 + len(raw)


@pytest.mark.parametrize(
    ("value", "field"),
    [(7, "49 00000007"), (Long(7), "6c 0000000000000007"), (2**31, "6c 0000000080000000")],
)
def test_how_wide_numbers_are_written(value: int, field: str) -> None:
    raw = b"\1n" + bytes.fromhex(field)
    assert write_table({"n": value}) == len(raw).to_bytes(4, "big") + raw


def test_the_first_of_fields_of_one_name_counts() -> None:
    raw = bytes.fromhex("0161 7401 0161 7400")
    assert read_table(len(raw).to_bytes(4, "big") + raw, 0)[0] == {"a": True}


@pytest.mark.parametrize(
    "raw",
    ["00000003 0161 5a", "00000005 0161 74", "00000004 0561 7401", "00000006 0161 53 00000009"],
)
def test_tables_that_are_none(raw: str) -> None:
    data = bytes.fromhex("0028000a 0000 0178 0174 00") + bytes.fromhex(raw)
    with pytest.raises(AmqpError) as caught:
        read_method(data)
    assert caught.value.code is ReplyCode.SYNTAX_ERROR
    assert (caught.value.class_id, caught.value.method_id) == (40, 10)


@pytest.mark.parametrize(
    "value", [object(), 2**64, -(2**63) - 1, Decimal("-1"), Decimal(2**32), Decimal("NaN")]
)
def test_values_that_no_table_can_hold(value: object) -> None:
    with pytest.raises(ValueError, match=r"table cannot hold|64 bits|decimal|digits"):
        write_table({"a": value})
    with pytest.raises(ValueError, match="QueueDeclare cannot be written"):
        write_method(m.QueueDeclare(arguments={"a": value}))


def test_a_name_that_is_too_long_is_not_written() -> None:
    with pytest.raises(ValueError, match="at most 255 bytes"):
        write_method(m.QueueDeclare(queue="é" * 128))


def test_properties() -> None:
    raw = bytes.fromhex("b800 02 7478 00000004 0161 7401 02 05")
    found = Properties(content_type="tx", headers={"a": True}, delivery_mode=2, priority=5)
    assert read_properties(raw) == found
    assert write_properties(found) == raw


def test_an_acknowledgement_is_the_same_by_either_way() -> None:
    for multiple in (False, True):
        method = m.BasicAck(delivery_tag=7, multiple=multiple)
        wanted = write_frame(METHOD, 3, write_method(method))
        assert write_ack(3, 7, multiple=multiple) == wanted
