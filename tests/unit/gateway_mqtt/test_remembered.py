"""Messages that many sessions have are read and encoded once, within bounds."""

from __future__ import annotations

import pytest

from kafkaesque.broker.requests.queue_requests import QueueMessage
from kafkaesque.gateway.mqtt import messages
from kafkaesque.gateway.mqtt.messages import Encoded, KeptMessages, read_kept
from kafkaesque.model.kernel_types import Headers
from kafkaesque.model.message_headers import STORED_MQTT
from kafkaesque.protocols.mqtt.packets import Version
from kafkaesque.protocols.mqtt.stored_message import StoredMessage, write_stored

NOW_MS = 1_700_000_000_000


def record(
    offset: int, body: bytes, client_id: str = "me", headers: Headers = (), key: bytes = b"a.b"
) -> QueueMessage:
    stored = write_stored(StoredMessage(1, False, False, client_id))
    # New bytes, as each queue has its own.
    return QueueMessage(
        offset=offset,
        attempt=1,
        failures=0,
        timestamp_ms=offset,
        key=bytes(bytearray(key)),
        value=bytes(bytearray(body)),
        headers=(*headers, (STORED_MQTT, stored)),
    )


def test_the_same_record_of_two_queues_is_one_message_encoded_once() -> None:
    kept, encoded = KeptMessages(), Encoded()
    first = [kept.read(record(offset, b"%d" % offset)).message for offset in range(60)]
    variants = [encoded.variant(each, Version.V3_1_1, NOW_MS, is_of_queue=True) for each in first]
    others = [kept.read(record(offset + 7, b"%d" % offset)).message for offset in range(60)]
    assert all(one is other for one, other in zip(first, others, strict=True))
    again = [encoded.variant(each, Version.V3_1_1, NOW_MS, is_of_queue=True) for each in others]
    assert all(one is other for one, other in zip(variants, again, strict=True))


@pytest.mark.parametrize(
    "other",
    [
        record(1, b"y"),
        record(1, b"x", client_id="you"),
        record(1, b"x", headers=(("a", b"1"),)),
        record(1, b"x", headers=(("a", None),)),
        record(1, b"x", key=b"a.c"),
    ],
)
def test_whatever_differs_is_another_message(other: QueueMessage) -> None:
    kept = KeptMessages()
    kept.read(record(1, b"x"))
    found, read = kept.read(other), read_kept(other)
    assert found.client_id == read.client_id
    assert (found.message.key, found.message.body) == (read.message.key, read.message.body)
    assert found.message.headers == read.message.headers


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "REMEMBERED_MAX", 4)
    monkeypatch.setattr(messages, "REMEMBERED_BYTES_MAX", 100)
    kept, encoded = KeptMessages(), Encoded()
    for body_bytes in (1, 30):
        for number in range(20):
            found = kept.read(record(number, b"%d" % number + bytes(body_bytes))).message
            encoded.variant(found, Version.V5, NOW_MS, is_of_queue=True)
            for each in (kept.count, encoded.count):
                assert each <= (4 if body_bytes == 1 else 3)
    kept.read(record(1, bytes(messages.REMEMBERED_ONE_BYTES_MAX + 1)))
    assert kept.count <= 3


@pytest.mark.parametrize("name", ["a", "content-type", "correlation-id", "reply-to"])
def test_what_is_said_of_a_message_counts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "REMEMBERED_BYTES_MAX", 1_000)
    kept, encoded = KeptMessages(), Encoded()
    for number in range(40):
        found = kept.read(record(number, b"x", headers=((name, b"%0300d" % number),))).message
        encoded.variant(found, Version.V5, NOW_MS, is_of_queue=True)
        for each in (kept.count, encoded.count):
            assert each <= 3
    before = (kept.count, encoded.count)
    long = ((name, b"x" * messages.REMEMBERED_ONE_BYTES_MAX),)
    found = kept.read(record(1, b"x", headers=long)).message
    encoded.variant(found, Version.V5, NOW_MS, is_of_queue=True)
    assert (kept.count, encoded.count) == before


def test_a_life_that_ends_is_seen_in_the_next_second() -> None:
    encoded = Encoded()
    expiring = read_kept(record(1, b"x", headers=(("expires-at", b"%d" % (NOW_MS + 500)),))).message
    other = read_kept(record(2, b"y")).message
    for each in (expiring, other, expiring):
        assert encoded.variant(each, Version.V5, NOW_MS, is_of_queue=True) is not None
    assert encoded.variant(other, Version.V5, NOW_MS + 1_000, is_of_queue=True) is not None
    assert encoded.variant(expiring, Version.V5, NOW_MS + 1_000, is_of_queue=True) is None
