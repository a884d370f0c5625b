"""Finds and makes the queues that destinations stand for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from urllib.parse import quote

from kafkaesque.access.operations import Operation
from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.broker.metadata.queue_names import STOMP_DURABLE_PREFIX, QueueName
from kafkaesque.broker.requests.queue_commands import CreateQueue
from kafkaesque.chassis.amqp.arguments import declaration_of, read_declaration
from kafkaesque.gateway.queueing.own_queues import (
    generated_name,
    make_own_queue,
    make_reply_queue,
)
from kafkaesque.gateway.queueing.sweeping import is_orphan
from kafkaesque.gateway.stomp.destinations import Destination, Kind
from kafkaesque.gateway.stomp.ports import StompLink, to_queue
from kafkaesque.model.errors import RequestRefused
from kafkaesque.protocols.amqp.methods import QueueDeclare
from kafkaesque.protocols.stomp.errors import StompError
from kafkaesque.protocols.stomp.frames import Headers

#: What a subscription's own queue may hold; the oldest messages go when there is more.
OWN_QUEUE_BYTES_MAX: Final = 256 * 1024 * 1024
#: Temporary queues of one connection.
TEMPORARY_MAX: Final = 100
_ARGUMENT: Final = "x-"
_NUMBER_DIGITS_MAX: Final = 16

Then = Callable[[QueueState], None]


class Queues:
    """One connection's."""

    __slots__ = ("_link", "_temporary")

    def __init__(self, link: StompLink) -> None:
        self._link: Final = link
        #: By the name that the client has for them.
        self._temporary: Final[dict[str, QueueState]] = {}

    def find(
        self, destination: Destination, headers: Headers, then: Then, *, is_read: bool = False
    ) -> None:
        """Go on with the queue of a destination, now or later; it is made where it may be.

        Raises:
            StompError: the client may not make it, or wants to read another connection's.
        """
        link = self._link
        if destination.kind is Kind.TEMPORARY:
            self._find_temporary(destination.name, then)
            return
        name = QueueName(link.vhost, destination.name)
        found = link.desk.look(name)
        if found is not None and not is_orphan(link.desk.doors.cluster, found):
            if is_read:
                self._check_owner(found)
            then(found)
            return

        def on_found(queue: QueueState | None) -> None:
            if queue is not None and is_orphan(link.desk.doors.cluster, queue):
                # The connection that it belonged to is gone with its broker.
                link.begin()
                link.desk.delete_queue(queue, lambda: link.go_on_with(lambda: on_found(None)))
            elif queue is not None:
                if is_read:
                    self._check_owner(queue)
                then(queue)
            elif destination.kind is Kind.KNOWN_QUEUE:
                raise StompError(f"there is no queue '{name.name}' in vhost '{name.vhost}'")
            else:
                self._declare(name.name, headers, then)

        link.begin()
        link.desk.find(name, lambda queue: link.go_on_with(lambda: on_found(queue)))

    def exists(self, destination: Destination) -> bool:
        """Tell whether a destination's queue is there, as far as this broker has heard."""
        link = self._link
        found = link.desk.look(QueueName(link.vhost, destination.name))
        return found is not None and not is_orphan(link.desk.doors.cluster, found)

    def _check_owner(self, queue: QueueState) -> None:
        said = declaration_of(queue)
        if said is not None and said.owner not in ("", self._link.owner):
            raise StompError(f"the queue '{queue.queue.name}' belongs to another connection")

    def _declare(self, name: str, headers: Headers, then: Then) -> None:
        """Make a queue as a frame's headers say it."""
        link = self._link
        link.check(to_queue(Operation.CREATE, name))
        flags = {each: value.lower() == "true" for each, value in reversed(headers)}
        method = QueueDeclare(
            queue=name,
            durable=flags.get("durable", True),
            auto_delete=flags.get("auto-delete", False),
            exclusive=flags.get("exclusive", False),
            arguments={
                each: _read_argument(value)
                for each, value in reversed(headers)
                if each.startswith(_ARGUMENT)
            },
        )
        look = link.desk.look
        said, options = read_declaration(
            method, link.owner, lambda other: look(QueueName(link.vhost, other)) is not None
        )
        if said.is_exclusive:
            link.exclusive.add(QueueName(link.vhost, name))
        self._create(name, options, then)

    def _create(self, name: str, options: dict[str, str], then: Then) -> None:
        link = self._link
        command = CreateQueue(vhost=link.vhost, name=name, options=options)
        signed = command if link.rights is None else link.rights.sign(command)
        link.begin()
        link.desk.make_queue(signed, lambda outcome: self._go_on(outcome, then))

    def _go_on(self, outcome: QueueState | RequestRefused, then: Then) -> None:
        def act() -> None:
            if isinstance(outcome, RequestRefused):
                raise outcome
            then(outcome)

        self._link.go_on_with(act)

    # -- queues of the connection's

    def _find_temporary(self, name: str, then: Then) -> None:
        found = self._temporary.pop(name, None)
        if found is not None and self._link.desk.look(found.queue) is not None:
            self._temporary[name] = found
            then(found)
            return
        if len(self._temporary) >= TEMPORARY_MAX:
            raise StompError(f"a connection has at most {TEMPORARY_MAX} temporary queues")

        def keep(queue: QueueState) -> None:
            self._temporary[name] = queue
            self._keep_own(queue)
            then(queue)

        self._link.begin()
        make_reply_queue(self._link, lambda outcome: self._go_on(outcome, keep))

    def make_own(self, then: Callable[[QueueState | RequestRefused], None]) -> None:
        """Make a queue of a subscription's; `then` gets refusals, too. Nobody waits for it."""
        link = self._link
        options = {"max.length.bytes": str(OWN_QUEUE_BYTES_MAX)}

        def keep(outcome: QueueState | RequestRefused) -> None:
            if isinstance(outcome, QueueState):
                self._keep_own(outcome)
            then(outcome)

        make_own_queue(link, generated_name(link.desk.doors.dice), options, keep)

    def _keep_own(self, queue: QueueState) -> None:
        if self._link.connection is None:
            # It has gone while the queue was made.
            self._link.desk.delete_queue(queue)
        else:
            self._link.exclusive.add(queue.queue)

    def find_durable(self, name: str, headers: Headers, then: Then) -> None:
        """Go on with the queue of a durable subscription, which outlives the connection."""
        link = self._link
        link.check(to_queue(Operation.READ, name))
        kept = tuple(each for each in headers if each[0].startswith(_ARGUMENT))
        self.find(Destination(Kind.QUEUE, name), kept, then, is_read=True)


def durable_name(client_id: str, subscription: str) -> str:
    """Return the name of a durable subscription's queue; parts of it can be told apart."""
    parts = (client_id, subscription) if client_id else (subscription,)
    return STOMP_DURABLE_PREFIX + ".".join(
        quote(each, safe=" @:,;+=!").replace(".", "%2E") for each in parts
    )


def _read_argument(text: str) -> object:
    """Return what an argument of a declaration says: texts are all that STOMP has."""
    if text.isascii() and text.isdigit() and len(text) <= _NUMBER_DIGITS_MAX:
        return int(text)
    return {"true": True, "false": False}.get(text, text)
