"""What is told of origins: those of many partitions are asked one after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kafkaesque.gateway.nats.jetstream import origin_info
from kafkaesque.gateway.nats.jetstream.sources import StreamSource
from kafkaesque.model.errors import LeaderNotAvailable

PARTITIONS = 2_000


def test_an_origin_of_many_partitions_that_answer_at_once_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = StreamSource(name="orders")
    topic = SimpleNamespace(name="orders", topic_id=bytes(16))
    every = [(source, topic, number) for number in range(PARTITIONS)]
    monkeypatch.setattr(origin_info, "origins_of", lambda *_: every)
    turns: deque[Callable[[], None]] = deque()

    def fetch(*asked: Any) -> None:
        asked[-1](LeaderNotAvailable("nobody leads it"))

    doors = SimpleNamespace(
        reading=SimpleNamespace(fetch=fetch),
        clock=SimpleNamespace(call_soon=turns.append, wall_ms=lambda: 0),
    )
    office = SimpleNamespace(doors=doors, streams=SimpleNamespace(look=lambda _: None))
    log = SimpleNamespace(position_of=lambda _: None)
    config = SimpleNamespace(mirror=None, sources=[source])
    stream = SimpleNamespace(log=log, config=config)
    copying = SimpleNamespace(error_of=lambda *_: None)
    told: list[dict[str, object]] = []
    info = origin_info.OriginInfo(
        cast("Any", office), cast("Any", copying), cast("Any", stream), told.append
    )
    info.begin()
    while turns:
        turns.popleft()()
    assert told == [{"sources": [{"name": "orders", "lag": 0, "active": -1}]}]
