"""How far exchanges of QoS 2 are, kept in the session's own queue, so that it survives any broker.

Theory of operation. A session that is kept writes notes into its queue, which come back to whoever
has the session before all messages (they have a higher priority), and are settled when they are
history. Four kinds:

- *staged*: a message that the client has published with QoS 2. It is committed before PUBREC is
  sent, and published at PUBREL, under an identity that is made of its place in the queue. A repeat
  of the same packet id is known, wherever it comes. If a broker dies between the publishing and the
  end of the note, the next PUBREL publishes it again; queues of MQTT know it by its identity.
- *released*: the client has said PUBREC to a message. From then on it may not be sent again, and
  PUBREL may be owed (4.3.3-6). It is committed before PUBREL is sent.
- *sent*: how messages under way were sent, before a subscription changes (`sent_as.py`).
- *owed*: from where on retained messages are to be put into the queue yet (`retained_keeping.py`).

A retained message that waits for the client is no note, and says in the same header how it is to be
sent: its subscription need not be there any more.

Nothing that the client has sent is carried out before the notes are read. A note is told from a
message of a stranger by the session's secret.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Final, NamedTuple

import msgspec

from kafkaesque.broker.doors.queues import NewMessage
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.gateway.mqtt.feed import TIMEOUT_MS, WAIT_MS, Feed, Taken
from kafkaesque.gateway.mqtt.ports import MqttLink
from kafkaesque.gateway.mqtt.sent_as import Sent, SentAs
from kafkaesque.gateway.mqtt.sessions import NOTE_PRIORITY, Session
from kafkaesque.gateway.mqtt.subscriptions import Match
from kafkaesque.model.errors import OverBound, RequestRefused
from kafkaesque.model.message_headers import IDENTITY_BYTES, NOTE_MQTT
from kafkaesque.routing.names import NameKey

PUT_TIMEOUT_MS: Final = 30_000
_STAGED: Final = "staged"
_RELEASED: Final = "released"
_SENT: Final = "sent"
_OWED: Final = "owed"
_RETAINED: Final = "retained"
#: How many numbers a note has at least.
_NUMBERS_MIN: Final = {_STAGED: 1, _RELEASED: 2, _SENT: 0, _OWED: 0, _RETAINED: 1}

OnDone = Callable[[RequestRefused | None], None]
#: Returns messages that are under way.
FindSent = Callable[[], Sequence[Sent]]


class Staged(NamedTuple):
    """A message that the client may still release."""

    taken: Taken
    record: q.QueueMessage

    @property
    def identity(self) -> bytes:
        """By which queues know it if it is published twice."""
        place = b"%b %d" % (self.taken.feed.queue.topic_id, self.taken.offset)
        return sha256(place).digest()[:IDENTITY_BYTES]


class Owed(NamedTuple):
    """How far copies of what is retained for a filter are."""

    topic_filter: str
    #: The last name that was looked at; None: all is to be done yet.
    after: NameKey | None = None
    is_done: bool = False
    #: Where the first note is; -1: this is the first one.
    first: int = -1


class _Place(msgspec.Struct, frozen=True, array_like=True):
    """What stands in a note about that."""

    topic_filter: str
    after: str | None
    is_done: bool


class _Release:
    """A message that the client has, and for which PUBCOMP is awaited."""

    __slots__ = ("is_clear", "is_complete", "note", "offset")

    def __init__(self, offset: int) -> None:
        self.offset: Final = offset
        #: The note, once it has come back.
        self.note: Taken | None = None
        #: Whether the message is known to be gone from the queue.
        self.is_clear = False
        #: Whether the client has said PUBCOMP.
        self.is_complete = False


class Journal:
    """Of one connection; it does nothing for sessions that are not kept."""

    __slots__ = (
        "_is_noting",
        "_link",
        "_on_owed",
        "_on_recovered",
        "_on_released",
        "_releases",
        "_seen",
        "_sent",
        "_staged",
        "_staged_waiters",
        "_to_note",
        "_unseen",
        "is_recovered",
    )

    def __init__(
        self,
        link: MqttLink,
        on_recovered: Callable[[list[int]], None],
        on_released: Callable[[int], None],
        on_owed: Callable[[Taken, Owed], None],
    ) -> None:
        """Take what to do: with packet ids of staged messages, and where something is owed.

        That is PUBREL, or copies of retained messages; who is told of these settles the note.
        """
        self._link: Final = link
        self._on_owed: Final = on_owed
        self._on_recovered: Final = on_recovered
        self._on_released: Final = on_released
        self.is_recovered = True
        #: By packet id.
        self._staged: Final[dict[int, Staged]] = {}
        self._staged_waiters: Final[dict[int, Callable[[Staged], None]]] = {}
        self._releases: Final[dict[int, _Release]] = {}
        self._sent: Final = SentAs(self._find)
        #: What is to be noted behind the note that is on its way: one packet's filters at most.
        self._to_note: list[tuple[FindSent, OnDone]] = []
        self._is_noting = False
        #: Offsets of notes that are committed and have not come back; and of those that came back
        #: before it was known that they are committed.
        self._unseen: Final[set[int]] = set()
        self._seen: Final[set[int]] = set()

    def begin(self, session: Session) -> None:
        """A connection has a session: read its notes, if there may be any."""
        self.is_recovered = not session.is_resumed
        if session.is_resumed:
            session.feed.wait_ms = 0

    @property
    def expected(self) -> int:
        """How many notes are about to come back."""
        return len(self._unseen)

    @property
    def is_quiet(self) -> bool:
        """Whether it has nothing to say of messages of the queue but where they are notes."""
        return self.is_recovered and not self._releases and self._sent.is_empty

    # -- from the queue

    def take(self, feed: Feed, records: Sequence[q.QueueMessage]) -> list[q.QueueMessage]:
        """Take out the notes, and what they say is done with; return what is to be sent."""
        others = [each for each in records if not self._take_note(feed, each)]
        by_offset = {each.offset: each for each in self._releases.values()}
        found: list[q.QueueMessage] = []
        for each in others:
            release = by_offset.get(each.offset)
            if release is None:
                found.append(each)
                continue
            feed.settle(Taken(feed, each.offset, each.attempt))
            self._sent.forget(each.offset)
            release.is_clear = True
        if not self.is_recovered and (others or len(records) < feed.asked):
            self.is_recovered = True
            feed.wait_ms = WAIT_MS
            self._on_recovered(list(self._staged))
        for packet_id in list(self._releases):
            self._maybe_forget(packet_id)
        return found

    def _take_note(self, feed: Feed, record: q.QueueMessage) -> bool:
        said = self._read(record)
        if said is None or said[0] == _RETAINED:
            return False
        kind, numbers = said
        taken = Taken(feed, record.offset, record.attempt)
        if record.offset in self._unseen:
            self._unseen.remove(record.offset)
        elif self.is_recovered:
            self._seen.add(record.offset)
        if kind == _STAGED:
            self._take_staged(numbers[0], Staged(taken, record))
        elif kind == _SENT:
            self._sent.take(numbers, taken)
        elif kind == _OWED:
            place = msgspec.json.decode(record.value or b"", type=_Place)
            after = None if place.after is None else NameKey(place.after)
            first = numbers[0] if numbers else record.offset
            self._on_owed(taken, Owed(place.topic_filter, after, place.is_done, first))
        else:
            self._take_released(numbers[0], numbers[1], taken)
        return True

    def _read(self, record: q.QueueMessage) -> tuple[str, list[int]] | None:
        session = self._link.session
        raw = next((value for name, value in record.headers if name == NOTE_MQTT), None)
        if raw is None or session is None:
            return None
        secret, _, rest = raw.decode("ascii", "replace").partition(" ")
        kind, *numbers = rest.split(" ")
        # Nobody else knows the secret: what follows is as it was written.
        if secret != session.record.secret or len(numbers) < _NUMBERS_MIN.get(
            kind, len(numbers) + 1
        ):
            return None
        return kind, [int(each) for each in numbers]

    def _put(self, kind: str, numbers: Sequence[int], message: NewMessage, on_done: OnDone) -> None:
        session = self._link.session
        if session is None:
            on_done(None)
            return
        feed = session.feed

        def on_put(outcome: q.PutResult | RequestRefused) -> None:
            if isinstance(outcome, RequestRefused):
                on_done(outcome)
                return
            (offset,) = outcome.offsets
            if offset < 0:
                on_done(OverBound("the session has too many messages"))
                return
            self._expect(offset)
            on_done(None)
            feed.go_on()

        ask = self._link.desk.doors.queues.put
        note = _note(session, kind, numbers, message)
        ask(session.queue.topic_id, [note], PUT_TIMEOUT_MS, on_put)

    def _expect(self, offset: int) -> None:
        """A note is committed: it comes back, or has done so."""
        if offset in self._seen:
            self._seen.remove(offset)
        else:
            self._unseen.add(offset)

    # -- what the client publishes

    def stage(self, packet_id: int, message: NewMessage, on_done: OnDone) -> None:
        """Keep a message until the client releases it; `on_done` is told at the commit."""
        self._put(_STAGED, (packet_id,), message, on_done)

    def _take_staged(self, packet_id: int, staged: Staged) -> None:
        waiter = self._staged_waiters.pop(packet_id, None)
        if waiter is not None:
            waiter(staged)
        else:
            self._staged[packet_id] = staged

    def when_staged(self, packet_id: int, then: Callable[[Staged], None]) -> None:
        """Call with a message that is staged, now, or when its note has come back."""
        staged = self._staged.pop(packet_id, None)
        if staged is not None:
            then(staged)
        else:
            self._staged_waiters[packet_id] = then

    # -- what the client is sent

    def release(self, packet_id: int, taken: Taken, then: OnDone) -> None:
        """The client has a message: note that, and settle it; `then` PUBREL may be sent."""
        release = self._releases[packet_id] = _Release(taken.offset)

        def on_settled() -> None:
            self._sent.forget(taken.offset)
            release.is_clear = True
            self._maybe_forget(packet_id)

        def on_noted(refusal: RequestRefused | None) -> None:
            if refusal is not None:
                self._releases.pop(packet_id, None)
            taken.feed.settle(taken, on_settled)
            then(refusal)

        self._put(_RELEASED, (packet_id, taken.offset), NewMessage(b""), on_noted)

    def _take_released(self, packet_id: int, offset: int, note: Taken) -> None:
        release = self._releases.get(packet_id)
        if release is None or release.offset != offset:
            release = self._releases[packet_id] = _Release(offset)
            self._on_released(packet_id)
            self._find(note, offset, lambda: self._clear(packet_id, release))
        release.note = note
        self._maybe_forget(packet_id)

    def _clear(self, packet_id: int, release: _Release) -> None:
        release.is_clear = True
        self._maybe_forget(packet_id)

    def _find(self, note: Taken, offset: int, on_gone: Callable[[], None]) -> None:
        """Find out whether a message is still in the queue: its end may not have been heard."""
        peek = q.PeekMessages(
            log_id=note.feed.queue.topic_id, start=offset, messages_max=1, bytes_max=1
        )

        def on_peeked(outcome: q.PeekedMessages | RequestRefused) -> None:
            if isinstance(outcome, RequestRefused):
                # The note stays: whoever has the session next asks again.
                return
            offsets = [each.message.offset for each in outcome.messages]
            if offset not in offsets:
                on_gone()

        self._link.desk.doors.queues.ask(peek, q.PeekedMessages, TIMEOUT_MS, on_peeked)

    def complete(self, packet_id: int) -> None:
        """The client has said PUBCOMP."""
        release = self._releases.get(packet_id)
        if release is not None:
            release.is_complete = True
            self._maybe_forget(packet_id)

    def _maybe_forget(self, packet_id: int) -> None:
        release = self._releases.get(packet_id)
        if release is None or release.note is None:
            return
        if release.is_complete and release.is_clear:
            del self._releases[packet_id]
            release.note.feed.settle(release.note)

    # -- what is retained

    def put_copies(
        self,
        copies: Sequence[NewMessage],
        owed: Sequence[Owed],
        on_done: Callable[[list[int] | RequestRefused], None],
    ) -> None:
        """Put retained messages into the queue, and what is owed then: all of it, or nothing.

        `on_done` is told at the commit where each is, the notes last; -1: the queue is full.
        """
        session = self._link.session
        if session is None:
            on_done([-1] * (len(copies) + len(owed)))
            return
        feed = session.feed
        notes = [
            _note(session, _OWED, () if each.first < 0 else (each.first,), _place_of(each))
            for each in owed
        ]

        def on_put(outcome: q.PutResult | RequestRefused) -> None:
            if isinstance(outcome, RequestRefused):
                on_done(outcome)
                return
            for offset in outcome.offsets[len(copies) :]:
                if offset >= 0:
                    self._expect(offset)
            on_done(outcome.offsets)
            feed.go_on()

        put = self._link.desk.doors.queues.put
        put(session.queue.topic_id, [*copies, *notes], PUT_TIMEOUT_MS, on_put)

    # -- how it is sent

    def match(self, record: q.QueueMessage) -> Match | None:
        """Return how a message is to be sent, whatever is subscribed to; None: nothing says so."""
        match = self._sent.match(record.offset)
        if match is None and (said := self._read(record)) is not None:
            _, (qos, *identifiers) = said
            return Match(qos, True, tuple(identifiers))
        return match

    def keep_as_sent(self, find: FindSent, on_done: OnDone) -> None:
        """Have messages under way be sent again as they were sent; `on_done` at the commit.

        What comes behind a note that is on its way waits for it: it may be about the same messages.
        """
        self._to_note.append((find, on_done))
        if not self._is_noting:
            self._note_sent()

    def _note_sent(self) -> None:
        due, self._to_note = self._to_note, []
        sent = {each.taken.offset: each for find, _ in due for each in find()}
        numbers = self._sent.add(list(sent.values()))
        self._is_noting = True

        def on_noted(refusal: RequestRefused | None) -> None:
            if refusal is not None:
                self._sent.remove(numbers)
            self._is_noting = False
            for _, on_done in due:
                on_done(refusal)
            if self._to_note and not self._is_noting:
                self._note_sent()

        if numbers:
            self._put(_SENT, numbers, NewMessage(b""), on_noted)
        else:
            on_noted(None)

    def forget(self, offset: int) -> None:
        """The client is done with a message."""
        self._sent.forget(offset)


def has_notes(records: Sequence[q.QueueMessage]) -> bool:
    """Tell whether some of a queue's messages may be notes, or say how they are to be sent."""
    # Nearly all messages of a session are none, and this looks at each of them.
    for each in records:
        for name, _ in each.headers:
            if name == NOTE_MQTT:
                return True
    return False


def as_retained(session: Session, message: NewMessage, match: Match) -> NewMessage:
    """Return a retained message as it waits in a session's queue."""
    said = _said(session, _RETAINED, (match.qos, *match.identifiers))
    return message._replace(headers=(*message.headers, said))


def _note(session: Session, kind: str, numbers: Sequence[int], message: NewMessage) -> NewMessage:
    return message._replace(
        headers=(*message.headers, _said(session, kind, numbers)),
        priority=NOTE_PRIORITY,
        # Expiry does not end an exchange that has begun (4.3.3-7).
        not_after_ms=0,
    )


def _place_of(owed: Owed) -> NewMessage:
    place = _Place(owed.topic_filter, owed.after, owed.is_done)
    return NewMessage(msgspec.json.encode(place))


def _said(session: Session, kind: str, numbers: Sequence[int]) -> tuple[str, bytes]:
    return NOTE_MQTT, " ".join([session.record.secret, kind, *map(str, numbers)]).encode()
