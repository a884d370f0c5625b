"""Where a published message goes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from kafkaesque.broker.doors import Doors
from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST, OWN_VHOST_MARK, QueueName
from kafkaesque.protocols.amqp.wire import Table

#: The exchange that has every queue under its own name.
DEFAULT_EXCHANGE: Final = ""


class Routed(NamedTuple):
    """The queues of a message, each once."""

    queues: Sequence[QueueState]
    #: Whether there is no such exchange.
    is_missing: bool = False
    #: Queues that are to have it later, and when: Unix time in milliseconds.
    delayed: Sequence[QueueState] = ()
    not_before_ms: int = 0


_NOWHERE: Final = Routed(())


class Router:
    """Finds the queues of messages, as far as this broker has heard of them."""

    __slots__ = ("_cluster",)

    def __init__(self, doors: Doors) -> None:
        self._cluster = doors.cluster

    def has_vhost(self, vhost: str) -> bool:
        """Tell whether there is a virtual host of a name."""
        if vhost == DEFAULT_VHOST:
            return True
        own = vhost.startswith(OWN_VHOST_MARK)
        return not own and any(name.vhost == vhost for name in self._cluster.state.queues)

    def route(
        self, vhost: str, exchange: str, keys: Sequence[str], headers: Table | None
    ) -> Routed:
        """Return the queues of a message."""
        if exchange != DEFAULT_EXCHANGE:
            return Routed((), is_missing=True)
        queues = self._cluster.state.queues
        found = [queues.get(QueueName(vhost, key)) for key in dict.fromkeys(keys)]
        # A queue over a topic takes its messages from there.
        taken = [each for each in found if each is not None and each.source is None]
        return Routed(taken) if taken else _NOWHERE
