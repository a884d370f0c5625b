"""What is sent to one client, and what it says of it.

Theory of operation. Messages come from the queue of the session, from queues that are shared, and
live. Those of QoS 0 are written at once, and dropped if the client does not read. Of the others as
many are under way as the client takes; the rest waits here, within bounds, or in its queue.

A message of the session's queue has the same packet id whoever sends it: it is made of the offset.
So after any broker's death the client sees the id that it knows (4.4.0-1). Ids of other messages
are drawn from the other half. A message whose id is still in use waits for it (2.2.1-4). What has
to outlive a connection comes from the queue, retained messages of QoS 1 and 2, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from kafkaesque.broker.doors.live import LiveMessage
from kafkaesque.broker.metadata.client_quotas import CONSUMER_BYTE_RATE
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.gateway.mqtt.authorization import may_receive
from kafkaesque.gateway.mqtt.feed import Feed, Taken
from kafkaesque.gateway.mqtt.journal import Journal, OnDone, has_notes
from kafkaesque.gateway.mqtt.ports import MqttLink
from kafkaesque.gateway.mqtt.retained_feed import RetainedFeed
from kafkaesque.gateway.mqtt.sending import Sending
from kafkaesque.gateway.mqtt.sent_as import Sent
from kafkaesque.gateway.mqtt.shares import QOS_MAX, Shares
from kafkaesque.gateway.mqtt.subscriptions import Match, Subscribed, match_of
from kafkaesque.model.errors import RequestRefused
from kafkaesque.protocols.mqtt.errors import protocol_error
from kafkaesque.protocols.mqtt.exchanges import Outcome, OutgoingExchanges
from kafkaesque.protocols.mqtt.packets import Puback, Pubcomp, Pubrec, Pubrel
from kafkaesque.protocols.mqtt.publish_path import flags_of
from kafkaesque.protocols.mqtt.reasons import ReasonCode
from kafkaesque.routing.names import NameKey, levels_of_key

#: Messages of QoS 1 and 2 that one client has at a time, whatever it says that it takes.
IN_FLIGHT_MAX: Final = 128
#: Live messages that wait for room, and their bytes.
BACKLOG_MAX: Final = 1_000
BACKLOG_BYTES_MAX: Final = 1024 * 1024
#: Packet ids of the session's messages; those above are of all others.
_SESSION_IDS: Final = 32_767
_ID_MAX: Final = 65_535
# To look a member up in its class takes as long as three calls.
_DONE: Final = Outcome.DONE


class _Item(msgspec.Struct, frozen=True, eq=False):
    """A message that is about to be sent."""

    message: LiveMessage
    qos: int
    is_retained: bool
    identifiers: tuple[int, ...]
    #: Whether the client may have been sent it before.
    is_repeated: bool
    #: None: it is live.
    taken: Taken | None
    #: 0: any that is free.
    packet_id: int


class Delivering:
    """See the module."""

    __slots__ = (
        "_backlog_bytes",
        "_changes",
        "_journal",
        "_live",
        "_next_id",
        "_retained",
        "_shares",
        "_taken",
        "_under_way",
        "_waiting",
        "link",
    )

    def __init__(self, link: MqttLink, shares: Shares, journal: Journal) -> None:
        self.link: Final = link
        self._journal: Final = journal
        self._shares: Final = shares
        self._under_way = OutgoingExchanges(IN_FLIGHT_MAX)
        #: By packet id: what is to be settled when the client has it.
        self._taken: Final[dict[int, Sent]] = {}
        #: Of queues; as many as there was credit for.
        self._waiting: Final[list[_Item]] = []
        #: The same of live messages.
        self._live: Final[list[_Item]] = []
        self._backlog_bytes = 0
        #: Subscriptions of the session that change: nothing of its queue is sent meanwhile.
        self._changes = 0
        #: Retained messages of new subscriptions, a page at a time.
        self._retained: Final = RetainedFeed(link, self._on_retained)
        self._next_id = _SESSION_IDS

    def begin(self) -> None:
        """The client is let in: it has said how much it takes."""
        self._under_way.in_flight_max = min(self.link.codec.receive_maximum, IN_FLIGHT_MAX)

    # -- from queues

    def credit(self, feed: Feed) -> int:
        """How many more messages of a queue the client may have."""
        if self.link.is_over or self.link.is_slow:
            return 0
        free = self._under_way.in_flight_max - len(self._under_way) - len(self._waiting)
        # Notes are read in any case: they are what makes room.
        session = self.link.session
        notes = self._journal.expected if session is not None and feed is session.feed else 0
        if free <= 0:
            return notes
        # A queue that is shared has others who wait.
        return max(1, free // max(1, len(self.feeds()))) + notes

    def on_taken(self, feed: Feed, messages: Sequence[q.QueueMessage]) -> None:
        """Send messages of a queue."""
        link = self.link
        subscribed = self._shares.subscribed(feed)
        if subscribed is not None:
            self._on_shared(feed, subscribed, messages)
            return
        session = link.session
        if session is None or feed is not session.feed:
            # A subscription that has just ended.
            feed.release([each.claim for each in messages])
            return
        journal = self._journal
        is_quiet = journal.is_quiet and not has_notes(messages)
        if not is_quiet:
            messages = journal.take(feed, messages)
        sending = Sending(link, self._under_way, self._taken)
        sending.look(has_to_wait=self._has_to_wait)
        read, wanting, own_id = link.desk.kept.read, link.subscriptions.wanting, link.client_id
        # One after the other mostly has the same name, and the same publisher.
        last: tuple[NameKey, bool] | None = None
        last_match: Match | None = None
        for each in messages:
            kept = read(each)
            match = None if is_quiet else journal.match(each)
            if match is None:
                key, is_own = kept.message.key, kept.client_id == own_id
                if last is None or key != last[0] or is_own is not last[1]:
                    last = key, is_own
                    last_match = match_of(wanting(key), is_own=is_own)
                match = last_match
            taken = Taken(feed, each.offset, each.attempt)
            if match is None:
                # It was for a subscription that is gone, and was not sent.
                feed.settle(taken)
                continue
            packet_id = each.offset % _SESSION_IDS + 1
            is_repeated = each.failures > 0
            if is_repeated or not sending.send(kept, match, taken, packet_id):
                self._send_or_wait(
                    _item(kept.message, match, taken, packet_id, is_repeated=is_repeated)
                )
                sending.look(has_to_wait=self._has_to_wait)
        sending.end()
        self.pump()

    def _send_or_wait(self, item: _Item) -> None:
        """Send a message of the session's queue, or have it wait behind those that do."""
        if self._has_to_wait or self.link.is_slow or not self._can_send(item):
            self._waiting.append(item)
        else:
            self._send(item)

    @property
    def _has_to_wait(self) -> bool:
        """Whether nothing more of the session's queue may be sent at present."""
        return bool(self._waiting or self._changes or self.link.is_over)

    def _on_shared(
        self, feed: Feed, subscribed: Subscribed, messages: Sequence[q.QueueMessage]
    ) -> None:
        """Send messages of a queue that this client shares with others."""
        for each in messages:
            taken = Taken(feed, each.offset, each.attempt)
            message = self.link.desk.kept.read(each).message
            match = match_of((subscribed,), is_own=False)
            if match is None or not subscribed.name_filter.matches(levels_of_key(message.key)):
                feed.settle(taken)
                continue
            match = match._replace(qos=min(match.qos, QOS_MAX))
            self._waiting.append(_item(message, match, taken, 0, is_repeated=each.failures > 0))
        self.pump()

    # -- live

    def on_live(self, message: LiveMessage, subscribed: Sequence[Subscribed]) -> None:
        """Send a message that is published now."""
        link = self.link
        is_own = message.origin is link.origin_of or message.origin == link.origin_of
        match = match_of(subscribed, is_own=is_own)
        if match is None or link.is_over:
            return
        item = _item(message, match, None, 0, is_repeated=False)
        if not item.qos:
            if link.is_slow:
                link.desk.note_drop()
            else:
                self._send(item)
            return
        if self._is_idle() and self._under_way.has_room and not link.is_slow:
            # It would be the only one that waits.
            self._send(item)
            return
        self._put_live(item)
        self.pump()

    def _is_idle(self) -> bool:
        """Tell whether nothing waits to be sent."""
        return not self._waiting and not self._live and self._retained.first is None

    def send_retained(self, subscribed: Subscribed) -> None:
        """Send what is retained for a subscription (3.3.1-9)."""
        self._retained.add(subscribed)

    def send_number(self, message: LiveMessage, subscribed: Subscribed) -> None:
        """Send a number of the broker's own."""
        match = match_of((subscribed,), is_own=False)
        if match is not None and not self.link.is_over:
            self._put_live(_Item(message, 0, True, match.identifiers, False, None, 0))
            self.pump()

    def _on_retained(self) -> None:
        if not self.link.is_over:
            self.pump()

    def _put_live(self, item: _Item) -> None:
        size = item.message.size
        is_full = len(self._live) >= BACKLOG_MAX or self._backlog_bytes + size > BACKLOG_BYTES_MAX
        if is_full and self._live:
            self.link.desk.note_drop()
            return
        self._live.append(item)
        self._backlog_bytes += size

    # -- sending

    def pump(self) -> None:
        """Send what the client may have."""
        while self._waiting and not (self._changes or self.link.is_over or self.link.is_slow):
            item = self._waiting[0]
            if item.taken is not None and item.taken.feed.is_over:
                # The client does not share this any more: others have it.
                self._waiting.pop(0)
                continue
            if not self._can_send(item):
                break
            self._send(self._waiting.pop(0))
        self._pump_retained()
        while self._live and not self.link.is_over and not self.link.is_slow:
            if not self._can_send(self._live[0]):
                break
            item = self._live.pop(0)
            self._backlog_bytes -= item.message.size
            self._send(item)

    def _pump_retained(self) -> None:
        retained = self._retained
        while not self.link.is_over and not self.link.is_slow:
            found = retained.first
            if found is None:
                return
            message, subscribed = found
            match = match_of((subscribed,), is_own=False)
            if match is not None:
                qos = min(match.qos, message.qos)
                item = _Item(message, qos, True, match.identifiers, False, None, 0)
                if not self._can_send(item):
                    return
                self._send(item)
            retained.take()

    def _can_send(self, item: _Item) -> bool:
        if not item.qos:
            return True
        return self._under_way.has_room and not self._under_way.has(item.packet_id)

    def _send(self, item: _Item) -> None:
        link, taken = self.link, item.taken
        encoded = link.desk.encoded.variant(
            item.message,
            link.codec.version,
            link.shared.clock.wall_ms(),
            is_of_queue=taken is not None,
            # What is shared may have been sent to somebody else.
            is_begun=item.is_repeated and item.qos > 0 and item.packet_id > 0,
        )
        if not may_receive(link, item.message.key):
            self._withhold(taken)
            return
        if encoded is None:
            self._drop(taken)
            return
        packet_id = (item.packet_id or self._free_id()) if item.qos else 0
        flags = flags_of(item.qos, retain=item.is_retained, dup=item.is_repeated and item.qos > 0)
        raw = link.codec.publish(encoded, flags, packet_id, item.identifiers)
        if raw is None:
            # Too large for this client: it counts as sent (3.1.2-25).
            self._drop(taken)
            return
        link.deliver(raw)
        link.desk.sys_topics.sent += 1
        link.charge(CONSUMER_BYTE_RATE, len(raw))
        if packet_id:
            self._under_way.begin(packet_id, item.qos)
            if taken is not None:
                self._taken[packet_id] = _sent(item, taken)
        elif taken is not None:
            self._settle(taken)

    def _withhold(self, taken: Taken | None) -> None:
        """The client must not have a message: of those that it shares, others get it."""
        if taken is not None and self._shares.subscribed(taken.feed) is not None:
            self._shares.give_up(taken.feed, taken.claim)
        else:
            self._drop(taken)

    def _drop(self, taken: Taken | None) -> None:
        self.link.desk.note_drop()
        if taken is not None:
            self._settle(taken)

    def _settle(self, taken: Taken) -> None:
        session = self.link.session
        if session is not None and taken.feed is session.feed:
            self._journal.forget(taken.offset)
        taken.feed.settle(taken)

    def begin_change(self) -> None:
        """A subscription of the session changes: it is not known yet as what a message is sent."""
        self._changes += 1

    def end_change(self) -> None:
        """It has changed."""
        self._changes -= 1
        self.go_on()

    def keep_as_sent(self, subscribed: Subscribed, on_done: OnDone) -> None:
        """Before a subscription changes: what is under way is sent again as it was sent."""
        matches = subscribed.name_filter.matches

        def find() -> list[Sent]:
            return [each for each in self._of_session() if matches(levels_of_key(each.key))]

        self._journal.keep_as_sent(find, on_done)

    def _of_session(self) -> Iterator[Sent]:
        """Yield what the client has, or is about to get, of its session's queue."""
        session = self.link.session
        if session is None:
            return
        waiting = [_sent(each, each.taken) for each in self._waiting if each.taken is not None]
        for each in (*self._taken.values(), *waiting):
            if each.taken.feed is session.feed:
                yield each

    def _free_id(self) -> int:
        """Return a packet id that is not in use: there are far more than messages under way."""
        while True:
            self._next_id = self._next_id + 1 if self._next_id < _ID_MAX else _SESSION_IDS + 1
            if not self._under_way.has(self._next_id):
                return self._next_id

    # -- what the client says

    def take(self, packet: Puback | Pubrec | Pubcomp) -> None:
        """Take an acknowledgement; after all that came together, call `go_on`."""
        packet_id = packet.packet_id
        match packet:
            case Puback():
                outcome = self._under_way.on_puback(packet_id)
            case Pubrec():
                outcome = self._under_way.on_pubrec(packet_id, packet.reason)
            case Pubcomp():
                outcome = self._under_way.on_pubcomp(packet_id)
        if outcome is _DONE:
            self._complete(packet_id)
        else:
            self._take_other(packet, outcome)

    def acknowledge(self, packet_ids: Sequence[int]) -> None:
        """Take PUBACKs that came together; then call `go_on`."""
        session, taken = self.link.session, self._taken
        own = session.feed if session is not None and self._journal.is_quiet else None
        on_puback = self._under_way.on_puback
        done: list[Taken] = []
        for packet_id in packet_ids:
            outcome = on_puback(packet_id)
            if outcome is not _DONE:
                self._take_other(Puback(packet_id=packet_id), outcome)
                continue
            sent = taken.get(packet_id) if own is not None else None
            if sent is None or sent.taken.feed is not own:
                self._complete(packet_id)
            else:
                del taken[packet_id]
                done.append(sent.taken)
        if own is not None:
            own.settle_all(done)

    def _take_other(self, packet: Puback | Pubrec | Pubcomp, outcome: Outcome) -> None:
        packet_id = packet.packet_id
        match outcome:
            case Outcome.REFUSED:
                self._complete(packet_id)
            case Outcome.RELEASE:
                self._release(packet_id)
            case Outcome.UNKNOWN:
                if isinstance(packet, Pubrec):
                    reason = ReasonCode.PACKET_ID_NOT_FOUND
                    self.link.send(Pubrel(packet_id=packet_id, reason=reason))
            case Outcome.MISPLACED:
                name = packet.packet_type.name
                self.link.fail(protocol_error(f"{name} answers another kind of message"))

    def _complete(self, packet_id: int) -> None:
        """The client is done with a message."""
        sent = self._taken.pop(packet_id, None)
        if sent is not None:
            self._settle(sent.taken)
        self._journal.complete(packet_id)

    def _release(self, packet_id: int) -> None:
        """QoS 2: the client has it, and nobody may send it again from now on."""
        link = self.link
        sent = self._taken.pop(packet_id, None)

        def on_noted(refusal: RequestRefused | None) -> None:
            if refusal is not None:
                link.desk.say(
                    f"an exchange of the client {link.client_id!r} is not kept: {refusal}"
                )
            link.send(Pubrel(packet_id=packet_id))

        if sent is None:
            # It is noted already, or nothing is kept.
            link.send(Pubrel(packet_id=packet_id))
        else:
            self._journal.release(packet_id, sent.taken, on_noted)

    def resume_release(self, packet_id: int) -> None:
        """The client has a message, and is owed PUBREL (4.4.0-1)."""
        self._under_way.resume(packet_id)
        self.link.send(Pubrel(packet_id=packet_id))

    def go_on(self) -> None:
        """There may be room for more."""
        if not self._is_idle():
            self.pump()
        for feed in self.feeds():
            feed.go_on()

    def feeds(self) -> list[Feed]:
        """Return the queues that messages come from."""
        session = self.link.session
        own = [] if session is None else [session.feed]
        return own + self._shares.feeds()

    def end(self) -> None:
        """The client is gone: give back what it was not sent, as if nobody had tried."""
        unsent: dict[Feed, list[Taken]] = {}
        for item in self._waiting:
            if item.taken is not None:
                unsent.setdefault(item.taken.feed, []).append(item.taken)
        self._waiting.clear()
        self._live.clear()
        self._retained.end()
        for feed, each in unsent.items():
            feed.release([taken.claim for taken in each])


def _item(
    message: LiveMessage, match: Match, taken: Taken | None, packet_id: int, *, is_repeated: bool
) -> _Item:
    qos = min(match.qos, message.qos)
    is_retained = match.as_published and message.is_retained
    return _Item(message, qos, is_retained, match.identifiers, is_repeated, taken, packet_id)


def _sent(item: _Item, taken: Taken) -> Sent:
    return Sent(taken, item.message.key, Match(item.qos, item.is_retained, item.identifiers))
