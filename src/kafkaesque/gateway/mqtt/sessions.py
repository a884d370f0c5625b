"""Sessions that outlive their connections: each is a queue, bound to `amq.topic` for each filter.

Theory of operation. The queue `mqtt.session.CLIENT` holds what waits for a client. An option of it
says whose it is, for how long it is kept, and which connection has it; each connection writes that
anew. The queue is for one consumer at a time: who connects with a client id that is in use lets the
old consumer be detached, and attaches. What the old one says of messages after that fits to
nothing, and when it asks for more it is refused: it knows then that its session was taken over. Who
begins anew tells the old one before the queue goes. So a session is in the cluster, any broker
serves it, and of two connections of one client one survives.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST, NAME_BYTES_MAX
from kafkaesque.broker.options.mqtt_sessions import SessionRecord, read_session
from kafkaesque.broker.options.queues import MQTT_SESSION
from kafkaesque.broker.requests.queue_commands import ChangeQueue, CreateQueue
from kafkaesque.broker.requests.queue_requests import ConsumerName
from kafkaesque.gateway.mqtt.desk import Desk
from kafkaesque.gateway.mqtt.feed import Feed, FeedOwner, detach_consumer
from kafkaesque.model.errors import QueueExists, QueueInUse, RequestRefused, UnknownQueue
from kafkaesque.protocols.mqtt.errors import MqttError
from kafkaesque.protocols.mqtt.reasons import ReasonCode

PREFIX: Final = "mqtt.session."
#: The longest that a session is kept without a connection: a week.
EXPIRY_S_MAX: Final = 7 * 24 * 60 * 60
#: Messages that wait for one client, and their bytes: the oldest are dropped.
WAITING_MAX: Final = 1_000_000
WAITING_BYTES_MAX: Final = 1024 * 1024 * 1024
#: So long a connection may take to get the session, and so often it tries.
TAKE_OVER_MS_MAX: Final = 20_000
TAKE_OVER_AGAIN_MS: Final = 200
#: So long another broker may take to tell its client that its session is over.
TOLD_MS_MAX: Final = 1_000
#: Notes come before all messages.
NOTE_PRIORITY: Final = 1
#: So long a message of QoS 2 is known that was published twice because a broker died.
DEDUPLICATION_MS: Final = 10 * 60 * 1_000
_SECRET_BYTES: Final = 16


def session_of(queue: QueueState) -> SessionRecord | None:
    """Return what a queue says of the session that it is; None: it is none."""
    return read_session(queue.options)


def queue_name_of(client_id: str) -> str:
    """Return what the queue of a client's session is called.

    Raises:
        MqttError: the client id is too long for that.
    """
    name = PREFIX + client_id
    if len(name.encode()) > NAME_BYTES_MAX:
        what = (
            f"a client id with a session to keep has at most {NAME_BYTES_MAX - len(PREFIX)} bytes"
        )
        raise MqttError(ReasonCode.CLIENT_ID_NOT_VALID, what)
    return name


def _write(record: SessionRecord) -> str:
    return msgspec.json.encode(record).decode()


def _consumer_of(owner: str) -> ConsumerName | None:
    try:
        node, incarnation, number = map(int, owner.split("."))
    except ValueError:
        return None
    # What fits into a request.
    is_name = all(0 <= each < 2**63 for each in (node, incarnation, number))
    return ConsumerName(node, incarnation, number) if is_name else None


class Session:
    """A session that a connection has."""

    __slots__ = ("_desk", "feed", "is_resumed", "record")

    def __init__(self, desk: Desk, feed: Feed, record: SessionRecord, *, is_resumed: bool) -> None:
        self._desk = desk
        self.feed: Final = feed
        self.record = record
        self.is_resumed: Final = is_resumed

    @property
    def queue(self) -> QueueState:
        """The queue that it is."""
        return self.feed.queue

    def change(self, record: SessionRecord, then: Callable[[], None] = lambda: None) -> None:
        """Keep something else of it."""
        self.record = record
        _change(self._desk, self.queue, record, lambda _: then())

    def end(self, *, is_kept: bool) -> None:
        """The connection is gone."""
        if is_kept:
            self.feed.end()
        else:
            self.feed.end(then=lambda: self._desk.delete_queue(self.queue))


#: A session; None: there is none to keep; or why the client cannot have it.
OnOpened = Callable[[Session | MqttError | None], None]


def open_session(
    desk: Desk, owner: FeedOwner, wanted: SessionRecord, *, clean_start: bool, on_done: OnOpened
) -> None:
    """Find, make or end a client's session, as its CONNECT says.

    Raises:
        MqttError: the client id cannot have a session.
    """
    name = queue_name_of(wanted.client_id)
    opening = _Opening(desk, owner, wanted, name, on_done)
    # One that is not heard of may be new.
    desk.when_current(lambda: opening.start(clean_start=clean_start))


class _Opening:
    """One CONNECT's way to a session."""

    __slots__ = ("_deadline_ms", "_desk", "_name", "_on_done", "_owner", "_wanted")

    def __init__(
        self, desk: Desk, owner: FeedOwner, wanted: SessionRecord, name: str, on_done: OnOpened
    ) -> None:
        self._desk = desk
        self._owner = owner
        self._wanted = wanted
        self._name = name
        self._on_done = on_done
        self._deadline_ms = desk.doors.clock.now_ms() + TAKE_OVER_MS_MAX

    def start(self, *, clean_start: bool) -> None:
        queue = self._desk.look(self._name)
        before = None if queue is None else session_of(queue)
        if queue is not None and before is None:
            what = f"the queue {self._name} is in the way: it is no session"
            self._on_done(MqttError(ReasonCode.CLIENT_ID_NOT_VALID, what))
        elif before is not None and before.user != self._wanted.user:
            what = "another user has a session of this client id"
            self._on_done(MqttError(ReasonCode.NOT_AUTHORIZED, what))
        elif queue is not None and before is not None and not clean_start:
            self._resume(queue, before)
        elif queue is not None and before is not None:
            self._end(queue, before)
        else:
            self._begin()

    def _end(self, queue: QueueState, before: SessionRecord) -> None:
        """Begin anew: whoever is connected loses the session that there is, and hears why."""

        def on_told() -> None:
            self._detach(queue, before)
            self._desk.delete_queue(queue, self._begin)

        consumer = _consumer_of(before.owner)
        if consumer is None:
            on_told()
        else:
            self._desk.doors.queues.take_over(consumer, TOLD_MS_MAX, on_told)

    def _begin(self) -> None:
        """There is no session: make one, if one is to be kept."""
        if not self._wanted.expiry_s:
            self._on_done(None)
            return
        consumer = self._desk.doors.queues.new_consumer()
        secret = self._desk.doors.dice.unique_bytes(_SECRET_BYTES).hex()
        record = msgspec.structs.replace(
            self._wanted, owner=".".join(map(str, consumer)), secret=secret
        )
        command = CreateQueue(vhost=DEFAULT_VHOST, name=self._name, options=_options(record))

        def on_made(refusal: RequestRefused | None) -> None:
            if isinstance(refusal, QueueExists):
                # Somebody of the same id has connected at the same time.
                self._desk.when_current(lambda: self.start(clean_start=False))
            elif refusal is not None:
                self._refuse(refusal)
            else:
                self._desk.when(
                    lambda: self._desk.look(self._name) is not None,
                    lambda: self._attach(record, consumer, None, is_resumed=False),
                )

        self._desk.submit(command, on_made)

    def _resume(self, queue: QueueState, before: SessionRecord) -> None:
        consumer = self._desk.doors.queues.new_consumer()
        record = msgspec.structs.replace(
            self._wanted,
            owner=".".join(map(str, consumer)),
            shared=before.shared,
            secret=before.secret,
        )

        def on_changed(refusal: RequestRefused | None) -> None:
            if isinstance(refusal, UnknownQueue):
                # It has expired just now.
                self._desk.when_current(self._begin)
            elif refusal is not None:
                self._refuse(refusal)
            else:
                self._attach(record, consumer, before, is_resumed=True)

        _change(self._desk, queue, record, on_changed)

    def _attach(
        self,
        record: SessionRecord,
        consumer: ConsumerName,
        before: SessionRecord | None,
        *,
        is_resumed: bool,
    ) -> None:
        queue = self._desk.look(self._name)
        if queue is None:
            self._refuse(UnknownQueue(f"the queue {self._name} is gone"))
            return
        feed = Feed(self._desk, queue, self._owner, consumer)
        again = partial(self._attach, record, consumer, before, is_resumed=is_resumed)

        def on_attached(refusal: RequestRefused | None) -> None:
            if isinstance(refusal, QueueInUse) and self._may_try_again:
                self._desk.doors.clock.call_later(TAKE_OVER_AGAIN_MS, again)
            elif refusal is not None:
                self._refuse(refusal)
            else:
                feed.hear_of_take_over()
                self._on_done(Session(self._desk, feed, record, is_resumed=is_resumed))

        if before is not None:
            self._detach(queue, before)
        feed.attach(on_attached)

    @property
    def _may_try_again(self) -> bool:
        return self._desk.doors.clock.now_ms() < self._deadline_ms

    def _detach(self, queue: QueueState, before: SessionRecord) -> None:
        """Let the consumer be gone that had the session before."""
        consumer = _consumer_of(before.owner)
        if consumer is not None:
            detach_consumer(self._desk, queue, consumer)

    def _refuse(self, refusal: RequestRefused) -> None:
        what = f"the session cannot be reached: {refusal}"
        self._on_done(MqttError(ReasonCode.SERVER_UNAVAILABLE, what))


def _options(record: SessionRecord) -> dict[str, str]:
    return {
        MQTT_SESSION: _write(record),
        "sharing": "exclusive",
        "max.priority": str(NOTE_PRIORITY),
        "deduplication.ms": str(DEDUPLICATION_MS),
        "max.length": str(WAITING_MAX),
        "max.length.bytes": str(WAITING_BYTES_MAX),
        "undeliverable": "drop",
    }


def _change(
    desk: Desk,
    queue: QueueState,
    record: SessionRecord,
    on_done: Callable[[RequestRefused | None], None],
) -> None:
    name = queue.queue
    changes: dict[str, str | None] = {MQTT_SESSION: _write(record)}
    desk.submit(ChangeQueue(vhost=name.vhost, name=name.name, changes=changes), on_done)
