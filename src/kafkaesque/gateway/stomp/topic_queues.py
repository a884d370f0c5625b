"""Queues of subscriptions to topics, each bound to its topic.

Theory of operation. Such a queue takes two commits of the controllers, one after the other. A
client that subscribes to a hundred topics sends its frames at once, so those that follow one
another have their queues made together, some ahead of their turn. Each is attached to in its turn,
and so are mistakes told. Only neighbours are looked at: what is between two subscriptions may be a
message that the second one is not to get.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from typing import Final

from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.broker.requests.exchange_commands import BindDestination
from kafkaesque.gateway.stomp.ports import StompLink
from kafkaesque.gateway.stomp.queues import Queues
from kafkaesque.model.errors import RequestRefused
from kafkaesque.protocols.stomp.events import Subscribed
from kafkaesque.routing.exchanges.records import Destination as BoundTo

#: Queues of one connection that are made at a time.
AHEAD_MAX: Final = 16

#: Makes the binding of a queue.
Bind = Callable[[BoundTo], BindDestination]
Outcome = QueueState | RequestRefused


class _Making:
    """A queue on its way."""

    __slots__ = ("event", "outcome", "then")

    def __init__(self, event: Subscribed) -> None:
        self.event: Final = event
        self.outcome: Outcome | None = None
        self.then: Callable[[Outcome], None] | None = None

    def settle(self, outcome: Outcome) -> None:
        self.outcome = outcome
        if self.then is not None:
            self.then(outcome)


class TopicQueues:
    """Of one connection; see the module."""

    __slots__ = ("_link", "_making", "_queues")

    def __init__(self, link: StompLink, queues: Queues) -> None:
        self._link: Final = link
        self._queues: Final = queues
        #: Ahead of their turn, by the identity of the frame that each of them keeps.
        self._making: Final[dict[int, _Making]] = {}

    def make_ahead(
        self, events: Iterable[Subscribed], bind_of: Callable[[Subscribed], Bind | None]
    ) -> None:
        """Begin to make the queues of the next frames; None: a frame's is not made ahead."""
        for event in islice(events, AHEAD_MAX):
            if id(event) in self._making:
                continue
            bind = bind_of(event)
            if bind is None:
                return
            self._making[id(event)] = self._begin(event, bind)

    def get(self, event: Subscribed, bind: Bind, then: Callable[[QueueState], None]) -> None:
        """Go on with the queue of a frame whose turn it is, when it is there and bound."""
        making = self._making.pop(id(event), None) or self._begin(event, bind)

        def act(outcome: Outcome) -> None:
            if isinstance(outcome, RequestRefused):
                raise outcome
            then(outcome)

        self._link.begin()
        making.then = lambda outcome: self._link.go_on_with(partial(act, outcome))
        if making.outcome is not None:
            making.then(making.outcome)

    def _begin(self, event: Subscribed, bind: Bind) -> _Making:
        making = _Making(event)

        def on_made(outcome: Outcome) -> None:
            if isinstance(outcome, RequestRefused) or self._link.connection is None:
                making.settle(outcome)
                return
            command = bind(BoundTo(outcome.queue.name))
            self._link.desk.change_routing(
                command, lambda refusal: making.settle(outcome if refusal is None else refusal)
            )

        self._queues.make_own(on_made)
        return making
