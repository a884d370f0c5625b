"""What a SEND says of its message, which is not worked out again where it is the same."""

from __future__ import annotations

import pytest

from kafkaesque.gateway.stomp import messages
from kafkaesque.gateway.stomp.destinations import Destination, Kind
from kafkaesque.gateway.stomp.messages import read_sent
from kafkaesque.protocols.amqp.properties import Properties, read_properties
from kafkaesque.protocols.stomp.events import Sent

NOW_MS = 1_700_000_000_000
QUEUE = Destination(Kind.QUEUE, "work")


def said(now_ms: int, *headers: tuple[str, str], reply_to: str | None = None) -> Properties:
    sent = Sent(destination="/queue/work", headers=headers, body=b"x")
    return read_properties(read_sent(sent, QUEUE, reply_to, now_ms).properties)


def test_what_differs_is_told_apart() -> None:
    assert said(NOW_MS, ("persistent", "true"), ("receipt", "1")).delivery_mode == 2
    assert said(NOW_MS, ("persistent", "false"), ("receipt", "1")).delivery_mode == 1
    assert said(NOW_MS, ("a", "1"), ("receipt", "1")).headers == {"a": "1"}
    assert said(NOW_MS, ("a", "1"), ("receipt", "2")).headers == {"a": "1"}
    assert said(NOW_MS, ("a", "1")).reply_to is None
    assert said(NOW_MS, ("a", "1"), reply_to="q").reply_to == "q"


def test_a_time_from_now_on_is_worked_out_each_time() -> None:
    expires = ("expires", str(NOW_MS + 5_000))
    assert said(NOW_MS, expires).expiration == "5000"
    assert said(NOW_MS + 1_000, expires).expiration == "4000"


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "HEADS_REMEMBERED_MAX", 3)
    monkeypatch.setattr(messages, "_written", {})
    for number in range(10):
        said(NOW_MS, ("number", str(number)))
        assert 0 < len(messages._written) <= 3
    before = len(messages._written)
    # The second one is not looked at, and is long.
    said(NOW_MS, ("a", "1"), ("a", "x" * 5_000))
    assert len(messages._written) == before
