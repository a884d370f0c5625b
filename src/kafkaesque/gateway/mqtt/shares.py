"""Shared subscriptions of one client: each is a queue that its members take messages from.

Theory of operation. `$share/GROUP/FILTER` is the queue `mqtt.share.GROUP/FILTER`, bound to
`amq.topic`. Who subscribes first makes it; each member is one of its consumers, so that a message
is with one of them at a time, and comes to another one when that one is gone (section 4.8.2). It is
kept for as long as the sessions of those who have subscribed, also while none of them is there.

QoS 2 is not granted: an exchange of it would have to be completed by the same member, and messages
would wait for a client that may never come back (4.8.2-4).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST, NAME_BYTES_MAX
from kafkaesque.broker.options.queues import MQTT_SHARE
from kafkaesque.broker.requests.exchange_commands import BindDestination
from kafkaesque.broker.requests.queue_commands import ChangeQueue, CreateQueue
from kafkaesque.gateway.mqtt.desk import TIMEOUT_MS, Desk
from kafkaesque.gateway.mqtt.feed import Feed, FeedOwner
from kafkaesque.gateway.mqtt.sessions import DEDUPLICATION_MS, WAITING_BYTES_MAX, WAITING_MAX
from kafkaesque.gateway.mqtt.subscriptions import Subscribed
from kafkaesque.model.errors import InvalidRequest, QueueExists, RequestRefused, UnknownQueue
from kafkaesque.queues.requests import Claim
from kafkaesque.routing.exchanges.records import Destination
from kafkaesque.routing.exchanges.topology import NAMES_EXCHANGE

PREFIX: Final = "mqtt.share."
#: What is granted at most.
QOS_MAX: Final = 1

OnDone = Callable[[RequestRefused | None], None]


class ShareRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an option of the queue says."""

    version: int = 1
    group: str
    topic_filter: str
    #: The longest expiry of a member's session.
    expiry_s: int = 0


_decoder: Final = msgspec.json.Decoder(ShareRecord)


def share_of(queue: QueueState) -> ShareRecord | None:
    """Return which subscription a queue is shared by; None: by none."""
    said = queue.options.get(MQTT_SHARE)
    if not said:
        return None
    try:
        return _decoder.decode(said)
    except msgspec.MsgspecError:
        return None


def _write(record: ShareRecord) -> str:
    return msgspec.json.encode(record).decode()


class Shares:
    """All of one client."""

    __slots__ = ("_desk", "_feeds", "_is_over", "_owner", "_subscribed")

    def __init__(self, desk: Desk, owner: FeedOwner) -> None:
        self._desk: Final = desk
        self._owner: Final = owner
        #: By filter, as the client writes it.
        self._feeds: Final[dict[str, Feed]] = {}
        self._subscribed: Final[dict[Feed, Subscribed]] = {}
        self._is_over = False

    def feeds(self) -> list[Feed]:
        """Return where messages come from."""
        return list(self._subscribed)

    def subscribed(self, feed: Feed) -> Subscribed | None:
        """Return the subscription that a feed is for."""
        return self._subscribed.get(feed)

    def subscribe(self, group: str, subscribed: Subscribed, expiry_s: int, on_done: OnDone) -> None:
        """Become a member; `on_done` is told when messages are waited for."""
        text = subscribed.options.topic_filter
        known = self._feeds.get(text)
        if known is not None and not known.is_over:
            self._subscribed[known] = subscribed
            on_done(None)
            return
        record = ShareRecord(group=group, topic_filter=subscribed.pattern, expiry_s=expiry_s)
        name = f"{PREFIX}{group}/{subscribed.pattern}"
        if len(name.encode()) > NAME_BYTES_MAX:
            on_done(InvalidRequest("the group and the filter together are too long"))
            return

        def on_there(refusal: RequestRefused | None) -> None:
            queue = self._desk.look(name)
            if refusal is not None or queue is None:
                on_done(refusal or UnknownQueue(f"the queue {name} is gone"))
            else:
                self._attach(queue, subscribed, on_done)

        # One that is not heard of may be new.
        self._desk.when_current(lambda: self._make(name, record, subscribed, on_there))

    def _make(
        self, name: str, record: ShareRecord, subscribed: Subscribed, on_done: OnDone
    ) -> None:
        """Let the queue exist, and be kept for long enough."""
        desk = self._desk
        queue = desk.look(name)
        before = None if queue is None else share_of(queue)
        if queue is not None and before is None:
            on_done(InvalidRequest(f"the queue {name} is in the way: it is no subscription"))
        elif before is not None and before.expiry_s >= record.expiry_s:
            on_done(None)
        elif before is not None:
            changes: dict[str, str | None] = {MQTT_SHARE: _write(record)}
            change = ChangeQueue(vhost=DEFAULT_VHOST, name=name, changes=changes)
            desk.submit(change, on_done)
        else:
            options = {
                MQTT_SHARE: _write(record),
                "deduplication.ms": str(DEDUPLICATION_MS),
                "max.length": str(WAITING_MAX),
                "max.length.bytes": str(WAITING_BYTES_MAX),
                "undeliverable": "drop",
            }
            create = CreateQueue(vhost=DEFAULT_VHOST, name=name, options=options)

            def on_made(refusal: RequestRefused | None) -> None:
                if refusal is None or isinstance(refusal, QueueExists):
                    desk.when(
                        lambda: desk.look(name) is not None,
                        lambda: self._bind(name, subscribed, on_done),
                    )
                else:
                    on_done(refusal)

            desk.submit(create, on_made)

    def _bind(self, name: str, subscribed: Subscribed, on_done: OnDone) -> None:
        desk = self._desk
        command = BindDestination(
            vhost=DEFAULT_VHOST,
            source=NAMES_EXCHANGE,
            destination=Destination(name),
            key=subscribed.binding_key,
        )

        def on_bound(outcome: object) -> None:
            refusal = outcome if isinstance(outcome, RequestRefused) else None
            desk.when_current(lambda: on_done(refusal))

        desk.doors.exchanges.submit(command, TIMEOUT_MS, on_bound)

    def _attach(self, queue: QueueState, subscribed: Subscribed, on_done: OnDone) -> None:
        feed = Feed(self._desk, queue, self._owner)

        def on_attached(refusal: RequestRefused | None) -> None:
            if refusal is not None:
                on_done(refusal)
                return
            if self._is_over:
                feed.end()
                return
            self._feeds[subscribed.options.topic_filter] = feed
            self._subscribed[feed] = subscribed
            on_done(None)
            feed.go_on()

        feed.attach(on_attached)

    def unsubscribe(self, topic_filter: str, on_done: Callable[[], None]) -> None:
        """Be no member any more; what was sent may still be answered."""
        feed = self._feeds.pop(topic_filter, None)
        if feed is None:
            on_done()
            return
        self._subscribed.pop(feed, None)
        feed.end(then=on_done)

    def give_up(self, feed: Feed, claim: Claim) -> None:
        """Share no more: the client must not have a message, which others may."""
        subscribed = self._subscribed.pop(feed, None)
        if subscribed is not None:
            self._feeds.pop(subscribed.options.topic_filter, None)
        feed.release([claim])
        feed.end()

    def lose(self, feed: Feed) -> bool:
        """A queue is gone; say whether it was one of these."""
        subscribed = self._subscribed.pop(feed, None)
        if subscribed is not None:
            self._feeds.pop(subscribed.options.topic_filter, None)
        return subscribed is not None

    def end(self) -> None:
        """The client is gone: others get what it has not answered."""
        self._is_over = True
        for feed in self.feeds():
            feed.end()
        self._feeds.clear()
        self._subscribed.clear()
