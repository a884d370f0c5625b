"""What a queue's leader answers where messages cannot be changed on their way out, or are gone."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kafkaesque.broker.queues.bodies import Found
from kafkaesque.broker.queues.host import HostParts, QueueHost
from kafkaesque.broker.queues.leader import OTHERS_MS, serve
from kafkaesque.broker.queues.way_out import WayOut
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.model.errors import NotLeader, RequestTimedOut
from kafkaesque.model.ids import TopicId
from kafkaesque.model.records import Record
from kafkaesque.queues import requests as r
from kafkaesque.routing.transformations.rules import read_rule
from kafkaesque.routing.transformations.transformation import Transformation
from kafkaesque.tables.log_table import RequestToken

LOG = TopicId(b"q" * 16)
STRICT = {"steps": [{"do": "cast", "at": "$.total", "to": "number"}]}
Answering = Callable[[r.Answer], None]


class Host:
    """Gives out one message after the other; each commit takes a second."""

    def __init__(self, *values: bytes) -> None:
        self.values = values
        self.state = SimpleNamespace(topic_id=LOG)
        self.queue = SimpleNamespace(is_leading=True)
        self.leadership = 1
        self.bodies = self
        self.now_ms = 0
        self.rejected: list[int] = []
        self.noted_lost = 0
        #: How long each request to the engine waits.
        self.waits: list[int] = []
        self.on_read: Callable[[], None] = lambda: None
        self._given = itertools.count()
        self._tokens = itertools.count()

    def note_lost(self, count: int) -> None:
        self.noted_lost += count

    def way_out(self) -> WayOut:
        return WayOut("strict", Transformation(read_rule(json.dumps(STRICT).encode())))

    def new_token(self) -> RequestToken:
        return RequestToken(next(self._tokens))

    def now(self) -> SimpleNamespace:
        return SimpleNamespace(now_ms=self.now_ms)

    def on_wanted(self) -> None: ...

    def give_back(self, offsets: Sequence[int], _: dict[int, int], __: int) -> None:
        assert not offsets

    def ask_engine(self, request: r.Request, on_answer: Answering) -> None:
        if not self.queue.is_leading:
            raise NotLeader("the queue has another leader")
        self.ask(request, on_answer)

    def ask(self, request: r.Request, on_answer: Answering) -> None:
        if isinstance(request, r.Reject):
            self.rejected += [each.first for each in request.claims]
            return
        assert isinstance(request, r.Take)
        self.waits.append(request.wait_ms)
        self.now_ms += 1_000
        offset = next(self._given)
        claims = (r.Claim(offset, offset + 1, 1),) if offset < len(self.values) else ()
        on_answer(r.Taken(claims=claims))

    def read(self, offsets: Sequence[int], _: int, on_done: Callable[[Found], None]) -> None:
        self.on_read()
        on_done(Found({at: Record(at, 0, None, self.values[at], ()) for at in offsets}, ()))

    def take(self, wait_ms: int = 0) -> Any:
        """Return what a request for messages is answered with, once."""
        parts = SimpleNamespace(
            metadata=SimpleNamespace(state=SimpleNamespace(queues_by_log={LOG: None}))
        )
        told: list[object] = []
        take = q.TakeMessages(log_id=LOG, messages_max=9, bytes_max=999, wait_ms=wait_ms)
        serve(cast("QueueHost", self), cast("HostParts", parts), take, told.append)
        (answer,) = told
        return answer


@pytest.mark.parametrize("is_leading", [False, True])
def test_who_takes_what_cannot_be_given_up_hears_that_something_may_be_locked(
    is_leading: bool,
) -> None:
    host = Host(b"no JSON")

    def lose() -> None:
        host.leadership += 1
        host.queue.is_leading = is_leading

    host.on_read = lose
    assert type(host.take()) is RequestTimedOut
    assert host.rejected == []


def test_however_many_cannot_be_changed_who_waits_gets_an_answer() -> None:
    host = Host(*[b"no JSON"] * 7, b'{"total":"1"}')
    assert host.take().messages == []
    assert host.now_ms <= OTHERS_MS + 1_000
    assert host.rejected == [0, 1, 2, 3]
    assert [each.value for each in host.take().messages] == [b'{"total":1}']
    assert host.rejected == list(range(7))


def test_who_waits_does_so_to_the_end_for_one_that_can_be_changed() -> None:
    host = Host(b"no JSON", b"no JSON", b'{"total":"1"}')
    assert [each.value for each in host.take(2_000).messages] == [b'{"total":1}']
    assert host.waits == [2_000, 1_000, 0]


def test_who_asks_gets_what_stands_behind_messages_that_a_topic_has_lost() -> None:
    """Their bodies were in a topic (ADR 48), and nothing changes messages on their way out."""

    class Losing(Host):
        def way_out(self) -> None:  # type: ignore[override]
            return None

        def read(self, offsets: Sequence[int], _: int, on_done: Callable[[Found], None]) -> None:
            kept = [at for at in offsets if self.values[at]]
            on_done(Found({at: Record(at, 0, None, self.values[at], ()) for at in kept}, ()))

    host = Losing(b"", b"", b"kept")
    assert [each.value for each in host.take().messages] == [b"kept"]
    assert host.rejected == [0, 1]
    assert host.noted_lost == 2
