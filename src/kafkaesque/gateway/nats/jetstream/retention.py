"""Streams that keep messages only as long as a consumer needs them.

What all consumers are done with is behind the floor of each of their queues: so nothing has to be
written to remove it, and what is acknowledged behind a message that is not, stays for as long.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.gateway.nats.jetstream.office import Office
from kafkaesque.gateway.nats.jetstream.streams import Stream
from kafkaesque.model.errors import RequestRefused


def _done_with(counts: q.QueueCounts) -> int:
    """Return before which offset a consumer wants nothing any more."""
    if not counts.has_begun:
        return 0
    if counts.oldest_ms or not isinstance(counts.read_to, int):
        return counts.floor
    # Nothing lives: what was read beyond that is what its filters do not want.
    return max(counts.floor, counts.read_to)


def catch_up(office: Office, stream: Stream, then: Callable[[bool], None]) -> None:
    """Call with True once the stream's view is current, without what its consumers are done with.

    False says that somebody who knows could not be asked.
    """
    if stream.config.retention == "limits":
        stream.log.catch_up(then)
        return
    left = list(office.consumers.all(stream.name))
    floors: list[int] = []

    def next_one() -> None:
        if left:
            ask = q.AskQueue(log_id=left.pop().log_id, reads_on=True)
            office.ask(ask, q.QueueCounts, on_counted)
        else:
            stream.log.catch_up(on_read)

    def on_counted(outcome: q.QueueCounts | RequestRefused) -> None:
        if isinstance(outcome, RequestRefused):
            then(False)
            return
        floors.append(_done_with(outcome))
        next_one()

    def on_read(is_read: bool) -> None:
        view = stream.log.view
        if floors:
            view.start_at(min(floors) + 1)
        elif stream.config.retention == "interest":
            view.start_at(view.last_sequence + 1)
        then(is_read)

    next_one()
